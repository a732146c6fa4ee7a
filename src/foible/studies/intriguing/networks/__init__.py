"""Paper 3's networks: trained here, and kept for the studies."""
