"""Data sets made of the user's own files."""
