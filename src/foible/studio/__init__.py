"""Studio: one local page to look through findings, and to let people label them blind."""
