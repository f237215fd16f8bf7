"""Replay recovers samples from trainings by SGD and Adam, fits unknown numbers, and certifies nothing wrong."""

from functools import cache

import pytest
import torch
from torch import nn

import exhume
from exhume import Knowledge, Recipe, Target
from exhume.attacks import fitting
from exhume.attacks import replay as replaying
from exhume.attacks._search.layers import LayersSearch
from exhume.attacks._search.replaying import search as searching
from exhume.attacks._search.replaying.start import exchanged, placed
from exhume.equation.replay import ReplayEquation
from exhume.errors import InputError
from exhume.training import losses
from exhume.training.simulation import Simulation, Unknowns

SAMPLES, LABELS = 2, torch.tensor([0, 1])
SGD = Recipe(learning_rate=0.2, steps=8)
ADAM = Recipe(optimiser="adam", learning_rate=0.02, steps=12)


@cache
def victim(adam=False, decay=0.0):
    """A GELU network, its samples, and the weights before training."""
    torch.manual_seed(0)
    dim = 5 if adam else 6
    model = nn.Sequential(nn.Linear(dim, 60), nn.GELU(), nn.Linear(60, 2))
    samples = torch.randn(SAMPLES, dim)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    sgd = torch.optim.SGD(model.parameters(), 0.2, weight_decay=decay)
    steps = torch.optim.Adam(model.parameters(), 0.02) if adam else sgd
    for _ in range(12 if adam else 8):
        steps.zero_grad()
        nn.functional.cross_entropy(model(samples), LABELS).backward()
        steps.step()
    return model.eval(), samples, before


def target(adam=False, before=None, decay=0.0, **known):
    model, samples, initial = victim(adam, decay)
    knowledge = Knowledge(**({"labels": LABELS, "recipe": ADAM if adam else SGD} | known))
    start = initial if before is None else before
    return Target.last_layer(model, initial_head=start, input_shape=(samples.shape[1],), knowledge=knowledge)


@pytest.mark.parametrize("adam", [False, True])
def test_samples_are_exact_at_the_true_recipe_and_error_bars_tell_their_errors(adam):
    result = exhume.Replay(max_starts=4 if adam else 1)(target(adam))  # under Adam the first start may end elsewhere
    score = exhume.score(result, victim(adam)[1])
    certificate = result.certificate
    assert certificate.verdict == "exact"
    assert score.recovered == SAMPLES
    assert score.error < 1e-5
    assert score.error < 3 * max(certificate.predicted_errors)
    assert certificate.residual < 8 * certificate.floor
    assert certificate.smallest_singular_value > 0


def test_an_unknown_learning_rate_is_fitted():
    result = exhume.Replay(max_starts=1)(target(recipe=SGD.changed(learning_rate=None)))
    assert result.certificate.verdict == "exact"
    assert exhume.score(result, victim()[1]).error < 1e-5
    factor = result.evidence["fitted_factors"][0] * result.evidence["recipe"]["learning_rate"]
    assert factor == pytest.approx(0.2, rel=1e-4)
    assert "learning rate 0.2 at 8 steps" in result.summary()


def test_an_unknown_weight_decay_is_fitted():
    result = exhume.Replay(max_starts=1)(target(decay=0.03, recipe=SGD.changed(weight_decay=None)))
    assert result.certificate.verdict == "exact"
    assert exhume.score(result, victim(decay=0.03)[1]).error < 1e-5
    factor = result.evidence["fitted_factors"][1] * result.evidence["recipe"]["weight_decay"]
    assert factor == pytest.approx(0.03, rel=1e-4)


@pytest.mark.parametrize(
    "known",
    [
        {"recipe": SGD.changed(learning_rate=0.15)},
        {"recipe": SGD.changed(steps=10)},
        {"labels": torch.tensor([0, 0])},
        {"labels": torch.tensor([0, 1, 0])},
    ],
    ids=["learning rate", "steps", "labels", "number of samples"],
)
def test_nothing_is_certified_with_wrong_knowledge(known):
    result = exhume.Replay(max_starts=1)(target(**known))
    assert result.certificate.verdict == "failed"
    assert result.certificate.predicted_errors == ()


def test_nothing_is_certified_from_another_start():
    _, _, before = victim()
    other = {name: weight + 0.05 * torch.randn_like(weight) for name, weight in before.items()}
    assert exhume.Replay(max_starts=1)(target(before=other)).certificate.verdict == "failed"


def test_labels_that_are_not_known_are_taken_in_equal_parts():
    result = exhume.Replay(max_starts=1)(target(labels=None, num_samples=2))
    assert result.certificate.verdict == "exact"
    assert "taken to be the classes in equal parts" in result.summary()


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"recipe": None}, "replay needs the recipe of the training"),
        ({"samples": torch.ones(1, 6), "num_samples": 2}, "does not use known ones"),
        ({"recipe": SGD.changed(loss="square"), "labels": None, "num_samples": 2}, "square loss needs the labels"),
    ],
)
def test_what_is_missing_is_said(known, message):
    with pytest.raises(InputError, match=message):
        exhume.Replay()(target(**known))


def test_all_initial_weights_are_needed():
    with pytest.raises(InputError, match=r"needs all weights before training; not known: 0.weight, 0.bias"):
        exhume.Replay()(target(before=victim()[2]["2.weight"]))


def test_the_ladder_replays_where_a_recipe_is_known_and_first_of_all_under_adam():
    assert fitting(target(adam=True))[0] == "replay"
    assert fitting(target())[:2] == ("unmix", "replay")
    assert "replay" not in fitting(target(recipe=None))
    assert "replay" not in fitting(target(labels=None))  # the number of samples is not known


def relu_victim(labels, **recipe):
    """A dense ReLU network, its samples, and a target that knows neither labels nor the order of the samples."""
    torch.manual_seed(0)
    recipe = Recipe(learning_rate=0.3, steps=20, **recipe)
    model, samples = nn.Sequential(nn.Linear(8, 120), nn.ReLU(), nn.Linear(120, 2)), torch.randn(len(labels), 8)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), 0.3)
    for batch in recipe.batches(len(labels)):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(samples[batch]), labels[batch]).backward()
        optimiser.step()
    knowledge = Knowledge(recipe=recipe, num_samples=len(labels))
    return samples, Target.last_layer(model.eval(), initial_head=before, input_shape=(8,), knowledge=knowledge)


def test_unknown_labels_of_unequal_classes_are_read_off_the_samples_that_the_search_starts_from():
    labels = torch.tensor([0, 1, 1, 1])
    samples, relu_target = relu_victim(labels)
    result = exhume.Replay(max_starts=1)(relu_target)
    score = exhume.score(result, samples)
    assert result.certificate.verdict == "exact"
    assert score.error < 1e-4
    assert [int(result.labels[match.row]) for match in score.matches] == [
        int(labels[match.truth_index]) for match in score.matches
    ]
    assert "those that the trained network gives" in result.summary()


def test_rows_go_to_the_labels_that_the_trained_network_gives_them():
    rows, targets = torch.arange(6.0).reshape(3, 2), torch.eye(3)
    outputs = torch.tensor([[0.0, 0.0, 4.0], [4.0, 3.9, 0.0], [5.0, 0.0, 0.0]])
    assert torch.equal(placed(rows, outputs, targets, losses.get("cross-entropy")), rows[[2, 1, 0]])


def replayed(samples, targets, recipe):
    """The equation of a training on these samples."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 20), nn.GELU(), nn.Linear(20, 2))
    simulation = Simulation(model, dict(model.named_parameters()), recipe, (4,), targets)
    return ReplayEquation(simulation, simulation.run(Unknowns.of(samples)).weights, len(samples))


def test_rows_of_one_class_are_exchanged_until_batches_of_known_order_fit():
    torch.manual_seed(2)
    samples, targets = torch.randn(4, 4), torch.eye(2)[[0, 0, 0, 1]]
    equation = replayed(samples, targets, Recipe(learning_rate=0.3, steps=10, batch_size=2, order_seed=0))
    assert torch.equal(exchanged(equation, samples[[2, 0, 1, 3]], targets), samples)


def test_rows_are_exchanged_at_the_first_guess_of_an_unknown_learning_rate(monkeypatch):
    seen = []
    monkeypatch.setattr(searching, "exchanged", lambda equation, rows, targets: seen.append(rows) or rows)
    samples, relu_target = relu_victim(torch.tensor([0, 1, 1, 1]))
    unknown = relu_target.knowledge.recipe.changed(learning_rate=None)
    exhume.Replay(max_starts=1)(relu_target.assuming(recipe=unknown), max_passes=100)
    (rows,) = seen
    assert len(rows) == len(samples) + 1
    assert not bool(rows[-1].any())


def test_a_network_that_layers_cannot_hold_in_memory_is_searched_from_noise(monkeypatch):
    def refuse(*args):
        raise InputError("the gradients take 8 GB")

    monkeypatch.setattr(LayersSearch, "begin", refuse)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 2))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    optimiser = torch.optim.SGD(model.parameters(), 0.2)
    nn.functional.cross_entropy(model(torch.randn(2, 1, 6)), LABELS).backward()
    optimiser.step()
    known = Knowledge(recipe=Recipe(learning_rate=0.2, steps=1), labels=LABELS)
    conv = Target.last_layer(model.eval(), initial_head=before, input_shape=(1, 6), knowledge=known)
    result = exhume.Replay(max_starts=1)(conv, max_passes=50, allow_underdetermined=True)
    assert result.samples.shape == (2, 6)


def test_a_neuron_that_misses_far_more_than_the_others_counts_less():
    torch.manual_seed(2)
    samples, targets = torch.randn(4, 4), torch.eye(2)[[0, 0, 1, 1]]
    equation = replayed(samples, targets, Recipe(learning_rate=0.3, steps=10))
    trained = equation.trained + 1e-3 * torch.randn_like(equation.trained)
    trained[4:8] += 1.0  # all that the second neuron reads
    spoiled = ReplayEquation(equation.simulation, trained, 4)
    weights = spoiled.robust(spoiled.at(samples))[0].weights[:80].reshape(20, 4)
    assert float(weights[1].max()) < 0.01 < 0.3 < float(weights[[0, *range(2, 20)]].min())


def test_a_start_comes_nearer_to_the_samples_of_an_unstable_training_of_relus(monkeypatch):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(12 * 25, 3))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    samples, labels, losses_seen = torch.randn(6, 1, 5, 5), torch.arange(6) % 3, []
    optimiser = torch.optim.SGD(model.parameters(), 0.5)
    for _ in range(12):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(samples), labels)
        loss.backward()
        losses_seen.append(loss.item())
        optimiser.step()
    assert max(losses_seen[2:]) > losses_seen[1]  # unstable: the loss rises in between
    off = 0.03 * torch.randn(6, 25) + samples.flatten(1)
    monkeypatch.setattr(replaying, "_found_otherwise", lambda problem, session: off)
    monkeypatch.setattr(replaying, "placed", lambda rows, *rest: rows)
    known = Knowledge(recipe=Recipe(learning_rate=0.5, steps=12), labels=labels)
    conv = Target.last_layer(model.eval(), initial_head=before, input_shape=(1, 5, 5), knowledge=known)
    result = exhume.Replay(max_starts=1)(conv)
    errors = (result.samples.flatten(1) - samples.flatten(1)).norm(dim=1) / samples.flatten(1).norm(dim=1)
    bars = torch.tensor(result.certificate.predicted_errors)
    assert float(errors.max()) < 0.01
    assert result.certificate.verdict == "approximate"
    assert bool((errors < 3 * bars).all())
