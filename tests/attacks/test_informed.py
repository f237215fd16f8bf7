"""The informed adversary: the attack searches only for unknown samples, and certificates count accordingly."""

import math

import pytest
import torch

import exhume
from exhume import data
from exhume.attacks._search.last_sample import last_sample
from exhume.equation.span import Span
from exhume.errors import InputError
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.networks import TwoLayer
from exhume.results.certificate import sensitivity
from exhume.target.knowledge import Knowledge
from exhume.victims import RandomFeatures, train
from exhume.victims.trained_network import target


def problem(dim, width, activation, seed=0, samples=12, unknown=1, **known):
    training = data.load("sphere", dim=dim, samples=samples, seed=seed)
    victim = RandomFeatures(num_features=width, activation=activation, seed=seed).fit(training.inputs, training.labels)
    knowledge = Knowledge(num_samples=samples, samples=training.inputs[unknown:], norm=math.sqrt(dim), **known)
    return training, victim.target(knowledge=knowledge)


@pytest.mark.parametrize("activation", ["gelu", "relu+tanh", "softplus"])
def test_last_sample_is_exact_at_twice_the_dimension(activation):
    training, public = problem(40, 80, activation)
    result = exhume.reconstruct(public)
    assert result.certificate.verdict == "exact"
    assert (result.certificate.equations, result.certificate.unknowns) == (80 - 11, 40)
    assert result.samples.shape == (1, 40)
    judged = exhume.score(result, training.inputs)
    assert judged.error < 1e-3
    assert judged.compared == "vectors"  # the norm is known


@pytest.mark.parametrize("seed", [0, 1, 3, 7])  # 23, 28, 36 and 31 of the 60 coordinates are active
def test_last_relu_sample_is_exact_if_enough_coordinates_feel_it_and_else_called_failed(seed):
    training, public = problem(30, 60, "relu", seed=seed, samples=10)
    active = int((public.features.forward(training.inputs[:1]) > 0).sum())
    result = exhume.reconstruct(public)
    error = exhume.score(result, training.inputs).error
    assert result.certificate.verdict == ("exact" if active > 30 else "failed")
    assert (error < 1e-3) == (active > 30)


def test_linear_program_separates_a_single_relu_sample():
    training = data.load("sphere", dim=30, samples=10, seed=3)
    features = RandomFeatureMap(GaussianMatrix(90, 30, seed=1), "relu", torch.float64)
    rows = training.inputs.double()
    theta = torch.linspace(-1, 1, 10, dtype=torch.float64)[None] @ features.forward(rows)
    span = Span(features, theta, fixed=features.forward(rows[1:]))
    found = last_sample(span, -1, 1e-5)  # the first coefficient is -1
    assert float(torch.nn.functional.cosine_similarity(found, rows[:1])) > 1 - 1e-8


def test_several_unknown_samples_are_found_among_many():
    training, public = problem(30, 250, "relu", samples=20, unknown=4)
    result = exhume.reconstruct(public)
    assert result.certificate.unknowns == 4 * 30
    assert exhume.score(result, training.inputs).error < 1e-3


def test_too_few_equations_for_the_unknown_ones_are_refused():
    _, public = problem(40, 48, "gelu")
    with pytest.raises(InputError, match="37 equations cannot determine 40 unknowns"):
        exhume.reconstruct(public)


def test_nothing_left_to_look_for_is_refused():
    _, public = problem(20, 60, "gelu")
    with pytest.raises(InputError, match="num_samples is 11 and 11 samples are known"):
        exhume.reconstruct(public, num_samples=11)


def test_strangers_among_the_known_samples_are_found_out():
    _, public = problem(30, 120, "gelu", samples=6)
    strangers = data.load("sphere", dim=30, samples=5, seed=9).inputs
    result = exhume.reconstruct(public.assuming(samples=strangers))
    assert result.certificate.verdict == "failed"


def test_known_samples_help_networks_too():
    digits = data.load("digits", samples=6, labels="one-hot")
    trained = train(TwoLayer(64, 200, 10, seed=3), digits.inputs, digits.labels, stable=True)
    public = target(trained, knowledge=Knowledge.about(digits.labels).knowing(samples=digits.inputs[2:]))
    result = exhume.reconstruct(public, method="exact")
    judged = exhume.score(result, digits.inputs)
    assert result.samples.shape[0] == judged.recovered == 2
    assert result.certificate.unknowns == 2 * (63 + 10)


def test_equations_that_no_unknown_sample_is_active_at_do_not_count():
    features = RandomFeatureMap(GaussianMatrix(200, 10, seed=0), "relu", torch.float64)
    rows = torch.randn((3, 10), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    theta = features.forward(rows).sum(0, keepdim=True)
    known = features.forward(rows[1:])
    span = Span(features, theta, fixed=known)
    active = int((features.forward(rows[:1]) > 0).sum())
    assert sensitivity(span, span.at(rows[:1]), seed=0)[0] == active
    assert 60 < active < 140


def test_the_rank_of_the_weights_counts_known_samples_too():
    digits = data.load("digits", samples=5, labels="one-hot")
    victim = RandomFeatures(num_features=400, activation="gelu").fit(digits.inputs, digits.labels)
    held = Knowledge(samples=digits.inputs[:2])
    result = exhume.reconstruct(victim.target(knowledge=held))
    assert result.evidence["rank"] == 5
    assert len(result.samples) == 3
    assert exhume.score(result, digits.inputs).recovered == 3
    everything = victim.target(knowledge=Knowledge(samples=digits.inputs))
    with pytest.raises(InputError, match="show 5 samples, and as many are known"):
        exhume.reconstruct(everything)
