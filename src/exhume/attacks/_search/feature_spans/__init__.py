"""The search in feature spans, and the prior of its rows."""
