"""The exact attack recovers samples, signs, norms, labels and their number, and its certificate is right."""

import pytest
import torch

import exhume
from exhume import activations, data
from exhume.attacks._base.tuning import DEFAULT_TUNING
from exhume.attacks._finish.signs import choose_signs
from exhume.equation.nuisance import Nuisance
from exhume.equation.span import Span
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.support.randomness import generator_for

# Wide enough that every seed is solved by one start; the curves near the limit are benches.
DIM, SAMPLES, RATIO = 16, 6, 5


def attack(*, labels=None, inputs=None, num_samples=SAMPLES, knowledge=None, noise=0.0, settings=None, **victim):
    training = data.load("sphere", dim=DIM, samples=SAMPLES, seed=0)
    inputs = training.inputs if inputs is None else inputs
    labels = training.labels if labels is None else labels
    victim = {"num_features": RATIO * DIM * inputs.shape[0]} | victim
    fitted = exhume.RandomFeatures(**victim).fit(inputs, labels)
    target = fitted.target(knowledge=knowledge)
    if noise:
        wobble = torch.randn(target.displacement.shape, generator=generator_for(0, "noise"))
        noisy = target.displacement + noise * target.displacement.norm() * wobble / wobble.norm()
        target = exhume.Target(target.feature_map, noisy)
    result = exhume.reconstruct(target, num_samples=num_samples, **(settings or {}))
    return result, exhume.score(result, inputs, true_labels=labels)


@pytest.mark.parametrize("name", activations.names())
def test_every_activation_gives_up_its_samples_and_says_what_of_their_signs_and_norms(name):
    result, judged = attack(activation=name, num_features=8 * DIM * SAMPLES)
    activation = activations.get(name)
    assert result.certificate.verdict == "exact"
    assert result.signs_determined == (activation.parity == "none")
    assert result.norms_determined == (activation.homogeneity is None)
    assert judged.compared == ("vectors" if result.norms_determined else "directions")
    assert judged.claimed_error < 1e-5
    if activation.parity != "none":
        assert any("hides them for good" in note for note in result.notes)


def test_float64_reaches_float64_precision():
    result, judged = attack(dtype="float64")
    assert judged.error < 1e-9
    assert result.certificate.verdict == "exact"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_labels_come_with_the_samples(dtype):
    training = data.load("sphere", dim=DIM, samples=SAMPLES, seed=0)
    norm = DIM**0.5
    result, judged = attack(dtype=dtype)
    rows = [match.row for match in judged.matches]
    torch.testing.assert_close(result.samples.norm(dim=1), torch.full((SAMPLES,), norm, dtype=result.samples.dtype))
    torch.testing.assert_close(result.labels[rows].float(), training.labels, atol=1e-4, rtol=1e-4)


def test_norms_and_labels_come_back_from_a_known_alphabet():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn((SAMPLES, DIM), generator=generator) * torch.linspace(0.2, 5, SAMPLES)[:, None]
    signs = torch.tensor([1.0, -1, 1, 1, -1, -1])
    result, judged = attack(inputs=inputs, labels=signs, knowledge=exhume.Knowledge(label_alphabet="signs"))
    assert (judged.compared, judged.label_accuracy) == ("vectors", 1.0)
    assert judged.error < 1e-4
    result, judged = attack(inputs=inputs, labels=signs)
    assert not result.norms_determined
    assert any("Norms: undetermined" in note for note in result.notes)


def test_norms_are_free_where_the_activation_shows_them():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn((SAMPLES, DIM), generator=generator) * torch.linspace(0.7, 1.4, SAMPLES)[:, None]
    _, judged = attack(inputs=inputs, activation="relu+tanh")
    assert judged.compared == "vectors"
    assert judged.error < 1e-5


def test_several_outputs_are_used_together():
    one_hot = torch.eye(3).repeat(2, 1)
    width = RATIO * DIM * SAMPLES // 3
    result, judged = attack(labels=one_hot, num_features=width, knowledge=exhume.Knowledge(label_alphabet="one-hot"))
    assert result.coefficients.shape == (SAMPLES, 3)
    assert result.certificate.equations == 3 * width
    assert result.certificate.unknowns == SAMPLES * (DIM - 1) + 3 * SAMPLES
    assert (judged.compared, judged.label_accuracy) == ("vectors", 1.0)
    assert judged.error < 1e-4


@pytest.fixture
def signs_of_more_samples_than_inputs():
    def choose(count):
        generator = torch.Generator().manual_seed(3)
        rows = torch.randn((count, 4), generator=generator, dtype=torch.float64)
        features = RandomFeatureMap(GaussianMatrix(600, 4, seed=0), "relu", torch.float64)
        theta = torch.randn((1, count), generator=generator, dtype=torch.float64) @ features.forward(rows)
        span = Span(features.with_activation("abs"), theta, Nuisance(linear=True))
        flipped = rows * torch.tensor([-1.0, 1.0]).repeat(count)[:count, None]
        return rows, choose_signs(span, span.at(flipped), activations.get("relu"), DEFAULT_TUNING)

    return choose


def test_signs_of_more_samples_than_inputs_are_found_by_trying_them_all(signs_of_more_samples_than_inputs):
    rows, signs = signs_of_more_samples_than_inputs(7)
    assert signs.determined
    assert torch.equal(signs.samples, rows)


def test_too_many_samples_for_the_inputs_leave_signs_open_and_say_so(signs_of_more_samples_than_inputs):
    _, signs = signs_of_more_samples_than_inputs(25)
    assert not signs.determined
    assert "more samples than equations" in signs.note


def test_number_of_samples_is_estimated_with_evidence():
    result, judged = attack(num_samples=None)
    assert result.samples.shape[0] == SAMPLES
    assert judged.error < 1e-5
    residuals = {int(rows): residual for rows, residual in result.evidence["residuals"]}
    assert residuals[SAMPLES] < 3e-5 < residuals[SAMPLES - 1]


def test_rows_beyond_the_samples_are_found_idle_and_dropped():
    result, judged = attack(num_samples=SAMPLES + 2)
    assert result.samples.shape[0] == SAMPLES
    assert judged.error < 1e-5
    assert any("6 of the 8 looked for" in note for note in result.notes)


def test_too_few_rows_are_never_called_exact():
    result, judged = attack(num_samples=SAMPLES - 1, settings={"max_starts": 3})
    assert judged.missing == 1
    assert result.certificate.verdict == "failed"
    assert result.certificate.predicted_errors == ()


# Noise moves the limit: at 5 d n and one percent of it most starts end elsewhere, so that it takes more of them.
@pytest.mark.parametrize(
    ("noise", "ratio", "starts"),
    [(1e-4, RATIO, 8), (1e-2, 12, 8), pytest.param(1e-2, RATIO, 24, marks=pytest.mark.slow)],
)
def test_noise_gives_an_approximate_verdict_with_a_truthful_error_bar(noise, ratio, starts):
    result, judged = attack(noise=noise, num_features=ratio * DIM * SAMPLES, settings={"max_starts": starts})
    assert result.stop is exhume.Stop.REPRODUCED
    assert result.certificate.verdict == "approximate"
    assert 1 / 3 < result.certificate.predicted_error / judged.error < 3


@pytest.mark.parametrize("rounding", [torch.float16, torch.bfloat16])
def test_rounded_weights_degrade_gracefully(rounding):
    training = data.load("sphere", dim=DIM, samples=SAMPLES, seed=0)
    victim = exhume.RandomFeatures(num_features=RATIO * DIM * SAMPLES).fit(training.inputs, training.labels)
    target = exhume.Target(victim.feature_map_, victim.theta_.to(rounding).float())
    result = exhume.reconstruct(target, num_samples=SAMPLES)
    judged = exhume.score(result, training.inputs)
    assert judged.error < 0.05
    assert result.certificate.verdict == "approximate"
    assert 1 / 3 < result.certificate.predicted_error / judged.error < 3


def test_ridge_stays_in_the_span_and_is_solved_exactly():
    result, judged = attack(ridge=1.0)
    assert judged.error < 1e-5
    assert result.certificate.verdict == "exact"


def test_logistic_loss_stays_in_the_span_and_is_solved_exactly():
    signs = torch.tensor([1.0, -1, 1, 1, -1, -1])
    result, judged = attack(labels=signs, loss="logistic", max_steps=2000)
    assert judged.error < 1e-4
    assert result.certificate.verdict == "exact"


def test_memory_budget_changes_nothing_but_the_reading_of_v():
    """A regenerated V gives the same samples as a V that is kept."""
    samples = []
    for budget in ("1GB", 0):
        result, judged = attack(memory_budget=budget, num_features=3000)
        assert judged.error < 1e-5
        samples.append(result.samples[[match.row for match in judged.matches]])
    torch.testing.assert_close(*samples, atol=1e-5, rtol=1e-5)


def test_time_limit_ends_the_search():
    result, _ = attack(num_features=round(1.1 * DIM * SAMPLES), settings={"max_seconds": 0.2})
    assert result.stop is exhume.Stop.TIME_LIMIT
    assert result.certificate.verdict == "failed"


def test_history_tells_of_convergence():
    result, _ = attack()
    assert len(result.history["step"]) == len(result.history["loss"]) == len(result.history["passes"])
    assert result.history["loss"][-1] < 1e-10 < result.history["loss"][0]
    assert result.history["passes"] == sorted(result.history["passes"])


def test_alphabet_of_labels_that_are_not_interpolated_gives_no_norms():
    """With a ridge penalty the outputs are not one-hot: norms are reported as undetermined instead of wrong."""
    result, judged = attack(
        labels=torch.eye(3).repeat(2, 1), ridge=30.0, knowledge=exhume.Knowledge(label_alphabet="one-hot")
    )
    assert not result.norms_determined
    assert judged.compared == "directions"
    assert judged.error < 1e-4
    assert exhume.Knowledge.about(torch.tensor([1.0, -1.0]), interpolated=False).label_alphabet is None


@pytest.mark.parametrize(("dim", "samples"), [(2, 1), (2, 3), (3, 1)])
def test_tiny_problems_end_without_a_crash_and_without_a_false_exact(dim, samples):
    training = data.load("sphere", dim=dim, samples=samples, seed=0)
    victim = exhume.RandomFeatures(num_features=200).fit(training.inputs, training.labels)
    result = exhume.reconstruct(victim.target(), num_samples=samples, max_starts=1)
    judged = exhume.score(result, training.inputs)
    assert result.certificate.verdict != "exact" or judged.error < 1e-3


def test_one_dimensional_inputs_are_refused():
    victim = exhume.RandomFeatures(num_features=50).fit(torch.tensor([[1.0], [-2.0]]), torch.tensor([1.0, 2.0]))
    with pytest.raises(exhume.InputError, match="at least 2"):
        exhume.reconstruct(victim.target(), num_samples=2)


def test_budget_is_counted_in_passes_of_the_samples_also_when_their_number_is_unknown():
    result, _ = attack(num_samples=None, settings={"max_passes": 60})
    assert result.stop is exhume.Stop.PASS_LIMIT
    assert result.history["passes"][-1] <= result.passes
    assert result.passes > 20


def test_samples_that_explain_nothing_say_nothing_of_norms():
    digits = data.load("digits", samples=6)
    victim = exhume.RandomFeatures(num_features=200, seed=0).fit(digits.inputs, digits.labels)
    known = exhume.Knowledge(num_samples=6, label_alphabet="signs")
    result = exhume.reconstruct(victim.target(knowledge=known), allow_underdetermined=True, max_starts=1)
    assert result.certificate.verdict == "failed"
    assert not result.norms_determined
    assert torch.allclose(result.samples.norm(dim=1), torch.full((6,), 8.0, dtype=result.samples.dtype))
    enough = exhume.RandomFeatures(num_features=1500, seed=0).fit(digits.inputs, digits.labels)
    assert exhume.reconstruct(enough.target(knowledge=known)).norms_determined
