"""The Gaussian matrix is the same, whichever chunks it is generated in."""

import pytest
import torch

from exhume.features import RandomFeatureMap
from exhume.features import matrix as gaussian
from exhume.features.matrix import BLOCK_ROWS, GaussianMatrix
from exhume.support.randomness import seed_for


def whole(matrix: GaussianMatrix, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.cat([part.clone() for _, part in matrix.chunks(dtype)])


def test_entries_have_mean_zero_and_variance_one_over_d():
    entries = whole(GaussianMatrix(20_000, 50, seed=3))
    assert entries.mean().abs() < 4 / (50 * 1_000_000) ** 0.5
    assert entries.var() * 50 == pytest.approx(1, abs=0.01)
    fourth_moment = (entries * 50**0.5).pow(4).mean()
    assert fourth_moment == pytest.approx(3, abs=0.05)


@pytest.mark.parametrize("budget", [0, "1MB", "1GB"])
@pytest.mark.parametrize("chunk_bytes", [1, 10**6, 10**9])
def test_matrix_is_the_same_for_every_budget_and_chunk_size(monkeypatch, budget, chunk_bytes):
    monkeypatch.setattr(gaussian, "CHUNK_BYTES", 2**26)
    expected = whole(GaussianMatrix(5 * BLOCK_ROWS + 17, 30, seed=1, memory_budget="1GB"))
    monkeypatch.setattr(gaussian, "CHUNK_BYTES", chunk_bytes)
    assert torch.equal(whole(GaussianMatrix(5 * BLOCK_ROWS + 17, 30, seed=1, memory_budget=budget)), expected)


def test_wider_matrix_begins_with_the_narrower_one():
    narrow, wide = (whole(GaussianMatrix(rows, 7, seed=5)) for rows in (100, 3000))
    assert torch.equal(wide[:100], narrow)


def test_other_seeds_and_blocks_give_other_numbers():
    first = whole(GaussianMatrix(2 * BLOCK_ROWS, 8, seed=0))
    second = whole(GaussianMatrix(2 * BLOCK_ROWS, 8, seed=1))
    assert torch.isin(first, second).float().mean() < 0.01
    assert torch.isin(first[:BLOCK_ROWS], first[BLOCK_ROWS:]).float().mean() < 0.01


@pytest.mark.parametrize("columns", [1, 7, 30])
def test_every_block_is_a_draw_of_standard_normals_over_the_root_of_d(columns):
    """The definition of V, which saved victims rely on."""
    entries = whole(GaussianMatrix(2 * BLOCK_ROWS + 300, columns, seed=11))
    for block in range(3):
        seed = (seed_for(11, "random features") + block * 0x9E3779B1) % 2**32
        drawn = torch.randn((BLOCK_ROWS, columns), generator=torch.Generator().manual_seed(seed)) * columns**-0.5
        held = entries[block * BLOCK_ROWS : (block + 1) * BLOCK_ROWS]
        assert torch.equal(held, drawn[: len(held)])


def test_features_in_half_precision_are_near_the_exact_ones_and_computed_in_full_precision():
    matrix = GaussianMatrix(3000, 40, seed=3, memory_budget=2 * 3000 * 40)
    exact = RandomFeatureMap(matrix, "relu")
    rounded = exact.kept_as_it_fits(torch.float16)
    inputs = torch.randn(2, 40, generator=torch.Generator().manual_seed(0))
    features = exact.forward(inputs)
    change = (rounded.forward(inputs) - features).norm() / features.norm()
    assert rounded.forward(inputs).dtype == torch.float32
    assert 1e-5 < change < 5e-4
    assert exact.counter.passes(2, *matrix.shape) == 3


def test_float64_sees_the_same_numbers():
    matrix = GaussianMatrix(100, 9, seed=2)
    assert torch.equal(whole(matrix, torch.float64), whole(matrix).double())


def test_matrix_over_budget_is_not_kept():
    small, large = (GaussianMatrix(2000, 100, seed=0, memory_budget=budget) for budget in (799_999, 800_000))
    whole(small), whole(large)
    assert small._kept is None
    assert large._kept is not None


@pytest.mark.parametrize("budget", [0, "1GB"])
@pytest.mark.parametrize("rows", [torch.tensor([2999, 0, 1500, 1024]), slice(100, 2500), slice(0, 3000)])
def test_subsets_are_rows_of_the_whole(budget, rows):
    matrix = GaussianMatrix(3000, 5, seed=4, memory_budget=budget)
    expected = whole(matrix)[rows]
    part = matrix.subset(rows)
    assert part.shape == tuple(expected.shape)
    assert torch.equal(whole(part), expected)
    assert torch.equal(whole(part.subset(slice(1, 3))), expected[1:3])
    assert torch.equal(whole(part.subset(torch.tensor([3, 0]))), expected[[3, 0]])


@pytest.mark.parametrize("blocks", [(0, 1), (1, 2)])
@pytest.mark.parametrize("window", [slice(0, 2000), slice(700, 2900)])
def test_a_window_that_fits_the_budget_is_generated_once(monkeypatch, blocks, window):
    wide = GaussianMatrix(5000, 10, seed=4, memory_budget=100_000, blocks=blocks)
    expected = whole(wide)[window]
    drawn = []
    generate = GaussianMatrix._generate
    monkeypatch.setattr(
        GaussianMatrix,
        "_generate",
        lambda self, start, stop, buffer=None: drawn.append((start, stop)) or generate(self, start, stop, buffer),
    )
    part = wide.subset(window)
    assert not wide.is_kept
    assert part.is_kept
    for _ in range(3):
        assert torch.equal(whole(part), expected)
    assert torch.equal(whole(part.subset(slice(5, 1500))), expected[5:1500])
    assert torch.equal(whole(part.subset(torch.tensor([1400, 3]))), expected[[1400, 3]])
    assert drawn == [(window.start, window.stop)]


def test_a_window_that_does_not_fit_the_budget_is_not_kept_but_its_windows_may_be():
    wide = GaussianMatrix(5000, 10, seed=4, memory_budget=100_000)
    part = wide.subset(slice(500, 4500))
    assert torch.equal(whole(part), whole(wide)[500:4500])
    assert not part.is_kept
    assert part._kept is None
    inner = part.subset(slice(100, 1100))
    assert inner.is_kept
    assert torch.equal(whole(inner), whole(wide)[600:1600])


def test_a_window_without_rows_has_no_chunks():
    assert list(GaussianMatrix(5000, 10, seed=4, memory_budget=0).subset(slice(7, 7)).chunks()) == []
