"""Knowledge is checked on construction, can be changed, and survives a round trip to disk."""

import numpy as np
import pytest
import torch

from exhume.errors import InputError
from exhume.support import serialise
from exhume.target.knowledge import Knowledge


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"samples": torch.zeros(3)}, "samples are rows"),
        ({"samples": torch.zeros((0, 3))}, "rows of numbers"),
        ({"samples": "abc"}, "expected rows of numbers, got a str"),
        ({"labels": object()}, "expected rows of numbers, got a object"),
        ({"samples": torch.zeros((1, 3))}, "a row of zeros"),
        ({"samples": torch.ones((2, 3))}, "the same sample twice"),
        ({"samples": torch.eye(3), "labels": torch.ones(3)}, "all 3 samples are known"),
        ({"norm": float("inf")}, "norm is inf; it must be a finite number"),
        ({"pixel_mean": float("nan")}, "pixel_mean is nan; it must be a finite number"),
        ({"pixel_std": ()}, "must be positive"),
        ({"subspace": torch.full((2, 3), float("nan"))}, "NaN or infinite"),
        ({"norm": -1.0}, "norm"),
        ({"pixel_range": (1.0, 0.0)}, "must rise"),
        ({"pixel_std": (0.2, 0.0)}, "must be positive"),
        ({"num_samples": 3, "labels": torch.ones(4)}, "4 labels, but num_samples is 3"),
        ({"num_samples": 2, "samples": torch.eye(2)}, "all 2 samples are known"),
        ({"secret": 1}, "secret"),
    ],
)
def test_what_cannot_be_known_is_named(values, words):
    with pytest.raises(InputError, match=words):
        Knowledge(**values)


def whole():
    return Knowledge(
        num_samples=5,
        samples=torch.arange(6.0).reshape(2, 3),
        labels=torch.ones(5),
        norm=2.5,
        pixel_range=(0.0, 1.0),
        pixel_mean=(0.4, 0.5, 0.6),
        pixel_std=0.5,
        column_mean=(0.0, 1.0, 2.0),
        column_std=(1.0, 0.5, 2.0),
        subspace=torch.eye(3)[:2],
    )


def test_comes_back_from_json_and_tensors():
    known = whole()
    again = serialise.load(Knowledge, *serialise.dump(known))
    assert again == known
    assert hash(again) == hash(known)
    assert again != known.knowing(samples=known.samples + 1)
    assert torch.equal(again.samples, known.samples)


def test_every_field_can_be_forgotten_and_names_are_checked():
    known = whole()
    for name in Knowledge.model_fields:
        less = known.without(name)
        assert getattr(less, name) in (None, "unknown"), name
    with pytest.raises(InputError, match="no knowledge is called colour; valid: num_samples"):
        known.without("colour")


def test_sentence_says_what_is_known():
    assert whole().sentence().startswith("Known: num samples 5, samples 2x3, labels 5, norm 2.5")


def test_count_of_samples_and_known_ones():
    assert (whole().count, whole().known_samples) == (5, 2)
    assert Knowledge(labels=torch.ones(7)).count == 7
    assert Knowledge().count is None


def test_arrays_and_lists_are_taken():
    assert torch.equal(Knowledge(samples=np.eye(3)).samples, torch.eye(3, dtype=torch.float64))
    assert Knowledge(subspace=[[1.0, 0.0]]).subspace.shape == (1, 2)
    assert Knowledge(samples=np.array([[255, 3]])).samples.dtype == torch.float32


def test_pixel_bounds_are_those_of_normalised_inputs():
    low, high = whole().pixel_bounds((3, 2, 2))
    assert torch.allclose(low[:4], torch.full((4,), -0.8, dtype=torch.float64))
    assert torch.allclose(high[8:], torch.full((4,), 0.8, dtype=torch.float64))
    assert Knowledge().pixel_bounds((3, 2, 2)) is None
    with pytest.raises(InputError, match="3 numbers for pixels do not fit"):
        whole().pixel_bounds((1, 2, 2))
