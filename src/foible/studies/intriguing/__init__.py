"""The studies of paper 3: intriguing properties."""
