"""Attacks of several searches that are cut in a later one go on in that one, with what the others have found."""

import json
import shutil
from contextlib import contextmanager

import pytest
import torch

import exhume
from exhume import data
from exhume.attacks._search.in_basis import BasisSearch
from exhume.attacks._search.subsets import SubsetSearch
from exhume.support import checkpoint, files

DIM, SAMPLES = 260, 6


class Cut(Exception):
    """Raised in mid-run."""


@contextmanager
def watched_searches():
    """The stages that were begun or resumed, in order, not those that were replayed."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        for kind in (SubsetSearch, BasisSearch):
            for method in ("begin", "restore"):
                inner = getattr(kind, method)

                def noted(self, argument, *, kind=kind, inner=inner, method=method):
                    if method == "begin" or argument.step > 0:  # the state of a checkpoint
                        seen.append((kind.__name__, self.count))
                    return inner(self, argument)

                patch.setattr(kind, method, noted)
        yield seen


@pytest.fixture
def searches():
    with watched_searches() as seen:
        yield seen


def cut_run(target, searches, number, steps, **settings):
    """Runs the attack, saves every step, and ends it after so many steps of the search of that number."""
    seen = []

    def progress(event):
        if len(searches) == number:
            seen.append(event)
            if len(seen) == steps:
                raise Cut

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
        with pytest.raises(Cut):
            exhume.reconstruct(target, **settings, progress=progress)


@pytest.fixture(scope="module")
def disagreeing():
    """Weights whose first coordinates show samples that the last ones know nothing of."""
    training = data.load("sphere", dim=DIM, samples=SAMPLES)
    victim = exhume.RandomFeatures(num_features=12 * DIM * SAMPLES).fit(training.inputs, training.labels)
    target = victim.target()
    wrong = target.displacement.clone()
    wrong[:, -200:] += 0.3 * wrong.norm() / wrong.shape[1] ** 0.5
    return exhume.Target(target.feature_map, wrong)


def test_a_run_cut_after_a_basis_found_what_the_unread_do_not_confirm_ends_as_the_uncut_one(
    disagreeing, searches, tmp_path
):
    settings = {
        "num_samples": SAMPLES,
        "max_passes": 180,
        "max_starts": 1,
        "checkpoint": tmp_path / "state.safetensors",
    }
    whole = exhume.reconstruct(disagreeing, **settings)
    assert searches == [("BasisSearch", SAMPLES), ("SubsetSearch", SAMPLES)]
    searches.clear()
    cut_run(disagreeing, searches, 2, 5, **settings)
    searches.clear()
    again = exhume.reconstruct(disagreeing, **settings, resume=True)
    assert searches == [("SubsetSearch", SAMPLES)]
    assert again.certificate.verdict == whole.certificate.verdict != "exact"
    assert again.certificate.equations == disagreeing.num_parameters
    assert (again.stop, again.steps, again.passes) == (whole.stop, whole.steps, whole.passes)
    torch.testing.assert_close(again.samples, whole.samples, atol=1e-4, rtol=0)


@pytest.fixture(scope="module")
def small():
    training = data.load("sphere", dim=8, samples=4)
    return exhume.RandomFeatures(num_features=200).fit(training.inputs, training.labels).target()


@pytest.fixture(scope="module")
def cut_once(small, tmp_path_factory):
    """The checkpoint of a run that was cut in its second search by subsets, and how the uncut run went."""
    path, reports = tmp_path_factory.mktemp("cut") / "state.safetensors", []
    with watched_searches() as searches:
        whole = exhume.reconstruct(small, progress=reports.append)
        assert len(searches) > 1
        assert {kind for kind, _ in searches} == {"SubsetSearch"}
        after_the_first = searches[1:]
        searches.clear()
        cut_run(small, searches, 2, 20, checkpoint=path)
    return path, whole, reports, after_the_first


@pytest.fixture
def cut(cut_once, tmp_path):
    """The same with a copy of the checkpoint, which the test may change."""
    path, *how = cut_once
    return shutil.copy(path, tmp_path / path.name), *how


def test_a_run_cut_in_its_second_search_resumes_that_one_at_its_step(small, searches, cut):
    path, whole, reports, after_the_first = cut
    later = []
    again = exhume.reconstruct(small, checkpoint=path, resume=True, progress=later.append)
    assert searches == after_the_first
    assert later == reports[-len(later) :]
    assert later[0].step == 19  # the first is 0, and the twentieth was saved before it was reported
    assert torch.equal(again.samples, whole.samples)
    assert (again.stop, again.steps, again.passes) == (whole.stop, whole.steps, whole.passes)
    assert (again.history, again.evidence) == (whole.history, whole.evidence)


def test_a_run_that_is_cut_twice_in_its_second_search_loses_nothing(small, searches, cut):
    path, whole, _, _ = cut
    cut_run(small, searches, 1, 10, checkpoint=path, resume=True)
    later = []
    again = exhume.reconstruct(small, checkpoint=path, resume=True, progress=later.append)
    assert later[0].step == 28
    assert torch.equal(again.samples, whole.samples)


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "BasisSearch", "samples": 3, "coordinates": 200},
        {"kind": "SubsetSearch", "samples": 99, "coordinates": 200},
        {"kind": "SubsetSearch", "samples": 3, "coordinates": 7},
    ],
)
def test_a_checkpoint_of_another_search_is_refused(small, cut, other):
    path = cut[0]
    tensors, metadata = files.read_tensors(path), files.read_metadata(path)
    numbers = json.loads(metadata["numbers"])
    assert numbers["session"]["key"]["kind"] == "SubsetSearch"
    numbers["session"]["key"] = other
    files.write_tensors(path, tensors, metadata | {"numbers": json.dumps(numbers)})
    before = path.read_bytes()
    sentence = "stage 2 is {kind} for {samples} samples on {coordinates} coordinates there".format(**other)
    with pytest.raises(exhume.errors.FileError, match=sentence):
        exhume.reconstruct(small, checkpoint=path, resume=True)
    assert path.read_bytes() == before


def test_a_checkpoint_of_an_earlier_version_is_refused(small, cut):
    path = cut[0]
    metadata = files.read_metadata(path) | {"format": "1"}
    files.write_tensors(path, files.read_tensors(path), metadata)
    with pytest.raises(exhume.errors.FileError, match="not a checkpoint of this version of exhume"):
        exhume.reconstruct(small, checkpoint=path, resume=True)
