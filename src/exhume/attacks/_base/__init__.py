"""What all attacks share: the call, the problem, budgets and checkpoints."""
