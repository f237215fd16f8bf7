"""The drift correction brings the equation closer to the one that the true samples solve."""

import math

import pytest
import torch

import exhume
from exhume import data
from exhume.attacks._finish.drift import take_out_drift
from exhume.attacks._search.noise_floor import is_explained_by_drift
from exhume.networks import TwoLayer
from exhume.solvers import CGOptions, FixedNorm, StoppingRule, levenberg_marquardt
from exhume.target.knowledge import Knowledge
from exhume.victims import RandomFeatures, train
from exhume.victims.trained_network import target as network_target

DIM, SAMPLES, OUTPUTS, RADIUS = 20, 4, 4, 20**0.5
SPHERE = FixedNorm(RADIUS)


def errors(samples, truth):
    """Angles between rows and true samples, in the order of the truth: relative errors on the sphere."""
    unit, true = (torch.nn.functional.normalize(each.double(), dim=1) for each in (samples, truth))
    return (unit - true).norm(dim=1)


@pytest.fixture(scope="module")
def inputs():
    return data.load("sphere", dim=DIM, samples=SAMPLES, seed=0).inputs


@pytest.fixture(scope="module", params=["relu", "gelu"])
def attacked(request, inputs):
    trained = train(TwoLayer(DIM, 200, OUTPUTS, request.param, seed=1), inputs, torch.eye(OUTPUTS), stable=True)
    assert trained.drift > 0.02
    return network_target(trained, knowledge=Knowledge(num_samples=SAMPLES, norm=RADIUS))


def test_samples_come_nearer_to_the_truth_and_so_does_the_displacement(problem_of, attacked, inputs):
    problem = problem_of(attacked, SAMPLES)
    features, truth = problem.features.with_dtype(torch.float64), inputs.double()
    span = problem.equation(features, attacked.displacement.double())
    plain = levenberg_marquardt(
        span, truth, FixedNorm(RADIUS), StoppingRule(40, 1e-9, window=5), cg=CGOptions(40, 0.01)
    ).point
    drift = take_out_drift(problem, plain.samples)
    before, after = errors(plain.samples, truth), errors(drift.samples, truth)
    assert float(before.mean()) > 1e-3
    assert float(after.mean()) < 0.5 * float(before.mean())
    corrected = problem.equation(features, drift.displacement, squared_norm=span.squared_norm)
    assert corrected.at(truth).loss < 0.25 * span.at(truth).loss
    # What it says of itself: the residual that drift left, and error bars of the size of the errors.
    assert math.sqrt(plain.loss) / 3 < drift.floor < 3 * math.sqrt(plain.loss)
    left, change = math.sqrt(corrected.at(drift.samples).loss / plain.loss), errors(plain.samples, drift.samples)
    bars = torch.clamp(left * (1 + change / problem.tuning.drift.first_order), max=1) * change
    assert drift.errors == pytest.approx(bars.tolist(), rel=0.05)
    assert bool((after <= 3 * torch.tensor(drift.errors)).all())
    assert "taken out" in drift.note


def test_drift_explains_the_residual_of_the_truth_and_not_that_of_other_samples(problem_of, attacked, inputs):
    problem = problem_of(attacked, SAMPLES)
    equation = problem.equation()
    others = SPHERE.retract(inputs + torch.randn(inputs.shape, generator=torch.Generator().manual_seed(0)))
    assert is_explained_by_drift(problem, equation, equation.at(inputs))
    assert not is_explained_by_drift(problem, equation, equation.at(others))


def test_features_without_weights_of_their_own_cannot_drift(problem_of, inputs):
    victim = RandomFeatures(num_features=300).fit(inputs, torch.eye(OUTPUTS))
    problem = problem_of(victim.target(), SAMPLES)
    assert take_out_drift(problem, inputs) is None


def test_a_body_that_did_not_move_is_left_alone(problem_of, inputs):
    """For a network with a frozen body the estimated drift does not improve the fit."""
    network = TwoLayer(DIM, 200, OUTPUTS, seed=1).double().eval()
    features = network.features(inputs.double()).detach()
    network.head.weight.data = torch.linalg.lstsq(features, torch.eye(OUTPUTS).double()).solution.T.contiguous()
    public = exhume.Target.last_layer(network, initial_head="zero", input_shape=(DIM,))
    problem = problem_of(public, SAMPLES)
    drift = take_out_drift(problem, inputs.double())
    assert drift.displacement is None
    assert drift.errors == ()
    assert torch.equal(drift.samples, inputs.double())
    assert "not confirmed" in drift.note
