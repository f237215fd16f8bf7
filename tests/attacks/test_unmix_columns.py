"""Columns of a ReLU layer's displacement: mixtures are repaired, repeated ones are recognised."""

import math

import pytest
import torch
from torch import nn

from exhume.attacks._base.unmix_tuning import UnmixTuning
from exhume.attacks._finish.column_ambiguity import spoiled_inputs
from exhume.attacks._search.unmixing.mixture import Mixture
from exhume.attacks._search.unmixing.repair import repair
from exhume.target.dense_displacement import dense_displacement
from exhume.target.network_weights import NetworkWeights

DIM, NEURONS, SAMPLES = 30, 150, 6


@pytest.fixture
def problem():
    """A mixture, and the true vectors (n, n) of its columns."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(DIM, NEURONS), nn.ReLU(), nn.Linear(NEURONS, 4))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    inputs, labels = torch.randn(SAMPLES, DIM), torch.arange(SAMPLES) % 4
    optimiser = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(30):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()
    moved = dense_displacement(NetworkWeights(model.eval(), "2", tuple(before), before), (DIM,))
    rows = torch.cat([inputs, torch.ones(SAMPLES, 1)], 1).double() @ moved.spectrum.right.T
    vectors = (moved.spectrum.sizes[:, None] * torch.linalg.inv(rows)).T
    return Mixture(moved, UnmixTuning()), nn.functional.normalize(vectors, dim=1)


def test_a_mixture_of_two_columns_is_replaced_by_the_column(problem):
    mixture, vectors = problem
    mixed = vectors.clone()
    mixed[2] = nn.functional.normalize(vectors[2] + 0.6 * vectors[4], dim=0)
    assert not bool(mixture.agreement(mixed, mixture.inputs_of(mixed)).consistent(mixture.tuning).all())
    repaired = repair(mixture, mixed, torch.Generator().manual_seed(0))
    assert (repaired * vectors).sum(1).abs().tolist() == pytest.approx([1.0] * SAMPLES, abs=1e-6)


def test_right_columns_are_left_alone(problem):
    mixture, vectors = problem
    assert torch.equal(repair(mixture, vectors, torch.Generator().manual_seed(0)), vectors)


def test_a_column_that_rounding_moved_is_not_a_second_one(problem):
    mixture, vectors = problem
    mixture.noise = 0.02 * float(mixture.sizes[-1]) / (6 * math.sqrt(NEURONS))
    shifted = nn.functional.normalize(vectors[:1] + 0.1 * mixture.threshold(vectors)[:1] * vectors[1:2], dim=1)
    assert mixture.independent(torch.cat([vectors, shifted])) == list(range(SAMPLES))
    assert mixture.independent(torch.cat([vectors[:1], shifted, vectors[1:]])) == [0, *range(2, SAMPLES + 1)]


def test_a_vector_without_zeros_has_no_evidence(problem):
    mixture, vectors = problem
    other = nn.functional.normalize(vectors.sum(0, keepdim=True), dim=1)
    assert float(mixture.evidence(vectors).min()) > mixture.tuning.evidence > float(mixture.evidence(other))
    assert int(mixture.net_zeros(vectors).min()) > int(mixture.net_zeros(other))


def test_a_column_that_one_zero_alone_determines_is_open(problem):
    mixture, vectors = problem
    closed = spoiled_inputs(mixture, vectors)
    assert float(closed.max()) < 1e-3
    # Column 1 is made zero at all zeros of column 0 but one, so that only this one forbids any mixture of the two.
    zeros = mixture.zeros(vectors)[0].nonzero()[:, 0]
    columns = mixture.columns(vectors)
    columns[1, zeros[1:]] = 0.0
    basis, _ = torch.linalg.qr(columns.T)
    mixture.basis = basis * math.sqrt(mixture.num_neurons)
    coordinates = nn.functional.normalize(columns @ basis, dim=1)
    assert float(spoiled_inputs(mixture, coordinates)[1, 0]) > 0.1
