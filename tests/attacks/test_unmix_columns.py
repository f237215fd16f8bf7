"""Columns of a ReLU layer's displacement: mixtures are repaired, repeated ones are recognised, some are enough."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from exhume.attacks._base.unmix_tuning import UnmixTuning
from exhume.attacks._finish.column_ambiguity import may_be_chance, spoiled_inputs
from exhume.attacks._finish.unmixed import _certificate, _determined, partial_inputs
from exhume.attacks._search.unmixing import search as unmix_search
from exhume.attacks._search.unmixing.columns import explained_energy, settle, sharpen
from exhume.attacks._search.unmixing.few_neurons import direct_readout
from exhume.attacks._search.unmixing.mixture import Mixture, Weighting
from exhume.attacks._search.unmixing.repair import repair
from exhume.attacks._search.unmixing.sample_spaces import ReadNetwork
from exhume.attacks._search.unmixing.search import UnmixSearch, UnmixState
from exhume.results.stop import Stop
from exhume.target.dense_displacement import dense_displacement
from exhume.target.network_weights import NetworkWeights

DIM, NEURONS, SAMPLES = 30, 150, 6


def trained(*above):
    """A network of a ReLU layer and the layers above it, trained on six samples, and these samples."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(DIM, NEURONS), nn.ReLU(), *above)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    inputs, labels = torch.randn(SAMPLES, DIM), torch.arange(SAMPLES) % 4
    optimiser = torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(30):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()
    head = str(len(model) - 1)
    return NetworkWeights(model.eval(), head, tuple(before), before), inputs


@pytest.fixture
def problem():
    """A mixture, and the true vectors (n, n) of its columns."""
    torch.manual_seed(1)
    network, inputs = trained(nn.Linear(NEURONS, 4))
    moved = dense_displacement(network, (DIM,))
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


def test_an_entry_that_is_small_is_not_taken_for_a_zero(problem):
    mixture, vectors = problem
    columns, zeros = mixture.columns(vectors), mixture.zeros(vectors)
    some = zeros[2].nonzero()[:13, 0]  # so few that one more row would change the vector
    kept = ~zeros[2]
    kept[some] = True
    columns[2, some[0]] = 2e-4 * float(columns[2].abs().mean())
    columns, zeros = columns[:, kept], zeros[:, kept]
    mixture.num_neurons = columns.shape[1]
    basis, _ = torch.linalg.qr(columns.T)
    mixture.basis = basis * math.sqrt(mixture.num_neurons)
    found = settle(mixture, nn.functional.normalize(columns @ basis, dim=1))
    assert bool(found.alone[2])
    assert int(found.zeros[2].sum()) == len(some) - 1


def test_the_column_of_an_input_is_found_from_the_column_of_another(problem):
    mixture, vectors = problem
    inputs = mixture.inputs_of(vectors)
    even = Weighting(*[torch.ones(SAMPLES, 1).double() * power for power in (1.0, 0.0, 0.0, 0.0, 1.0)])
    found = sharpen(mixture, inputs, vectors.roll(1, 0), mixture.inactivity(inputs, even), even)
    assert (found * vectors).sum(1).abs().tolist() == pytest.approx([1.0] * SAMPLES, abs=1e-6)


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


def test_zeros_that_agree_on_a_mixture_by_chance_do_not_determine_a_column(problem):
    mixture, vectors = problem
    limit = math.log(1e-3)
    assert not bool(may_be_chance(mixture, vectors, limit).any())
    # The multiple of column 4 is chosen such that the mixture vanishes at one neuron where column 4 does not.
    columns = mixture.columns(vectors)
    at = int((columns[4].abs() * ~mixture.zeros(vectors)[2]).argmax())
    mixed = vectors.clone()
    mixed[2] = nn.functional.normalize(vectors[2] - columns[2, at] / columns[4, at] * vectors[4], dim=0)
    assert bool(mixture.zeros(mixed)[2, at])
    assert may_be_chance(mixture, mixed, limit).tolist() == [False, False, False, False, True, False]


def test_if_one_column_is_missing_its_input_is_exact_and_the_others_are_near(problem):
    mixture, vectors = problem
    truth = mixture.inputs_of(vectors)
    found = nn.functional.normalize(partial_inputs(mixture, vectors[:-1]), dim=1)
    cosines = (found * nn.functional.normalize(truth, dim=1)).sum(1)
    assert float(cosines[-1].abs()) == pytest.approx(1.0, abs=1e-8)
    assert float(cosines[:-1].min()) > 0.99


def test_a_single_missing_column_is_estimated_from_its_input(problem):
    mixture, vectors = problem
    search = UnmixSearch(None, mixture)
    session = SimpleNamespace(generator=torch.Generator().manual_seed(0))
    found = search.give_up(UnmixState(vectors[1:], vectors[:0]), Stop.STARTS_SPENT, session)
    assert found.num_samples == SAMPLES - 1  # an estimate does not count as found
    assert float(found.rows[-1] @ vectors[0]) ** 2 == pytest.approx(1.0, abs=1e-6)
    assert len(search.give_up(UnmixState(vectors[2:], vectors[:0]), Stop.STARTS_SPENT, session).rows) == SAMPLES - 2
    moved = dense_displacement(trained(nn.Linear(NEURONS, 4))[0], (DIM,))
    assert _certificate(moved, mixture, found, None).residual == pytest.approx(1 / SAMPLES)  # the share that is missing


def test_outputs_that_read_the_layer_directly_show_their_weights():
    network, _ = trained(nn.Linear(NEURONS, 4))
    moved = dense_displacement(network, (DIM,))
    found = direct_readout(ReadNetwork(network, moved, (DIM,)))
    middle = 0.5 * (network.initial["2.weight"] + network.module[2].weight.detach()).double()
    middle = middle - middle.mean(0)  # the errors of cross-entropy sum to zero
    assert found is not None
    assert found.shape == (3, NEURONS)
    assert torch.allclose(found.T @ found, middle.T @ middle, atol=1e-9)


def test_behind_further_neurons_outputs_show_no_weights():
    network, _ = trained(nn.Linear(NEURONS, 20), nn.ReLU(), nn.Linear(20, 4))
    moved = dense_displacement(network, (DIM,))
    assert direct_readout(ReadNetwork(network, moved, (DIM,))) is None


def test_energy_is_the_least_squares_misfit_of_the_weights_of_active_neurons(problem):
    mixture, vectors = problem
    generator = torch.Generator().manual_seed(0)
    mixture.readout = torch.randn((2, mixture.num_neurons), generator=generator, dtype=torch.float64)
    inputs = mixture.inputs_of(vectors)
    inactive = torch.rand((SAMPLES, mixture.num_neurons), generator=generator)
    energy = explained_energy(mixture, inputs, inactive + 0.3).double()
    for form, vector, given, shares in zip(energy, vectors, inputs, inactive.double() + 0.3, strict=True):
        active = 0.5 * sum((each > 0).double() for each in mixture.activations(given[None]))[0]
        column, rows = mixture.basis @ vector, (mixture.readout * active).T
        root = shares.sqrt()[:, None]
        fit = torch.linalg.lstsq(root * rows, root[:, 0] * column).solution
        misfit = (shares * (column - rows @ fit).square()).sum()
        assert float(vector @ form @ vector) == pytest.approx(float(misfit), rel=5e-3)


def test_a_neuron_counts_less_as_inactive_the_further_it_moved(problem):
    mixture, vectors = problem
    inputs, one = mixture.inputs_of(vectors), torch.ones((SAMPLES, 1), dtype=torch.float64)
    plain, by_movement = (
        mixture.inactivity(inputs, Weighting(one, power * one, 0 * one, 0 * one, one)) for power in (0.0, 1.0)
    )
    moved = torch.linalg.vector_norm(mixture.basis * mixture.sizes, dim=1)
    assert torch.allclose(by_movement * moved, plain * moved.median())
    assert bool((by_movement[plain > 0] != plain[plain > 0]).any())


def test_a_last_column_that_depends_on_the_others_is_left_out(problem, monkeypatch):
    mixture, vectors = problem
    known = vectors[1:]
    monkeypatch.setattr(
        unmix_search, "columns_of_inputs", lambda *_: settle(mixture, known[:1].expand(2 * mixture.tuning.batch, -1))
    )
    session = SimpleNamespace(generator=torch.Generator().manual_seed(0))
    found = UnmixSearch(None, mixture).give_up(UnmixState(known, vectors[:0]), Stop.STARTS_SPENT, session)
    assert torch.equal(found.rows, known)


def test_a_column_with_zeros_that_any_vector_can_be_given_is_not_determined(problem):
    mixture, vectors = problem
    assert _determined(mixture, vectors).tolist() == [True] * SAMPLES
    rows = mixture.basis[torch.arange(SAMPLES - 1) * 7]  # any n - 1 neurons
    vectors = vectors.clone()
    vectors[2] = torch.linalg.svd(rows)[2][-1]
    assert _determined(mixture, vectors).tolist() == [True, True, False, True, True, True]
