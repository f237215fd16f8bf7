"""Activations for which the theorems do not hold."""

import pytest
import torch

from exhume.activations import Activation


@pytest.fixture
def linear():
    """phi(z) = z, the paper's own counterexample to Theorem 1."""
    return Activation("linear", lambda z: z.clone(), torch.ones_like, "odd", 1)
