"""From rows that a search found to a proposal: polish, signs, norms, labels, drift."""
