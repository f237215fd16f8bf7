"""The search of `replay`: the training that it simulates, where it starts, and its phases."""
