"""Networks from what a user writes, `[NAME=]SPEC`: files, programs, hubs."""
