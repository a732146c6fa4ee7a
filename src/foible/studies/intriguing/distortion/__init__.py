"""Paper 3's Tables 1 to 4 and Figure 5: minimal distortions, and who else is fooled by them."""
