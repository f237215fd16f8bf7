"""Defences are measured by attacking every altered copy; a copy that cannot be attacked gets a reason, not an error."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch

from exhume.attacks import Exact, build
from exhume.defences import DEFENCES, Defence, Noise, Outcome, Pruning, Release, Ridge, Rounding, Setting, measure
from exhume.defences.measuring import chosen
from exhume.errors import InputError

BUDGET = 1_500


@pytest.fixture(scope="module")
def outcomes(features_release):
    families = [Noise((1e-3, 3.0)), Pruning((0.5,)), Ridge((1.0,)), Rounding(("int8",))]
    return measure(features_release, Exact(max_starts=3), families=families, max_passes=BUDGET)


def named(outcomes, setting):
    return next(each for each in outcomes if each.setting == setting)


@pytest.fixture(scope="module", params=sorted(DEFENCES))
def family(request):
    return request.param


def test_the_model_as_it_is_comes_first_and_is_recovered(outcomes):
    assert outcomes[0].defence == "none"
    assert (outcomes[0].recovered, outcomes[0].num_samples, outcomes[0].verdict) == (3, 3, "exact")
    assert outcomes[0].utility.output_change == 0
    assert outcomes[0].equations == 300


def test_little_noise_leaves_the_samples_and_much_noise_hides_them(outcomes):
    little, much = named(outcomes, "noise 0.1%"), named(outcomes, "noise 300%")
    assert little.recovered == 3
    assert little.error == pytest.approx(little.predicted_error, rel=3)
    assert much.recovered == 0
    assert much.utility.output_change > little.utility.output_change > 0


def test_ridge_costs_training_error_and_hides_nothing(outcomes):
    ridge = named(outcomes, "ridge 1")
    assert ridge.recovered == 3
    assert ridge.utility.training_error > 0.01 > outcomes[0].utility.training_error


def test_an_exact_verdict_on_an_altered_copy_is_never_wrong(outcomes):
    claims = [each for each in outcomes if each.verdict == "exact"]
    assert claims
    assert all(each.error < 1e-3 for each in claims)


def test_without_the_truth_copies_are_compared_with_the_certified_samples(features_release, outcomes):
    bare = Release(features_release.target, seed=features_release.seed)
    found = measure(bare, Exact(max_starts=3), families=[Noise((1e-3,)), "ridge"], max_passes=BUDGET)
    assert [each.recovered for each in found[:2]] == [3, 3]
    assert found[1].error == pytest.approx(named(outcomes, "noise 0.1%").error, rel=0.1)
    assert found[1].utility.output_change > 0
    assert found[1].utility.training_error is None
    assert all(each.reason == "needs the training inputs and the training labels" for each in found[2:])


def test_a_reconstruction_that_is_there_is_not_made_again(features_release):
    result = build("exact")(features_release.target, max_passes=BUDGET)
    (outcome,) = measure(features_release, Exact(), families=[], undefended=result)
    assert outcome.seconds == result.seconds
    other = replace(features_release, target=replace(features_release.target, displacement=torch.ones(300)))
    with pytest.raises(InputError, match="another model"):
        measure(other, Exact(), families=[], undefended=result)


def test_kept_outcomes_are_not_measured_again_unless_something_changed(features_release, tmp_path, monkeypatch):
    options = {"families": [Noise((1e-3,))], "max_passes": 600, "folder": tmp_path}
    first = measure(features_release, Exact(max_starts=2), **options)
    result = build("exact")(features_release.target, max_passes=600)
    calls = []
    monkeypatch.setattr(Exact, "run", lambda self, *given: calls.append(self) or pytest.fail("attacked again"))
    again = measure(features_release, Exact(max_starts=2), undefended=result, **options)
    assert again[1] == first[1]
    with pytest.raises(pytest.fail.Exception):
        measure(features_release, Exact(max_starts=2), undefended=result, seed=1, **options)
    assert len(calls) == 1


def test_what_the_attack_refuses_is_a_reason(features_release):
    told = replace(features_release, target=features_release.target.assuming(num_samples=None))
    found = measure(told, build("descent"), families=[Noise((0.1,))], max_passes=10)
    assert all("needs the number of samples" in each.reason for each in found)
    assert found[1].utility.training_error is not None


def test_a_result_that_cannot_be_scored_is_a_reason(features_release):
    result = build("exact")(features_release.target, max_passes=BUDGET)
    diverged = replace(result, samples=torch.full_like(result.samples, math.nan))
    (outcome,) = measure(features_release, Exact(), families=[], undefended=diverged)
    assert "NaN" in outcome.reason
    assert outcome.recovered is None
    assert outcome.utility.training_error is not None


def test_outcomes_are_reported_as_they_come_and_survive_json(features_release, outcomes):
    seen = []
    measure(
        Release(features_release.target), Exact(max_starts=1), families=["ridge"], max_passes=50, progress=seen.append
    )
    assert [each.defence for each in seen] == ["none"] + ["ridge"] * 4
    assert [Outcome.from_json(each.to_json()) for each in outcomes] == outcomes


def test_an_unknown_defence_is_refused_before_anything_runs(features_release):
    with pytest.raises(InputError, match="unknown defence 'magic'; valid: coordinates"):
        measure(features_release, Exact(), families=["magic"])


def test_the_attack_is_given_the_target_and_nothing_of_the_truth(features_release, monkeypatch):
    seen = []
    run = Exact.run
    monkeypatch.setattr(Exact, "run", lambda self, *given: seen.append(given[0]) or run(self, *given))
    measure(features_release, Exact(max_starts=1), families=["samples"], max_passes=20)
    assert [problem.num_samples for problem in seen] == [3, 6, 9, 15]
    for problem in seen:
        assert problem.target.knowledge.samples is None
        assert problem.target.knowledge.labels is None


def test_every_family_keeps_the_contract(family, release):
    defence = DEFENCES[family]()
    assert defence.name == family
    assert defence.summary
    before = release.target.fingerprint
    variants = list(defence.variants(release))
    assert variants
    assert [each.strength for each in variants] == sorted(each.strength for each in variants)
    assert len({each.setting for each in variants}) == len(variants)
    for each in variants:
        assert each.defence == family
        assert (each.release is None) == bool(each.reason)
        if each.release is not None:
            assert each.release.target.fingerprint != before
            assert each.release.target.num_outputs == release.target.num_outputs
            assert math.isfinite(each.release.training_error)
    assert release.target.fingerprint == before


def test_every_family_without_data_yields_copies_or_reasons_in_words(family, release):
    for variant in DEFENCES[family]().variants(Release(release.target)):
        assert variant.release is not None or variant.reason.startswith("needs the training inputs")


@dataclass(frozen=True)
class Nothing(Defence):
    name: ClassVar[str] = "nothing"
    summary: ClassVar[str] = "the model unchanged"

    def settings(self, release):
        return [Setting("unchanged", 1.0)]

    def alter(self, release, setting):
        return release, ""


def test_a_defence_of_ones_own_can_be_measured(features_release):
    assert isinstance(chosen([Nothing()])[0], Nothing)
    plain, unchanged = measure(features_release, Exact(max_starts=1), families=[Nothing()], max_passes=BUDGET)
    assert unchanged.recovered == plain.recovered == 3
