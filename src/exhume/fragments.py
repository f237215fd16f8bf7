"""Fragments of HTML that objects show themselves with in a notebook; every text in them is escaped."""
