"""If a matrix exceeds its budget, the rows that fit are kept, and the others are regenerated on every read."""

import pytest
import torch

from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.features.matrix import PartlyKept, kept_as_it_fits

ROWS, COLUMNS = 5000, 10
HALF_OF_IT = ROWS * COLUMNS * 4 // 2


def matrix_of(budget, **options):
    return GaussianMatrix(ROWS, COLUMNS, seed=4, memory_budget=budget, **options)


def whole(matrix, dtype=torch.float32):
    return torch.cat([part.clone() for _, part in matrix.chunks(dtype)])


def expected(**options):
    return whole(matrix_of("1GB", **options))


@pytest.fixture
def drawn(monkeypatch):
    """The rows that each read generated."""
    rows = []
    generate = GaussianMatrix._generate

    def watched(self, start, stop, buffer=None):
        rows.append(stop - start)
        return generate(self, start, stop, buffer)

    monkeypatch.setattr(GaussianMatrix, "_generate", watched)
    return rows


@pytest.mark.parametrize("budget", [0, 1000, HALF_OF_IT, 4 * ROWS * COLUMNS - 1])
@pytest.mark.parametrize("blocks", [(0, 1), (1, 2)])
@pytest.mark.parametrize("window", [slice(0, 5000), slice(700, 4700)])
def test_the_numbers_are_those_of_the_matrix(budget, blocks, window):
    part = matrix_of(budget, blocks=blocks).subset(window)
    assert torch.equal(whole(kept_as_it_fits(part)), expected(blocks=blocks)[window])
    ends = [rows.stop for rows, _ in kept_as_it_fits(part).chunks()]
    assert ends == sorted(ends)
    assert ends[-1] == part.shape[0]


@pytest.mark.parametrize(("dtype", "share"), [(torch.float32, 0.5), (torch.float16, 1.0)])
def test_what_fits_is_drawn_once_and_the_rest_on_every_read(dtype, share, drawn):
    kept = PartlyKept(matrix_of(HALF_OF_IT), dtype)
    assert 0.8 * share * ROWS <= kept.kept_bytes / dtype.itemsize / COLUMNS <= share * ROWS
    assert kept.kept_bytes <= HALF_OF_IT
    assert not kept.is_kept
    whole(kept)
    assert sum(drawn) == ROWS
    drawn.clear()
    whole(kept)
    assert sum(drawn) == ROWS - kept.kept_bytes // dtype.itemsize // COLUMNS


def test_rows_kept_in_half_precision_are_rounded_and_the_others_are_not():
    numbers = expected()
    kept = PartlyKept(matrix_of(HALF_OF_IT // 2), torch.float16)
    count = kept.kept_bytes // 2 // COLUMNS
    assert 0 < count < ROWS
    assert torch.equal(whole(kept)[:count], numbers[:count].half().float())
    assert torch.equal(whole(kept)[count:], numbers[count:])
    assert torch.equal(whole(kept_as_it_fits(kept)), numbers)  # in single precision again


def test_subsets_are_rows_of_the_matrix():
    numbers, kept = expected(), PartlyKept(matrix_of(HALF_OF_IT))
    for rows in (slice(0, 100), slice(2000, 4500), slice(4000, None), torch.tensor([4999, 0, 1500])):
        assert torch.equal(whole(kept.subset(rows)), numbers[rows])


def test_a_matrix_that_is_kept_anyway_stays_as_it_is():
    matrix = matrix_of("1GB")
    assert kept_as_it_fits(matrix, torch.float16) is matrix
    dense = matrix.subset(slice(0, 10))
    assert kept_as_it_fits(dense, torch.float16) is dense


def test_a_map_computes_the_same_features_and_counts_in_the_same_counter():
    features = RandomFeatureMap(matrix_of(HALF_OF_IT), "relu")
    kept = features.kept_as_it_fits()
    inputs = torch.randn(3, COLUMNS, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(kept.forward(inputs), features.forward(inputs))
    assert features.counter.passes(3, features.num_features, COLUMNS) == 2
    assert not kept.is_kept
    assert kept.linearise(inputs).generates_matrix
