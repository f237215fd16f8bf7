"""A matrix V that does not fit its budget: what fits is kept, in single or half precision, the rest drawn anew."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from exhume.features.gaussian import CHUNK_BYTES, DenseMatrix, GaussianMatrix, RowMatrix


class PartlyKept:
    """The first rows of V kept within its budget, the others drawn on every read.

    Args:
        matrix: V.
        dtype: what rows are kept in. In float16 there are twice as many, rounded; rows that are drawn are not.
    """

    is_kept = False

    def __init__(self, matrix: GaussianMatrix, dtype: torch.dtype = torch.float32) -> None:
        self.shape, self.device = matrix.shape, matrix.device
        self._matrix, self._dtype = matrix, dtype
        self._count = matrix.whole_blocks(matrix.memory_budget // (dtype.itemsize * self.shape[1]))
        left = 4 * (self.shape[0] - self._count) * self.shape[1]
        self._rest = matrix.subset(slice(self._count, None), memory_budget=self._chunk(left))
        self._kept: DenseMatrix | None = None

    @property
    def kept_bytes(self) -> int:
        """Bytes of V that are held."""
        return self._count * self.shape[1] * self._dtype.itemsize

    def chunks(self, dtype: torch.dtype = torch.float32) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yields (rows, V[rows]) from the first row to the last; each is to be read before the next is asked for."""
        if self._count:
            yield from self._head().chunks(dtype)
        for rows, part in self._rest.chunks(dtype):
            yield slice(rows.start + self._count, rows.stop + self._count), part

    def subset(self, rows: slice | torch.Tensor) -> RowMatrix:
        """Some rows: a window of those kept is a view, others are the matrix's own."""
        if isinstance(rows, slice) and rows.indices(self.shape[0])[1] <= self._count:
            return self._head().subset(rows)
        if isinstance(rows, slice):
            return self._matrix.subset(rows, memory_budget=self._chunk(self.kept_bytes))
        return self._matrix.subset(rows)

    def in_precision(self, dtype: torch.dtype) -> PartlyKept:
        """The same V, rows kept in another precision."""
        return PartlyKept(self._matrix, dtype)

    def _chunk(self, size: int) -> int:
        """A budget for a matrix of so many bytes that lets it draw large chunks, and not keep them."""
        return max(0, min(CHUNK_BYTES, self._matrix.memory_budget, size - 1))

    def _head(self) -> DenseMatrix:
        """The rows that are kept, drawn when they are asked for first."""
        if self._kept is None:
            entries = torch.empty((self._count, self.shape[1]), dtype=self._dtype, device=self.device)
            head = self._matrix.subset(slice(0, self._count), memory_budget=self._chunk(4 * entries.numel()))
            for rows, part in head.chunks():
                entries[rows] = part
            self._kept = DenseMatrix(entries)
        return self._kept


def kept_as_it_fits(matrix: RowMatrix, dtype: torch.dtype = torch.float32) -> RowMatrix:
    """A matrix of which what fits its budget is kept, in this precision; one that is kept anyway stays as it is."""
    if isinstance(matrix, PartlyKept):
        return matrix.in_precision(dtype)
    return PartlyKept(matrix, dtype) if isinstance(matrix, GaussianMatrix) and not matrix.is_kept else matrix
