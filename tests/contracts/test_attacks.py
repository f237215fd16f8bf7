"""The contract of every attack: input is checked, the budget holds, results are reproducible and saved whole."""

import inspect

import pytest
import torch

from exhume import attacks, data
from exhume.errors import InputError
from exhume.reconstruction import Reconstruction, Stop
from exhume.target import Knowledge, Target
from exhume.victims import RandomFeatures

# One row an attack: settings that keep it short here.
ATTACKS = {"descent": {"max_steps": 40}, "exact": {"max_starts": 1}}


def test_every_attack_has_a_row():
    assert set(ATTACKS) == set(attacks.ATTACKS)


@pytest.fixture(params=sorted(ATTACKS))
def method(request):
    return request.param


@pytest.fixture(scope="module")
def target():
    training = data.load("sphere", dim=8, samples=3, seed=0)
    victim = RandomFeatures(num_features=200).fit(training.inputs, training.labels)
    return victim.target(knowledge=Knowledge.about(training.labels))


def run(target, method, **settings):
    return attacks.reconstruct(target, method=method, **(ATTACKS[method] | settings))


def test_result_is_whole_and_comes_back_from_disk(target, method, tmp_path):
    result = run(target, method)
    assert result.samples.shape == (3, 8)
    assert result.coefficients.shape == (3, 1)
    assert torch.isfinite(result.samples).all()
    assert result.passes > 0
    assert result.certificate.verdict in result.summary()
    assert result.stop.sentence in result.summary()
    result.save(tmp_path)
    again = Reconstruction.load(tmp_path)
    assert torch.equal(again.samples, result.samples)
    assert again.to_json() == result.to_json()


def test_same_seed_same_answer(target, method):
    first, second = run(target, method, seed=5), run(target, method, seed=5)
    assert torch.equal(first.samples, second.samples)
    assert first.passes == second.passes


def test_residual_is_that_of_the_samples_returned(target, method):
    result = run(target, method)
    features = target.feature_map.with_dtype(result.samples.dtype).forward(result.samples)
    remainder = target.displacement - result.coefficients.T @ features
    assert result.certificate.residual == pytest.approx(float(remainder.norm() / target.displacement.norm()), rel=1e-2)


def test_budget_of_passes_ends_the_attack(target, method):
    result = run(target, method, max_passes=8)
    assert result.passes <= 8 + 50  # the step under way, and the judge's
    assert result.stop is Stop.PASS_LIMIT
    assert result.certificate.verdict == "failed"


def test_fewer_equations_than_unknowns_is_refused_and_can_be_insisted_on(target, method):
    with pytest.raises(InputError, match="200 equations cannot determine 240 unknowns.*allow_underdetermined"):
        run(target, method, num_samples=30)
    assert run(target, method, num_samples=30, allow_underdetermined=True).certificate.verdict == "failed"


def test_number_of_samples_must_be_positive(target, method):
    with pytest.raises(InputError, match="num_samples must be at least 1, got 0"):
        run(target, method, num_samples=0)


def test_unknown_option_lists_the_valid_ones(target, method):
    with pytest.raises(InputError, match=f"{method} has no option colour; valid: "):
        run(target, method, colour="red")


def test_attack_sees_no_truth(method):
    """The call takes the target and settings; nothing through which the truth could come in."""
    parameters = set(inspect.signature(attacks.ATTACKS[method].__call__).parameters)
    assert parameters == {
        "self",
        "target",
        "num_samples",
        "seed",
        "max_passes",
        "allow_underdetermined",
        "checkpoint",
        "resume",
        "progress",
    }


def test_unknown_method_lists_the_valid_ones(target):
    with pytest.raises(InputError, match="unknown method 'oracle'; valid: .*descent"):
        attacks.reconstruct(target, method="oracle")


def test_options_of_the_wrong_type_are_named(target):
    with pytest.raises(InputError, match="max_steps.*got 'many'"):
        attacks.reconstruct(target, method="descent", max_steps="many")
    with pytest.raises(InputError, match="momentum"):
        attacks.reconstruct(target, method="descent", momentum=1.5)


def test_descent_must_be_told_the_number_of_samples(target):
    ignorant = Target(target.feature_map, target.displacement, Knowledge())
    with pytest.raises(InputError, match="descent must be told how many samples"):
        attacks.reconstruct(ignorant, method="descent")
