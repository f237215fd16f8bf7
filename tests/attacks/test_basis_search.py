"""With many inputs and few samples, the exact attack searches in a small basis and uses a part of the coordinates."""

import math
from dataclasses import replace

import pytest
import torch

import exhume
from exhume import data
from exhume.attacks._base.problem import equation_count
from exhume.attacks._base.tuning import DEFAULT_TUNING
from exhume.attacks._search.in_basis import BasisSearch
from exhume.features import GaussianMatrix
from exhume.support import checkpoint

DIM, SAMPLES = 260, 6


def exact_with(**numbers):
    """The exact attack with other tuned numbers of the search in a basis."""
    changed = replace(DEFAULT_TUNING, basis=replace(DEFAULT_TUNING.basis, **numbers))
    return type("Exact", (exhume.Exact,), {"tuning": changed})()


def victim_of(ratio, seed=0, **options):
    training = data.load("sphere", dim=DIM, samples=SAMPLES, seed=seed)
    width = round(ratio * DIM * SAMPLES)
    return training, exhume.RandomFeatures(num_features=width, seed=seed, **options).fit(
        training.inputs, training.labels
    )


@pytest.fixture(scope="module")
def found():
    """The training data, the victim and the samples found in a basis."""
    training, victim = victim_of(3)
    return training, victim, exhume.reconstruct(victim.target(), num_samples=SAMPLES)


@pytest.fixture(scope="module")
def partly_read():
    """A victim with more coordinates than the search reads at first: 3 of 5 equations per unknown."""
    return victim_of(5)


def test_samples_are_found_in_a_basis_with_fewer_passes_than_by_subsets(found):
    training, victim, result = found
    without = exact_with(least_dims=DIM + 1)(victim.target(), num_samples=SAMPLES)
    assert result.certificate.verdict == without.certificate.verdict == "exact"
    assert exhume.score(result, training.inputs).error < 1e-5
    assert result.passes < without.passes


def test_signs_that_an_even_activation_hides_stay_open():
    training, victim = victim_of(4, activation="abs")
    result = exhume.reconstruct(victim.target(), num_samples=SAMPLES)
    assert (result.certificate.verdict, result.signs_determined) == ("exact", False)
    assert exhume.score(result, training.inputs).error_up_to_sign < 1e-5


def test_a_few_of_many_coordinates_are_read_and_the_others_confirm(partly_read):
    training, victim = partly_read
    target = victim.target(knowledge=exhume.Knowledge.about(training.labels))
    result = exhume.reconstruct(target, num_samples=SAMPLES)
    read = 3 * equation_count(target, SAMPLES).unknowns
    assert result.evidence["coordinates"] == read
    assert result.certificate.equations == read < target.num_parameters
    assert result.evidence["unread_residual"] < 1e-5
    assert any(f"{read} of {target.num_parameters} were read" in note for note in result.notes)
    assert exhume.score(result, training.inputs, true_labels=training.labels).error < 1e-5


def test_weights_that_were_not_read_and_do_not_agree_are_noticed(partly_read):
    target = partly_read[1].target()
    wrong = target.displacement.clone()
    wrong[:, -200:] += 0.3 * wrong.norm() / wrong.shape[1] ** 0.5
    result = exhume.reconstruct(exhume.Target(target.feature_map, wrong), num_samples=SAMPLES, max_passes=600)
    assert result.certificate.verdict != "exact"
    assert "coordinates" not in result.evidence
    assert result.certificate.equations == target.num_parameters


def test_rounded_weights_are_read_whole_for_the_last_digits(partly_read):
    training, victim = partly_read
    target = victim.target()
    rounded = exhume.Target(target.feature_map, target.displacement.bfloat16().float())
    result = exhume.reconstruct(rounded, num_samples=SAMPLES, max_passes=4000)
    assert result.certificate.verdict == "approximate"
    assert result.certificate.equations == target.num_parameters
    error = exhume.score(result, training.inputs).error
    assert error / 3 < result.certificate.predicted_error < 3 * error


class Cut(Exception):
    pass


def test_interrupted_search_in_a_basis_goes_on_where_it_was(found, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    training, victim, whole = found
    target, path = victim.target(), tmp_path / "state.safetensors"

    def cut_at(event):
        if event.step == 12:
            raise Cut

    with pytest.raises(Cut):
        exhume.reconstruct(target, num_samples=SAMPLES, checkpoint=path, progress=cut_at)
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 60.0)  # saving takes longer than the steps
    seen = []
    again = exhume.reconstruct(
        target, num_samples=SAMPLES, checkpoint=path, resume=True, progress=lambda event: seen.append(event.step)
    )
    assert seen[0] >= 11
    # The basis is made anew, so that rounding differs; the answer does not.
    assert again.certificate.verdict == whole.certificate.verdict == "exact"
    torch.testing.assert_close(again.samples, whole.samples, atol=1e-4, rtol=0)
    assert exhume.score(again, training.inputs).error < 1e-5


def test_what_an_interrupted_run_had_behind_it_is_not_searched_again(found, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    attack = exact_with(steps=3)  # the search in a basis gives up, and the search by subsets takes over
    target, path = found[1].target(), tmp_path / "state.safetensors"
    steps = []

    def cut(event):
        steps.append(event.step)
        if len(steps) == 8:
            raise Cut

    with pytest.raises(Cut):
        attack(target, num_samples=SAMPLES, checkpoint=path, progress=cut)
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 60.0)  # saving takes longer than the steps
    monkeypatch.setattr(BasisSearch, "advance", lambda *arguments: pytest.fail("searched again"))
    result = attack(target, num_samples=SAMPLES, checkpoint=path, resume=True)
    assert result.certificate.verdict == "exact"


def test_of_v_over_the_budget_what_fits_is_kept_and_twice_as_much_while_the_residual_is_large(monkeypatch):
    drawn = []
    generate = GaussianMatrix._generate
    monkeypatch.setattr(
        GaussianMatrix,
        "_generate",
        lambda self, start, stop, buffer=None: drawn.append(stop - start) or generate(self, start, stop, buffer),
    )

    def rows_drawn(attack, memory_budget="3MB"):  # V has 4.9 MB
        training, victim = victim_of(3, memory_budget=memory_budget)
        drawn.clear()
        result = attack(victim.target(), num_samples=SAMPLES)
        assert result.certificate.verdict == "exact"
        assert exhume.score(result, training.inputs).error < 1e-5
        return sum(drawn)

    with_half, single_only = rows_drawn(exhume.Exact()), exact_with(half_above=math.inf)
    single = rows_drawn(single_only)
    anew = rows_drawn(single_only, memory_budget=0)
    assert with_half < 0.9 * single
    assert single < 0.6 * anew
