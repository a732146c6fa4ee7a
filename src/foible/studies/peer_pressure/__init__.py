"""The studies of paper 1: peer pressure."""
