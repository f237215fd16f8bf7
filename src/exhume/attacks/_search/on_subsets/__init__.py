"""Steps on random subsets of the coordinates, untested: the first phases of starts."""
