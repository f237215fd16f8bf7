"""Columns of a displacement that are missing, where some are known."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from exhume.attacks._base.unmix_tuning import UnmixTuning
from exhume.attacks._search.unmixing.columns import fit_inputs, narrow
from exhume.attacks._search.unmixing.missing_columns import columns_nearby, missing_columns, space_of_missing
from exhume.attacks._search.unmixing.mixture import Mixture, distinct
from exhume.attacks._search.unmixing.search import UnmixSearch, UnmixState
from exhume.target.dense_displacement import dense_displacement
from exhume.target.network_weights import NetworkWeights

DIM, NEURONS, SAMPLES, MISSING = 60, 300, 20, 3


@pytest.fixture(scope="module")
def problem():
    """A mixture, and the true vectors (n, n) of its columns."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(DIM, NEURONS), nn.ReLU(), nn.Linear(NEURONS, 100), nn.ReLU(), nn.Linear(100, 5))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    inputs, labels = torch.randn(SAMPLES, DIM), torch.arange(SAMPLES) % 5
    optimiser = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()
    moved = dense_displacement(NetworkWeights(model.eval(), "4", tuple(before), before), (DIM,))
    rows = torch.cat([inputs, torch.ones(SAMPLES, 1)], 1).double() @ moved.spectrum.right.T
    vectors = (moved.spectrum.sizes[:, None] * torch.linalg.inv(rows)).T
    return Mixture(moved, UnmixTuning()), nn.functional.normalize(vectors, dim=1)


def test_small_entries_hardly_move_the_input_that_fits_a_column(problem):
    mixture, vectors = problem
    true = nn.functional.normalize(mixture.dual_basis(vectors), dim=1)
    zeros, sizes, everywhere = mixture.zeros(vectors), mixture.columns(vectors).abs(), torch.eye(SAMPLES).double()
    between = zeros & (torch.rand(zeros.shape, generator=torch.Generator().manual_seed(0)) < 0.4)
    zeros, sizes = zeros & ~between, torch.where(between, 0.02, sizes / sizes.mean(1, keepdim=True))
    plain, fitted = (fit_inputs(mixture, zeros, everywhere, each)[0] for each in (None, sizes))
    errors = [float((1 - (rows * true).sum(1).abs()).median()) for rows in (plain, fitted)]
    assert errors[1] < 0.5 * errors[0]


def test_missing_columns_lie_near_the_space_that_known_ones_leave(problem):
    mixture, vectors = problem
    space = space_of_missing(mixture, vectors[MISSING:])
    assert space.shape == (SAMPLES, MISSING)
    inside = (vectors @ space).norm(dim=1)
    assert float(inside[:MISSING].min()) > 0.95  # a random vector has 0.39
    assert float(inside[MISSING:].max()) < 0.95


@pytest.mark.parametrize(("missing", "at_least"), [(MISSING, 3), (14, 6)])
def test_missing_columns_are_found_exactly(problem, missing, at_least):
    mixture, vectors = problem
    found = missing_columns(mixture, vectors[missing:], 24, torch.Generator().manual_seed(0))
    cosines = (found.vectors[found.alone] @ vectors.T).abs()
    assert cosines.amax(1).tolist() == pytest.approx([1.0] * len(cosines), abs=1e-6)
    assert sum(index < missing for index in set(cosines.argmax(1).tolist())) >= at_least


def test_starts_that_end_at_the_same_vector_are_finished_once(problem):
    mixture, vectors = problem
    found = missing_columns(mixture, vectors[1:], 24, torch.Generator().manual_seed(0))
    assert 0 < len(found.vectors) < 12


def test_a_column_is_found_next_to_a_vector_near_it_among_neurons_that_its_input_leaves_inactive(problem):
    mixture, vectors = problem
    noise = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(0)).double()
    near = nn.functional.normalize(vectors + 0.003 * nn.functional.normalize(noise, dim=1), dim=1)
    found = columns_nearby(mixture, mixture.inputs_of(vectors), near)
    assert (found.vectors * vectors).sum(1).tolist() == pytest.approx([1.0] * SAMPLES, abs=1e-8)
    assert bool(found.alone.all())


def test_a_vector_vanishes_only_on_neurons_among_which_it_may(problem):
    mixture, vectors = problem
    among = mixture.zeros(vectors).clone()
    among[0], among[0, :5] = False, True  # fewer than determine a vector
    found = narrow(mixture, vectors.roll(1, 0), [1e-2], among)
    columns = mixture.columns(found).abs()
    assert float(columns[0, :5].max()) < 1e-6
    assert int((columns[0] < 1e-6).sum()) < SAMPLES


def test_vectors_are_distinct_in_the_order_given(problem):
    _, vectors = problem
    some = torch.cat([vectors[:3], -vectors[1:2]])
    assert distinct(some, torch.tensor([3, 2, 1, 0]), 0.98).tolist() == [3, 2, 0]
    assert distinct(some, torch.tensor([0, 1, 2, 3]), 0.98, vectors[2:4]).tolist() == [0, 1]


def test_checks_of_columns_count_as_passes(problem):
    mixture, vectors = problem
    counted: list[int] = []
    search = UnmixSearch(SimpleNamespace(features=SimpleNamespace(count=counted.append)), mixture)
    state = search._checked(UnmixState(vectors, vectors[:0]), torch.Generator().manual_seed(0))
    assert state.complete
    assert sum(counted) == 2 * SAMPLES**2
