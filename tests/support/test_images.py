"""Pictures of reports: what they encode, what can be drawn, and that a blurred one cannot be read."""

import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from exhume.errors import InputError
from exhume.support.images import blurred, data_uri, is_coarse, shape_of_picture, stretched


def _decoded(uri: str) -> np.ndarray:
    head, _, body = uri.partition(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(body))))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_survives_its_data_uri_to_the_nearest_of_256_levels(channels):
    picture = torch.rand(channels, 6, 9, generator=torch.Generator().manual_seed(1))
    pixels = _decoded(data_uri(picture)).reshape(6, 9, channels)
    assert np.abs(pixels / 255 - picture.permute(1, 2, 0).numpy()).max() <= 0.5 / 255 + 1e-6


@pytest.mark.parametrize("shape", [(2, 8, 8), (8, 8), (1, 0, 4), (1, 1, 8, 8)])
def test_what_is_no_picture_is_refused_by_its_shape(shape):
    with pytest.raises(InputError, match="valid: \\(1, H, W\\) or \\(3, H, W\\)"):
        data_uri(torch.zeros(shape))


@pytest.mark.parametrize(
    ("value", "words"), [(float("nan"), "NaN"), (float("inf"), "NaN"), (1.2, "0 to 1"), (-0.5, "0")]
)
def test_pixels_out_of_range_are_refused_and_not_clipped_in_silence(value, words):
    picture = torch.full((1, 4, 4), 0.5)
    picture[0, 0, 0] = value
    with pytest.raises(InputError, match=words):
        data_uri(picture)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 8, 8), (1, 8, 8)),
        ((3, 32, 64), (3, 32, 64)),
        ((28, 28), (1, 28, 28)),
        ((64,), None),
        ((32, 32, 3), None),
        ((2, 8, 8), None),
        ((1, 3, 8), None),
        ((3, 8), None),
        ((1, 1, 8, 8), None),
        ((), None),
    ],
)
def test_only_grey_and_colour_pictures_of_some_size_are_drawn(shape, expected):
    assert shape_of_picture(shape) == expected


def test_each_vector_is_stretched_to_its_own_range():
    vectors = torch.tensor([[-2.0] * 8 + [6.0] * 8, [10.0] * 4 + [11.0] * 4 + [12.0] * 8, [3.0] * 16])
    pictures = stretched(vectors, (1, 4, 4)).flatten(1)
    assert pictures[0].tolist() == [0.0] * 8 + [1.0] * 8
    assert pictures[1].tolist() == [0.0] * 4 + [0.5] * 4 + [1.0] * 8
    assert pictures[2].tolist() == [0.5] * 16
    assert stretched(torch.zeros(0, 16), (1, 4, 4)).shape == (0, 1, 4, 4)


def test_vectors_that_cannot_be_stretched_are_refused():
    with pytest.raises(InputError, match="valid: \\(m, 16\\)"):
        stretched(torch.zeros(2, 15), (1, 4, 4))
    with pytest.raises(InputError, match="finite"):
        stretched(torch.full((1, 16), float("nan")), (1, 4, 4))


@pytest.mark.parametrize("side", [4, 8, 33])
def test_a_blurred_picture_holds_no_more_than_eight_bits(side):
    noise = torch.rand(4000, 1, side, side, generator=torch.Generator().manual_seed(2))
    levels = torch.rand(4000, 1, 1, 1, generator=torch.Generator().manual_seed(3))
    halves = torch.rand(4000, 1, 2, 2, generator=torch.Generator().manual_seed(4))
    pictures = (levels * noise + torch.nn.functional.interpolate(halves, size=(side, side))) / 2
    soft = blurred(pictures)
    assert soft.shape == pictures.shape
    assert soft.min() >= 0
    assert soft.max() <= 1
    assert 10 < len(soft.flatten(1).unique(dim=0)) <= 256


def test_neighbours_tell_sharp_digits_but_not_blurred_ones():
    digits, numbers = load_digits(return_X_y=True)
    pixels = torch.from_numpy(digits).float().reshape(-1, 1, 8, 8) / 16

    def told(pictures: torch.Tensor) -> float:
        return cross_val_score(KNeighborsClassifier(15), pictures.flatten(1).numpy(), numbers, cv=3).mean()

    assert told(pixels) > 0.9
    assert told(blurred(pixels)) < 0.35


def test_small_pictures_are_coarse_and_large_ones_are_not():
    assert is_coarse(data_uri(torch.zeros(1, 8, 8)))
    assert is_coarse(data_uri(torch.zeros(3, 64, 64)))
    assert not is_coarse(data_uri(torch.zeros(1, 8, 65)))
    assert not is_coarse("data:image/svg+xml,<svg/>")
    assert not is_coarse("data:image/png;base64,%%%")
