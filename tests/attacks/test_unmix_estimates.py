"""Columns next to estimates of their samples: known columns leave the equation, and choices are judged by inputs."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import exhume
from exhume import data
from exhume.attacks._base.problem import Problem
from exhume.attacks._base.unmix_tuning import UnmixTuning
from exhume.attacks._search.unmixing.columns import Candidates, leverage_margin
from exhume.attacks._search.unmixing.estimates import Estimation, completed, repeated
from exhume.attacks._search.unmixing.mixture import Mixture
from exhume.attacks._search.unmixing.sample_spaces import InputFrame, Nodes, ReadNetwork
from exhume.support import checkpoint
from exhume.target.dense_displacement import dense_displacement
from exhume.target.first_layer import first_layer

DIM, COUNT = 64, 12


@pytest.fixture(scope="module")
def victim():
    """A target of eight neurons for each of twelve digits, and these."""
    digits = data.load("digits", samples=COUNT, labels="one-hot")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(DIM, 8 * COUNT), nn.ReLU(), nn.Linear(8 * COUNT, 10))
    before = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(digits.inputs), digits.labels.argmax(1)).backward()
        optimiser.step()
    return exhume.Target.last_layer(model.eval(), initial_head=before, input_shape=(DIM,)), digits.inputs


@pytest.fixture(scope="module")
def parts(victim):
    """The displacement, its mixture, and the true vectors and inputs in coordinates."""
    target, samples = victim
    moved = dense_displacement(target.known_model, (DIM,))
    rows = torch.cat([samples, torch.ones(COUNT, 1)], 1).double() @ moved.spectrum.right.T
    vectors = nn.functional.normalize((moved.spectrum.sizes[:, None] * torch.linalg.inv(rows)).T, dim=1)
    return moved, Mixture(moved, UnmixTuning()), vectors, rows


def candidates(mixture, vectors):
    zeros = mixture.zeros(vectors)
    return Candidates(vectors, zeros, torch.ones(len(vectors), dtype=torch.bool), mixture.net_zeros(vectors))


def test_off_known_columns_the_displacement_has_the_other_inputs_as_rows(parts):
    moved, _, vectors, rows = parts
    known = moved.spectrum.left @ vectors[:5].T
    frame = InputFrame.of(moved, known)
    assert frame.rank == COUNT - 5
    whole = rows @ moved.spectrum.right  # [x 1]
    inside = whole @ torch.linalg.pinv(frame.right) @ frame.right
    off = (inside - whole).norm(dim=1) / whole.norm(dim=1)
    assert float(off[5:].max()) < 1e-4
    assert float(off[:5].min()) > 1e-2
    assert float((known.T @ frame.basis).norm()) < 1e-8


def test_spaces_are_projected_off_known_columns_with_their_derivatives(victim, parts):
    target, _ = victim
    moved, _, vectors, _ = parts
    known = moved.spectrum.left @ vectors[:5].T
    network = ReadNetwork(target.known_model, moved, (DIM,), sharpness=4.0)
    nodes = Nodes(network, InputFrame.of(moved, known), network.straight([0.5]))
    inputs = nodes.frame.origin + torch.randn(3, len(nodes.frame.origin), dtype=torch.float64)
    spaces = nodes.spaces(inputs)
    coefficients = torch.ones(spaces.vectors.shape[:2], dtype=torch.float64)
    changes = spaces.derivative(coefficients, nodes.ways)
    assert float((spaces.vectors @ known).norm()) < 1e-8
    assert float((changes @ known).norm()) < 1e-8
    step = 1e-5
    for way in (0, 3):
        ahead = nodes.spaces(inputs + step * nodes.frame.directions[:, way])
        moved_by = ((ahead.vectors * ahead.scale - spaces.vectors * spaces.scale) / spaces.scale).sum(1) / step
        # The slope of the smoothed ReLU is relative to the spread of a row, which the derivative leaves alone.
        assert float((moved_by - changes[:, way]).norm()) < 0.1 * float(changes[:, way].norm())


def test_a_zero_that_alone_forbids_a_mixture_leaves_nothing_open(parts):
    _, mixture, vectors, _ = parts
    right = leverage_margin(mixture, vectors, mixture.zeros(vectors))
    assert float(right.median()) > mixture.tuning.leverage
    columns = mixture.columns(vectors)
    zeros = mixture.zeros(vectors)
    common = zeros[0] & zeros[1]
    at = int((columns[1].abs() * ~zeros[0]).argmax())
    mixed = nn.functional.normalize(vectors[0] - columns[0, at] / columns[1, at] * vectors[1], dim=0)[None]
    common[at] = True
    assert float(leverage_margin(mixture, mixed, common[None])) < mixture.tuning.least_leverage


def test_only_vectors_that_are_reached_so_many_times_are_taken_the_most_frequent_first(parts):
    _, mixture, vectors, _ = parts
    reached = torch.cat([vectors[:1].expand(3, -1), vectors[1:2], -vectors[2:3].expand(4, -1)])
    assert torch.equal(repeated(mixture, reached, 3), torch.stack([-vectors[2], vectors[0]]))
    assert len(repeated(mixture, reached, 5)) == 0


def test_of_all_choices_the_one_that_fits_the_inputs_best_is_taken(parts):
    _, mixture, vectors, _ = parts
    mixed = nn.functional.normalize(vectors[-1] + 0.5 * vectors[0], dim=0)[None]
    found = candidates(mixture, torch.cat([mixed, vectors[-2:]]))
    found = replace(found, net_zeros=torch.tensor([99, 98, 97]))  # the mixture is tried first
    whole = completed(mixture, vectors[:-2], found)
    assert whole is not None
    assert (whole @ vectors.T).abs().amax(0).tolist() == pytest.approx([1.0] * COUNT, abs=1e-6)


def test_a_choice_that_contradicts_its_inputs_is_none(parts):
    _, mixture, vectors, _ = parts
    random = nn.functional.normalize(torch.randn(2, COUNT, dtype=torch.float64), dim=1)
    found = replace(candidates(mixture, random), net_zeros=torch.tensor([99, 98]))
    assert completed(mixture, vectors[:-2], found) is None


def test_the_path_of_training_is_simulated_with_the_samples_of_known_columns(victim, parts):
    target, samples = victim
    moved, mixture, vectors, rows = parts
    known = vectors[:-2] * torch.tensor([1.0, -1.0]).repeat(5)[:, None]  # the sign of a column is not known
    estimation = Estimation(Problem(target, target.features, None), mixture, moved)
    state = estimation.begin(known, torch.Generator().manual_seed(0))
    search = estimation.search(state)
    right = rows[-2:] @ moved.spectrum.right @ torch.linalg.pinv(search.frame.right)
    used = search.samples(right)
    off = (used - torch.cat([samples[-2:], samples[:-2]])).norm(dim=1) / samples.norm(dim=1).mean()
    assert float(off[:2].max()) < 1e-3
    assert float(off[2:].max()) < 0.3


def test_networks_whose_relus_cannot_be_made_smooth_are_not_estimated(parts):
    class Clamp(nn.Module):
        def forward(self, values):
            return values.clamp(min=0)

    moved, mixture, _, _ = parts
    model = nn.Sequential(nn.Linear(DIM, 8 * COUNT), Clamp(), nn.Linear(8 * COUNT, 10))
    before = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    before["2.weight"] = before["2.weight"] + 0.1
    target = exhume.Target.last_layer(model.eval(), initial_head=before, input_shape=(DIM,))
    moved = replace(moved, first=first_layer(model, (DIM,)))
    assert not Estimation(Problem(target, target.features, None), mixture, moved).possible


def test_estimates_need_the_weights_of_all_layers_before_training(victim, parts):
    target, _ = victim
    moved, mixture, _, _ = parts
    assert Estimation(Problem(target, target.features, None), mixture, moved).possible
    model = target.known_model
    some = {name: value for name, value in model.initial.items() if name != "2.bias"}
    blind = exhume.Target.last_layer(model.module, initial_head=some, input_shape=(DIM,))
    assert not Estimation(Problem(blind, blind.features, None), mixture, moved).possible


@pytest.fixture(scope="module")
def few_neurons():
    """A target of four neurons for each of twelve samples, and these."""
    count, dim, classes = 12, 30, 4
    torch.manual_seed(1)
    inputs, labels = torch.randn(count, dim) + 0.7 * torch.randn(1, dim), torch.arange(count) % classes
    model = nn.Sequential(nn.Linear(dim, 4 * count), nn.ReLU(), nn.Linear(4 * count, classes))
    before = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimiser.step()
    return exhume.Target.last_layer(model.eval(), initial_head=before, input_shape=(dim,)), inputs


def test_four_neurons_a_sample_give_all_samples_back_where_random_inputs_give_none(few_neurons, monkeypatch):
    target, inputs = few_neurons
    assert exhume.score(exhume.reconstruct(target, method="unmix"), inputs).recovered == len(inputs)
    monkeypatch.setattr(Estimation, "possible", False)
    assert exhume.score(exhume.reconstruct(target, method="unmix", max_passes=10_000), inputs).recovered == 0


def test_a_search_that_is_cut_next_to_estimates_ends_as_an_uninterrupted_one(few_neurons, tmp_path, monkeypatch):
    target, _ = few_neurons
    settings = {"method": "unmix", "max_passes": 6_000}
    whole = exhume.reconstruct(target, **settings)
    calls, columns = [], Estimation.columns

    def cut(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return columns(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "EVERY_SECONDS", 0.0)
        patched.setattr(Estimation, "columns", cut)
        with pytest.raises(KeyboardInterrupt):
            exhume.reconstruct(target, **settings, checkpoint=tmp_path / "state.safetensors")
    again = exhume.reconstruct(target, **settings, checkpoint=tmp_path / "state.safetensors", resume=True)
    assert (again.passes, again.stop) == (whole.passes, whole.stop)
    assert torch.equal(again.samples, whole.samples)
