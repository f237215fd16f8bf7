"""Benchmarks that print the tables of the documentation: `python -m benches NAME`."""
