"""Behaviour of Dataset, PictureFormat and standardisation."""

from __future__ import annotations

import json

import pytest
import torch

from exhume.data.dataset import Dataset
from exhume.data.formats import PictureFormat, rescale_rows, standardise
from exhume.errors import InputError

FORMATS = [
    PictureFormat((3, 4, 5), (0.4,), (0.2,)),
    PictureFormat((3, 4, 5), (0.1, 0.5, 0.9), (0.2, 0.3, 0.4)),
    PictureFormat((1, 2, 2)),
]


@pytest.mark.parametrize("picture", FORMATS)
def test_pictures_survive_the_way_to_vectors_and_back(picture: PictureFormat) -> None:
    pixels = torch.rand(6, *picture.shape, generator=torch.Generator().manual_seed(0))
    vectors = picture.to_vectors(pixels)
    assert vectors.shape == (6, picture.shape[0] * picture.shape[1] * picture.shape[2])
    assert vectors.dtype == torch.float32
    torch.testing.assert_close(picture.to_pictures(vectors), pixels, atol=1e-6, rtol=0)


def test_channels_are_standardised_by_their_own_numbers() -> None:
    picture = PictureFormat((2, 1, 1), (0.5, 0.25), (0.5, 0.25))
    vectors = picture.to_vectors(torch.tensor([[[[1.0]], [[1.0]]]]))
    assert vectors.tolist() == [[1.0, 3.0]]


def test_pictures_are_clipped_to_visible_pixels() -> None:
    pictures = PictureFormat((1, 1, 2), (0.5,), (1.0,)).to_pictures(torch.tensor([[-3.0, 3.0]]))
    assert pictures.flatten().tolist() == [0.0, 1.0]


@pytest.mark.parametrize("picture", FORMATS)
def test_picture_format_survives_json(picture: PictureFormat) -> None:
    assert PictureFormat.from_json(json.loads(json.dumps(picture.to_json()))) == picture


@pytest.mark.parametrize("value", [{}, {"shape": [1, 2], "mean": [0], "std": [1]}, {"shape": 3, "mean": 0, "std": 1}])
def test_broken_picture_json_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(InputError, match="shape"):
        PictureFormat.from_json(value)


@pytest.mark.parametrize(
    ("shape", "mean", "std"),
    [((3, 0, 2), (0.0,), (1.0,)), ((3, 2, 2), (0.0, 0.0), (1.0,)), ((1, 2, 2), (0.0,), (0.0,))],
)
def test_impossible_picture_formats_are_refused(shape: tuple[int, int, int], mean: tuple, std: tuple) -> None:
    with pytest.raises(InputError, match="valid"):
        PictureFormat(shape, mean, std)


def test_wrong_vector_size_names_both_sizes() -> None:
    with pytest.raises(InputError, match=r"\(2, 5\).*\(m, 4\)"):
        PictureFormat((1, 2, 2)).to_pictures(torch.zeros(2, 5))


def test_subset_standardisation_uses_one_mean_and_one_unbiased_std() -> None:
    pixels = torch.rand(3, 3, 4, 4, generator=torch.Generator().manual_seed(1)) * torch.tensor([1, 0.5, 0.2]).view(
        3, 1, 1
    )
    vectors, picture = standardise(pixels, "subset")
    assert picture.mean == pytest.approx((float(pixels.mean()),))
    assert picture.std == pytest.approx((float(pixels.std()),))
    torch.testing.assert_close(vectors, ((pixels - pixels.mean()) / pixels.std()).flatten(1), atol=1e-5, rtol=0)


def test_raw_pixels_stay_as_they_are() -> None:
    pixels = torch.rand(2, 1, 3, 3, generator=torch.Generator().manual_seed(1))
    vectors, picture = standardise(pixels, "none")
    assert torch.equal(vectors, pixels.flatten(1))
    assert torch.equal(picture.to_pictures(vectors), pixels)


def test_standardisation_that_cannot_work_is_refused() -> None:
    flat = torch.full((2, 1, 2, 2), 0.5)
    with pytest.raises(InputError, match="standard deviation is 0"):
        standardise(flat, "subset")
    with pytest.raises(InputError, match="no channel statistics"):
        standardise(flat, "channel")
    with pytest.raises(InputError, match=r"'whiten'.*channel, none, subset"):
        standardise(flat, "whiten")


def test_sphere_norm_rescales_rows_and_keeps_directions() -> None:
    vectors = torch.tensor([[3.0, 4.0, 0.0, 0.0], [0.0, 0.0, 0.1, 0.0]])
    rescaled = rescale_rows(vectors, "sphere")
    torch.testing.assert_close(rescaled, torch.tensor([[1.2, 1.6, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]]))
    assert rescale_rows(vectors, "keep") is vectors
    with pytest.raises(InputError, match="row 1 is zero"):
        rescale_rows(torch.tensor([[1.0], [0.0]]), "sphere")


GOOD = {
    "name": "own",
    "inputs": torch.zeros(3, 4),
    "labels": torch.ones(3),
    "non_members": torch.zeros(0, 4),
    "picture": PictureFormat((1, 2, 2)),
    "protocol": "Zeros.",
}


def test_dataset_knows_its_size() -> None:
    data = Dataset(**GOOD)
    assert (data.num_samples, data.input_dim) == (3, 4)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("inputs", torch.zeros(3), r"inputs of shape \(3,\)"),
        ("inputs", torch.zeros(0, 4), r"labels of shape \(3,\) for 0 samples"),
        ("inputs", torch.zeros(3, 0), "d at least 1"),
        ("inputs", torch.zeros(3, 4, dtype=torch.float16), "float16"),
        ("inputs", torch.full((3, 4), float("nan")), "in inputs are NaN"),
        ("labels", torch.ones(2), r"labels of shape \(2,\)"),
        ("labels", torch.ones(3, dtype=torch.int64), "int64"),
        ("labels", torch.tensor([1.0, float("inf"), 0.0]), "in labels are NaN"),
        ("non_members", torch.zeros(2, 5), "non_members"),
        ("non_member_labels", torch.ones(2), r"non_member_labels of shape \(2,\) for 0 samples"),
        ("picture", PictureFormat((1, 2, 3)), "dimension 4"),
    ],
)
def test_inconsistent_dataset_is_refused(field: str, value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Dataset(**{**GOOD, field: value})


ROWS = torch.arange(24).reshape(4, 6) / 24


def test_what_is_not_given_has_no_rows() -> None:
    data = Dataset.of(ROWS.reshape(4, 2, 3))
    assert torch.equal(data.inputs, ROWS)
    assert (len(data.labels), len(data.non_members), data.is_labelled) == (0, 0, False)
    held_out = Dataset.of(None, None, ROWS, [0, 1, 2, 0])
    assert (held_out.num_samples, held_out.input_dim) == (0, 6)
    assert held_out.non_member_labels.tolist() == [0, 1, 2, 0]


def test_classes_by_number_become_rows_for_several_outputs() -> None:
    data = Dataset.of(ROWS, torch.tensor([2, 0, 1, 1]))
    assert data.fitted_to(6, 3).labels.tolist()[0] == [0, 0, 1]
    assert data.fitted_to(6, 1).labels.tolist() == [2, 0, 1, 1]
    with pytest.raises(InputError, match="classes 0 to 1"):
        data.fitted_to(6, 2)


@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        (ROWS[:, :5], None, "samples of 5 numbers, the model takes 6"),
        (ROWS * torch.nan, None, "in inputs are NaN"),
        (torch.cat((ROWS, torch.zeros(1, 6))), None, "row of zeros"),
        (ROWS, torch.ones(3), r"labels of shape \(3,\) for 4 samples"),
        (ROWS, torch.ones(4, 2), "do not fit a model of 1 outputs"),
        (None, torch.ones(3), "neither inputs nor non_members"),
        (None, None, "neither inputs nor non_members"),
        (ROWS[0], None, "a row a sample"),
        (ROWS[:0], None, "at least one sample"),
        ("no array", None, "no array of numbers"),
    ],
)
def test_data_that_do_not_fit_a_model_are_refused(inputs: object, labels: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Dataset.of(inputs, labels).fitted_to(6, 1)
