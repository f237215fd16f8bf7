"""Searches: how samples that solve an equation are found."""
