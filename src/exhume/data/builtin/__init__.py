"""Data sets that exhume knows by name."""
