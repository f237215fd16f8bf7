"""Derivatives weighted and summed over samples, without an array of all samples and features where a map can."""

from __future__ import annotations

from typing import Protocol, cast

import torch

from exhume.features.base import Linearisation


class _Weighted(Protocol):
    """A linearisation with ways of its own."""

    def weighted_jvp(self, weights: torch.Tensor, directions: torch.Tensor) -> torch.Tensor: ...

    def weighted_vjp(self, weights: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor: ...

    def sweep(
        self, weights: torch.Tensor, directions: torch.Tensor, change: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]: ...


def weighted_jvp(at: Linearisation, weights: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
    """sum_i w_i J_i directions_i: (m, k), (m, d) -> (k, p). One feature pass."""
    if hasattr(at, "weighted_jvp"):
        return cast(_Weighted, at).weighted_jvp(weights, directions)
    return weights.T @ at.jvp(directions)


def weighted_vjp(at: Linearisation, weights: torch.Tensor, cotangents: torch.Tensor) -> torch.Tensor:
    """The adjoint of `weighted_jvp` in the directions: (m, k), (k, p) -> (m, d). One feature pass."""
    if hasattr(at, "weighted_vjp"):
        return cast(_Weighted, at).weighted_vjp(weights, cotangents)
    return at.vjp(weights @ cotangents)


def generates_anew(at: Linearisation) -> bool:
    """Whether every derivative generates V, so that `sweep` is there and pays."""
    return bool(getattr(at, "generates_anew", False))


def sweep(
    at: Linearisation, weights: torch.Tensor, directions: torch.Tensor, change: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """r = sum_i w_i J_i directions_i + change^T Phi, of it J^T r and Phi r^T. Two feature passes, one read of V."""
    return cast(_Weighted, at).sweep(weights, directions, change)
