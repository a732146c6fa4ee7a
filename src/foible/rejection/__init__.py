"""Can it be told? Scores that tell fooling images from real ones, and a rule that refuses the strange ones."""
