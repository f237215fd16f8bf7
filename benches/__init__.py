"""Benches: tables that compare two sides on the same problem, in one run."""
