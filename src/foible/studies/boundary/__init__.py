"""Paper 4: networks and people on images between two classes."""
