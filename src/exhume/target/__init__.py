"""What the adversary holds: weights, how far they moved, and what else is known."""
