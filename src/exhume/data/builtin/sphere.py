"""Synthetic data: inputs uniform on the sphere of radius sqrt(d), labels of a random linear teacher."""

from __future__ import annotations

import math

import torch

from exhume.data.dataset import Dataset
from exhume.data.registry import data_set
from exhume.errors import InputError
from exhume.support.randomness import generator_for
from exhume.support.validation import one_of, whole_number

LABELS = ("real", "sign")
# Section 5 of the paper: label noise of variance 0.25.
_NOISE_STD = 0.5


@data_set("sphere", "synthetic: uniform on the sphere of radius sqrt(d), linear teacher", "generated from a seed")
def load_sphere(
    dim: int = 100, samples: int = 20, labels: str = "real", subspace_dim: int | None = None, seed: int = 0
) -> Dataset:
    """Draws x_i uniform on sqrt(d) S^(d-1) and labels y = X g + eps, g_i ~ N(0, 1/d), eps_i ~ N(0, 1/4).

    Args:
        dim: d.
        samples: n; as many fresh draws are the non-members.
        subspace_dim: r, for samples uniform on the sphere within a random subspace of r dimensions; None for all d.
        labels: "real" as above, or "sign" for y = sign(X g) without noise (Figure 8).
        seed: of the one generator behind everything; the inputs do not depend on `labels`.
    """
    whole_number("dim", dim)
    whole_number("samples", samples)
    one_of("labels", labels, LABELS)
    generator = generator_for(whole_number("seed", seed, least=0), "sphere data")
    basis = None
    if subspace_dim is not None:
        if whole_number("subspace_dim", subspace_dim) > dim:
            raise InputError(f"subspace_dim is {subspace_dim}; valid: at most dim, {dim}")
        own = generator_for(seed, "sphere subspace")
        basis = torch.linalg.qr(torch.randn(dim, subspace_dim, generator=own, dtype=torch.float64)).Q.T  # (r, d)
    # Always the same draws in the same order, so that the kind of labels changes nothing else.
    inputs = _on_sphere(samples, dim, generator, basis)  # (n, d)
    teacher = torch.randn(dim, generator=generator, dtype=torch.float64) / math.sqrt(dim)  # (d,)
    noise = _NOISE_STD * torch.randn(samples, generator=generator, dtype=torch.float64)  # (n,)
    non_members = _on_sphere(samples, dim, generator, basis)
    clean = inputs @ teacher
    targets = clean + noise if labels == "real" else torch.where(clean >= 0, 1.0, -1.0)
    words = "X g + eps, eps of variance 0.25" if labels == "real" else "sign(X g)"
    inside = "" if subspace_dim is None else f"in a random subspace of dimension {subspace_dim}, "
    protocol = (
        f"{samples} samples uniform on the sphere of radius sqrt(d), d = {dim}, {inside}labels {words}, "
        f"g_i ~ N(0, 1/d), non-members as many fresh draws, all from seed {seed}."
    )
    subspace = None if basis is None else basis.float()
    return Dataset("sphere", inputs.float(), targets.float(), non_members.float(), None, protocol, subspace)


def _on_sphere(rows: int, dim: int, generator: torch.Generator, basis: torch.Tensor | None) -> torch.Tensor:
    # A normalised Gaussian vector is uniform on the sphere; float64 keeps the norms exact after the cast.
    gaussian = torch.randn(rows, dim, generator=generator, dtype=torch.float64)
    if basis is not None:
        gaussian = gaussian @ basis.T @ basis
    rows_on_sphere: torch.Tensor = gaussian * (math.sqrt(dim) / gaussian.norm(dim=1, keepdim=True))
    return rows_on_sphere
