"""A small basis that grows: V B^T (p, r) is kept, so that features of samples in its span cost r/d of a pass."""

from __future__ import annotations

import math

import torch

from exhume.features.matrix import DenseMatrix
from exhume.features.one_layer import OneLayerMap

# Singular values of unit rows below which a direction is taken for one that is there already.
_SAME_DIRECTION = 1e-4
_SAME_IN_SPAN = 1e-6
_MIXED_AT_ONCE = 1 << 15  # coordinates


class GrowingBasis:
    """An orthonormal basis B (r, d) and the features of samples in its span.

    Coordinates are scaled as in `reduced`: a sample of norm sqrt(d) has coordinates of norm sqrt(r).

    Attributes:
        full_map: the map from all d dimensions.

    Args:
        features: of the form act(V x).
        rows: (m, d) whose span is the first basis. One pass over them.
    """

    def __init__(self, features: OneLayerMap, rows: torch.Tensor) -> None:
        self.full_map = features
        self._basis = torch.empty((0, features.input_dim), dtype=torch.float64, device=features.device)
        held = features.coordinates.width(features.num_features)
        # Its first r columns are scale V B^T.
        self._table = torch.empty((held, len(rows)), dtype=features.dtype, device=features.device)
        self.renew(rows[:0], rows)

    @property
    def rank(self) -> int:
        """r."""
        return int(self._basis.shape[0])

    @property
    def features(self) -> OneLayerMap:
        """The map from coordinates; an application costs r/d of one of the full map."""
        return self.full_map.with_matrix(DenseMatrix(self._table[:, : self.rank]))

    def lift(self, coordinates: torch.Tensor) -> torch.Tensor:
        """Samples (m, d) from their coordinates (m, r)."""
        return (self._scale * coordinates.double() @ self._basis).to(coordinates)

    def lower(self, rows: torch.Tensor) -> torch.Tensor:
        """Coordinates (m, r) of samples in the span."""
        return (rows.double() @ self._basis.T / self._scale).to(rows)

    def renew(self, kept: torch.Tensor, added: torch.Tensor) -> None:
        """A new basis, of the span of some rows (m, d) in the old one's and of others.

        V is read for what is new only: one pass over as many rows.
        """
        mixing = self._directions(_unit(kept.double() @ self._basis.T), _SAME_IN_SPAN)  # (m, r)
        old = mixing @ self._basis
        fresh = _unit(added.double())
        for _ in range(2):  # twice is enough
            fresh = fresh - (fresh @ old.T) @ old
        fresh = self._directions(fresh, _SAME_DIRECTION)
        rank = len(old) + len(fresh)
        scale = math.sqrt(self.full_map.input_dim / rank)
        self._mix((mixing.T * (scale / self._scale)).to(self._table), rank)
        self._table[:, len(old) : rank] = self.full_map.matvec((fresh * scale).to(self._table)).T
        self._basis = torch.cat([old, fresh])

    def _directions(self, rows: torch.Tensor, least: float) -> torch.Tensor:
        """An orthonormal basis of the span of rows, less directions in which they are small; the same in all processes.

        Each process holds V B^T for its own coordinates, and all must use the same B. They take the first process's
        factors before directions are left out: rounding may flip a sign, or lift a size over the limit.
        """
        if not len(rows):
            return rows
        _, sizes, directions = torch.linalg.svd(rows, full_matrices=False)
        lead = self.full_map.coordinates.broadcast
        return lead(directions)[lead(sizes) > least]

    def _mix(self, mixing: torch.Tensor, wanted: int) -> None:
        """Multiplies V B^T by `mixing` (r, m), in a table of at least `wanted` columns.

        This happens in place, a part of the coordinates at a time, because the table is among the largest of an attack.
        Two tables exist at once only while it grows, in the first steps of a search.
        """
        old, new = mixing.shape
        table = self._table if wanted <= self._table.shape[1] else self._table.new_empty((len(self._table), wanted))
        if new:
            for first in range(0, len(table), _MIXED_AT_ONCE):
                part = slice(first, first + _MIXED_AT_ONCE)
                table[part, :new] = self._table[part, :old] @ mixing
        self._table = table

    @property
    def _scale(self) -> float:
        return math.sqrt(self.full_map.input_dim / max(self.rank, 1))


def _unit(rows: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(rows, dim=1, eps=1e-30)
