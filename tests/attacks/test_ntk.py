"""The tangent-kernel attack on displacements that are combinations of gradients by construction."""

import pytest
import torch

import exhume
from exhume.attacks import NTK
from exhume.attacks._base.gradient_matching import Match
from exhume.equation.gradient_span import GradientSpan
from exhume.errors import InputError
from exhume.networks import MLP
from exhume.results.reconstruction import Reconstruction
from exhume.results.stop import Stop
from exhume.support import checkpoint

DIM, SAMPLES = 12, 3


class NearTheTruth(NTK):
    """Starts a little off the true samples and coefficients."""

    def start(self, match, count, generator):
        samples, coefficients = truth()
        noise = 0.05 * torch.randn(samples.shape, generator=generator)
        return {"samples": samples + noise, "weights": coefficients * 1.1}


def truth():
    samples = torch.randn((SAMPLES, DIM), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return samples, torch.tensor([[0.5], [-0.4], [0.3]], dtype=torch.float64)


def linearised_target(activation="gelu", width=60):
    """A network whose weights before training are the trained ones less a combination of gradients: zero loss."""
    network = MLP(DIM, (width, width), 1, activation, seed=1).double().eval()
    settings = {"input_shape": (DIM,), "knowledge": exhume.Knowledge(num_samples=SAMPLES)}
    weights = {name: weight.detach() for name, weight in network.named_parameters()}
    zero = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    span = GradientSpan(exhume.Target.last_layer(network, initial_head=zero, **settings))
    moves = dict(zip(span.names, span.combination(*truth()), strict=True))
    initial = {name: weight - moves[name].detach() for name, weight in weights.items()}
    return exhume.Target.last_layer(network, initial_head=initial, **settings)


def test_true_samples_solve_the_equation_and_a_start_near_them_returns_to_them():
    target = linearised_target()
    assert float(GradientSpan(target).loss(*truth()).detach()) < 1e-24
    attack = NearTheTruth(max_steps=1000, rate=0.003, candidates=1, precision="float64", tolerance=1e-6)
    result = attack(target)
    losses = result.history["loss"]
    assert result.stop is Stop.CONVERGED
    assert losses[-1] < 1e-5 < 1e-3 < losses[0]
    assert result.certificate.residual < 2e-3
    assert exhume.score(result, truth()[0]).error < 0.01


def test_samples_come_back_from_a_random_start():
    samples, _ = truth()
    result = exhume.reconstruct(
        linearised_target(), method="ntk", precision="float64", tolerance=1e-6, max_steps=1500, seed=1
    )
    assert result.samples.shape == (2 * SAMPLES, DIM)
    judged = exhume.score(result, samples)
    assert judged.recovered == SAMPLES
    assert sorted(match.row for match in judged.matches) == [0, 1, 2]  # those with large coefficients come first
    assert result.coefficients[:3].flatten().tolist() == pytest.approx([0.5, -0.4, 0.3], abs=0.05)
    assert result.certificate.verdict == "failed"
    assert "2509.21296" in result.certificate.reason
    assert (result.certificate.equations, result.certificate.unknowns) == (60 * (12 + 60 + 1), 3 * 13)
    assert result.evidence["parameters"] == ["layers.0.weight", "layers.1.weight", "head.weight"]
    assert result.certificate.predicted_errors == ()


def test_sharpness_grows_as_published():
    beta = NTK().sharpness
    assert [beta(0), beta(20_000), beta(40_000), beta(80_000)] == [11.0, 20.0, 110.0, 200.0]
    assert beta(10**9) == 200.0


def test_objective_replaces_relu_by_softplus():
    """The equation of the same weights with softplus(11 z) for relu, which is what the first step minimises."""
    target = linearised_target("relu", width=20)
    span, (samples, coefficients) = GradientSpan(target), truth()
    found = NTK().objective(Match(span, None, None), {"samples": samples, "weights": coefficients}, 0)
    module = target.model.module
    weights = [weight.detach().requires_grad_() for weight in module.parameters()]
    hidden = samples
    for weight in weights[:-1]:
        hidden = torch.log1p(torch.exp(11.0 * hidden @ weight.T)) / 11.0
    gradients = torch.autograd.grad((coefficients * (hidden @ weights[-1].T)).sum(), weights)
    expected = sum((goal - part).square().sum() for goal, part in zip(span.rhs, gradients, strict=True))
    torch.testing.assert_close(found.detach(), expected)


def test_range_of_pixels_adds_the_squared_distance_to_it():
    target = linearised_target().assuming(pixel_range=(0.0, 1.0), pixel_mean=0.5, pixel_std=0.5)  # -1 to 1
    samples, coefficients = truth()
    values = {"samples": samples, "weights": coefficients}
    span = GradientSpan(target)
    bounds = target.knowledge.pixel_bounds(target.input_shape)
    without, with_range = (NTK().objective(Match(span, None, each), values, 0).detach() for each in (None, bounds))
    expected = (samples.abs() - 1).clamp(min=0).square().sum()
    torch.testing.assert_close(with_range - without, expected)
    assert "Pixels: the known range was used." in NTK(max_steps=1)(target).notes


@pytest.mark.parametrize("at", ["trained", "initial", "midpoint"])
def test_gradients_may_be_taken_elsewhere(at):
    result = NTK(max_steps=3, at=at)(linearised_target())
    assert f"Gradients at the {at} weights" in " ".join(result.notes)


def test_initial_weights_are_needed_of_the_head_at_least():
    target = linearised_target()
    with pytest.raises(InputError, match="weights before training are needed, of the head at least"):
        exhume.reconstruct(target.assuming(initial_head="unknown", initial_body="unknown"), method="ntk")
    head = exhume.reconstruct(target.assuming(initial_body="unknown"), method="ntk", max_steps=2, candidates=1)
    assert head.evidence["parameters"] == ["head.weight"]
    assert "Left out, as their initial weights are not known: layers.0.weight, layers.1.weight." in head.notes


def test_relu_hides_norms():
    result = NTK(max_steps=2)(linearised_target("relu"))
    assert not result.norms_determined
    assert NTK(max_steps=2)(linearised_target("gelu")).norms_determined


def test_interrupted_run_resumes_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    target, attack = linearised_target(width=20), NTK(max_steps=120, tolerance=0)
    reports, later = [], []
    whole, cut = attack(target, progress=reports.append), tmp_path / "checkpoint.safetensors"

    def die(event):
        if event.step >= 70:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attack(target, checkpoint=cut, progress=die)
    resumed = attack(target, checkpoint=cut, resume=True, progress=later.append)
    assert 0 < len(later) < len(reports)  # it did not start anew
    assert later == reports[-len(later) :]
    assert torch.equal(resumed.samples, whole.samples)
    assert torch.equal(resumed.coefficients, whole.coefficients)
    assert (resumed.passes, resumed.history, resumed.steps) == (whole.passes, whole.history, 120)


def test_result_comes_back_from_disk(tmp_path):
    result = NTK(max_steps=2, parameters="layers.0.weight,head.weight")(linearised_target())
    assert result.evidence["parameters"] == ["layers.0.weight", "head.weight"]
    result.save(tmp_path)
    assert Reconstruction.load(tmp_path).to_json() == result.to_json()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at": "home"}, "at"),
        ({"rate": 0.0}, "rate must be positive"),
        ({"coefficient_rate": -1.0}, "coefficient_rate must be positive"),
        ({"candidates": 0.5}, "candidates must be at least 1"),
        ({"max_steps": -1}, "must not be negative"),
        ({"precision": "float16"}, "precision"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        exhume.reconstruct(linearised_target(width=5), method="ntk", **options)


def test_steps_are_those_of_adam_with_a_rate_for_samples_and_one_for_coefficients():
    values = {"samples": torch.zeros(2, 3), "weights": torch.zeros(2, 1)}
    optimiser = NTK(rate=0.3, coefficient_rate=0.01).optimiser(values)
    assert isinstance(optimiser, torch.optim.Adam)
    assert [
        (group["params"][0] is value, group["lr"])
        for group, value in zip(optimiser.param_groups, values.values(), strict=True)
    ] == [(True, 0.3), (True, 0.01)]
    assert NTK(rate=0.3).optimiser(values).param_groups[1]["lr"] == 0.3
