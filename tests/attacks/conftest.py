"""What several tests of attacks share."""

import pytest
import torch

from exhume.attacks._base.problem import Problem
from exhume.attacks._base.session import Session
from exhume.features import PassCounter


@pytest.fixture
def problem_of():
    """Makes of a target the problem that an attack's `run` is given."""
    return lambda target, count: Problem(target, target.features.with_counter(PassCounter()), count)


@pytest.fixture
def session_of():
    """Makes a session of a problem, without a budget or a checkpoint."""
    return lambda problem: Session(problem.features, torch.Generator().manual_seed(0))
