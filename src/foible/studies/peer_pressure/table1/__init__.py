"""Paper 1's Table 1: how often, in how many moves and at what cost each of five networks errs."""
