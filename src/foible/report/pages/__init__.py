"""The part of the report that is a recipe's own, one file each."""
