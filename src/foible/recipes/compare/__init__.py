"""Compare: labelled images as they are, judged by several networks."""
