"""Paper 3's Figure 6: distortions of a classifier on features that were learnt without labels."""
