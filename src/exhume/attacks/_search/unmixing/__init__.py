"""Searches for the columns of a dense first layer: by exact zeros (ReLU), or sample by sample (smooth activations)."""
