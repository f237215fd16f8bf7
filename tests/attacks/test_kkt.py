"""The maximum-margin attack: its formula at stationary points, its penalties, and what it can and cannot find."""

import pytest
import torch
from torch.nn import functional

import exhume
from exhume.attacks import KKT
from exhume.attacks._base.gradient_matching import Match
from exhume.equation.gradient_span import GradientSpan
from exhume.errors import InputError
from exhume.networks import MLP
from exhume.results.stop import Stop
from exhume.support import checkpoint
from exhume.support.randomness import generator_for

DIM, SAMPLES, DECAY = 10, 4, 1e-2
# Rates at which small networks such as these do not diverge.
GENTLE = {"sample_rate": 0.02, "weight_rate": 0.01, "least_weight": 0.1}


def data_of(num_outputs):
    samples = torch.randn((SAMPLES, DIM), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return samples, torch.tensor([1.0, -1.0, 1.0, -1.0]) if num_outputs == 1 else torch.arange(SAMPLES) % num_outputs


def decayed(num_outputs, width=12):
    """A network at a minimum of loss plus weight decay, and the coefficients -l'_i / (n decay) of its samples."""
    network = MLP(DIM, (width, width), num_outputs, "tanh", seed=1).double()
    samples, labels = data_of(num_outputs)
    weights = list(network.parameters())
    optimiser = torch.optim.LBFGS(
        weights, max_iter=2000, tolerance_grad=1e-12, tolerance_change=1e-15, line_search_fn="strong_wolfe"
    )

    def losses(outputs):
        if num_outputs == 1:
            return functional.softplus(-labels * outputs[:, 0]).sum()
        return functional.cross_entropy(outputs, labels, reduction="sum")

    def closure():
        optimiser.zero_grad()
        loss = losses(network(samples)) / SAMPLES + DECAY / 2 * sum(weight.square().sum() for weight in weights)
        loss.backward()
        return loss

    optimiser.step(closure)
    outputs = network(samples).detach().requires_grad_()
    (slopes,) = torch.autograd.grad(losses(outputs), outputs)
    return network.eval(), -slopes / (SAMPLES * DECAY)


def target_of(network, **known):
    return exhume.Target.last_layer(
        network, input_shape=(DIM,), knowledge=exhume.Knowledge(num_samples=SAMPLES, **known)
    )


@pytest.mark.parametrize("num_outputs", [1, 2, 3])
def test_weights_under_decay_are_the_combination_of_gradients(num_outputs):
    """Free coefficients for every output; with up to two outputs the margin's, lambda_i >= 0, are the same."""
    network, coefficients = decayed(num_outputs)
    samples, labels = data_of(num_outputs)
    span = KKT().equation(target_of(network))
    assert float(span.loss(samples, coefficients).detach()) < 1e-12
    assert float(span.loss(samples, 1.1 * coefficients).detach()) > 1e-3
    if num_outputs < 3:
        multipliers = coefficients.abs().max(1).values
        found = KKT().coefficients(Match(span, labels, None), multipliers)(span.outputs(samples))
        torch.testing.assert_close(found, coefficients)


def test_objective_is_residual_plus_penalties():
    network, _ = decayed(1)
    target = target_of(network, pixel_range=(0.0, 1.0), pixel_mean=0.25)  # entries from -0.25 to 0.75
    span = KKT().equation(target)
    samples = torch.zeros((2, DIM), dtype=torch.float64)
    samples[0, :3] = torch.tensor([1.0, -1.0, 0.5])  # 0.25 above and 0.75 below the range, and inside it
    multipliers = torch.tensor([0.298, 0.6], dtype=torch.float64)  # one 0.2 short of lambda_min
    labels = torch.tensor([1.0, -1.0])
    bounds = target.knowledge.pixel_bounds(target.input_shape)
    values = {"samples": samples, "weights": multipliers}
    residual = span.loss(samples, (multipliers * labels)[:, None]).detach() * span.squared_norm
    found = KKT().objective(Match(span, labels, bounds), values, 0).detach()
    assert float(found - residual) == pytest.approx(5 * 0.2**2 + 0.25**2 + 0.75**2)
    assert float(KKT().objective(Match(span, labels, None), values, 0).detach() - residual) == pytest.approx(5 * 0.2**2)


def test_objective_sees_relus_by_their_smooth_slope():
    """Of one hidden layer, W1's part of the equation has sigmoid(alpha z) for the derivative of relu."""
    network = MLP(DIM, (6,), 1, "relu", seed=2).double().eval()
    span = GradientSpan(target_of(network), "first", from_initial=False)
    samples, labels = data_of(1)
    multipliers = torch.tensor([0.5, 0.6, 0.7, 0.8], dtype=torch.float64)
    (first,), head = network.layers, network.head
    slopes = torch.sigmoid(19.1 * samples @ first.weight.T)  # (4, 6)
    combined = ((multipliers * labels)[:, None] * slopes * head.weight).T @ samples
    expected = (first.weight - combined).square().sum().detach()
    values = {"samples": samples, "weights": multipliers}
    torch.testing.assert_close(KKT().objective(Match(span, labels, None), values, 0).detach(), expected)


def test_published_values_are_the_defaults():
    attack = KKT()
    assert (attack.sample_rate, attack.weight_rate, attack.momentum) == (0.555, 1e-4, 0.9)
    assert (attack.start_scale, attack.least_weight, attack.sharpness) == (8.9e-4, 0.498, 19.1)
    assert (attack.max_steps, attack.candidates, attack.precision) == (50_000, 2.0, "float64")


def test_labels_are_fixed_in_equal_or_known_shares():
    one, three = (target_of(MLP(DIM, (5, 5), outputs).eval()) for outputs in (1, 3))
    assert KKT().fixed_labels(one, 6).tolist() == [1, -1, 1, -1, 1, -1]
    assert KKT().fixed_labels(three, 5).tolist() == [0, 1, 2, 0, 1]
    known = one.assuming(labels=torch.tensor([1.0, 1.0, 1.0, -1.0]))
    assert KKT().fixed_labels(known, 8).tolist() == [1, 1, 1, -1] * 2
    one_hot = three.assuming(labels=torch.eye(3)[[0, 0, 2, 2]])
    assert KKT().fixed_labels(one_hot, 4).tolist() == [0, 0, 2, 2]
    with pytest.raises(InputError, match="known labels -1 and"):
        KKT().fixed_labels(one.assuming(labels=torch.tensor([1.0, 0.0, 1.0, 0.5])), 8)
    assert KKT(form="regularised").fixed_labels(known, 8) is None


def test_the_loss_can_vanish_at_wrong_samples_which_are_not_certified():
    """Candidates that are not the samples explain weights under decay: the solution is not unique."""
    network, _ = decayed(1)
    result = exhume.reconstruct(target_of(network), method="kkt", tolerance=1e-4, max_steps=3000, **GENTLE)
    assert result.stop is Stop.CONVERGED
    assert result.certificate.residual < 0.02
    assert exhume.score(result, data_of(1)[0]).recovered == 0
    assert result.certificate.verdict == "failed"
    assert "2509.21296" in result.certificate.reason
    assert "The network is not homogeneous: the equation holds only for training with weight decay." in result.notes
    strength = result.coefficients.norm(dim=1)
    assert torch.equal(strength, strength.sort(descending=True).values)
    assert torch.equal(result.labels, result.coefficients.sign()[:, 0])


@pytest.mark.parametrize("form", ["margin", "regularised"])
def test_several_outputs(form):
    network, _ = decayed(3)
    result = KKT(max_steps=300, form=form, **GENTLE)(target_of(network))
    losses = result.history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    assert result.coefficients.shape == (2 * SAMPLES, 3)
    assert result.certificate.unknowns == SAMPLES * (DIM + (1 if form == "margin" else 3))
    if form == "margin":
        assert torch.allclose(result.coefficients.sum(1), torch.zeros(8).double())


def test_divergence_is_told_and_the_last_finite_samples_returned():
    result = KKT(max_steps=500, sample_rate=10.0)(target_of(MLP(DIM, (20, 20), seed=1).eval()))
    assert result.stop is Stop.DIVERGED
    assert bool(torch.isfinite(result.samples).all())


def test_interrupted_run_resumes_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    target, attack = target_of(decayed(1)[0]), KKT(max_steps=120, tolerance=0, **GENTLE)
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "other"}, "form"),
        ({"momentum": 1.0}, "momentum must be in"),
        ({"sample_rate": 0.0}, "sample_rate must be positive"),
        ({"parameters": "nose"}, "no trained parameters are called nose"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        exhume.reconstruct(target_of(MLP(DIM, (5, 5)).eval()), method="kkt", **options)


def test_steps_are_those_of_torch_s_momentum_descent():
    """Twenty steps by hand from the attack's own start."""
    target = target_of(MLP(DIM, (10,), seed=1).double().eval())
    attack = KKT(max_steps=20, tolerance=0.0, **GENTLE)
    match = Match(attack.equation(target), attack.fixed_labels(target, 4), None)
    start = attack.start(match, 4, generator_for(0, "kkt attack"))
    values = {name: value.double().requires_grad_() for name, value in start.items()}
    rates = {"samples": attack.sample_rate, "weights": attack.weight_rate}
    groups = [{"params": [value], "lr": rates[name]} for name, value in values.items()]
    optimiser = torch.optim.SGD(groups, momentum=attack.momentum)
    for step in range(20):
        optimiser.zero_grad()
        attack.objective(match, values, step).backward()
        optimiser.step()
    result = attack(target, num_samples=2)
    assert result.steps == 20
    mine, theirs = (rows[rows[:, 0].argsort()] for rows in (result.samples, values["samples"].detach()))
    torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)
