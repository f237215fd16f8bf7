"""The measuring room of scoring: distances, matchings, pictures, labels and spans, each a function of plain tensors.

For the judge only: `exhume.scoring` says what the numbers mean and puts them together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from exhume.errors import InputError
from exhume.randomness import generator_for

PSNR_CEILING = 100.0  # decibels given to (nearly) identical pictures: infinity is no JSON number
_SSIM_WINDOW = 11  # of the usual Gaussian window

RowMap = Callable[[Tensor], Tensor]
Array = Tensor | NDArray[Any]


@dataclass(frozen=True)
class Matching:
    """Pairs of a true sample and a row, in the order of the truth, with both relative distances of each pair."""

    truth_indices: Tensor  # (q,), q = min(n, m)
    rows: Tensor  # (q,)
    errors: Tensor  # (q,): ||x - x_hat|| / ||x||
    mirrored_errors: Tensor  # (q,): ||x + x_hat|| / ||x||

    @property
    def errors_up_to_sign(self) -> Tensor:
        """The smaller distance of each pair: one sign per sample is forgiven."""
        return torch.minimum(self.errors, self.mirrored_errors)  # (q,)


def as_rows(name: str, values: Array, truth: Tensor | None = None) -> Tensor:
    """The values as a finite float64 matrix in main memory, with as many columns as the truth; or an error."""
    rows = torch.as_tensor(values).detach().to("cpu", torch.float64)
    if rows.dim() != 2:
        raise InputError(f"{name} has shape {tuple(rows.shape)}; valid: two dimensions, (samples, inputs)")
    if not bool(rows.isfinite().all()):
        bad = int((~rows.isfinite().all(1)).nonzero()[0])
        raise InputError(f"{name} holds NaN or infinity, first in row {bad}; valid: finite numbers")
    if truth is not None and rows.shape[1] != truth.shape[1]:
        raise InputError(f"{name} has {rows.shape[1]} inputs a row; valid: {truth.shape[1]}, as truth has")
    return rows


def as_truth(values: Array) -> Tensor:
    """The truth as rows; there is one at least, and none is zero, since errors are relative to their norms."""
    rows = as_rows("truth", values)
    if not len(rows):
        raise InputError("truth has no rows; valid: at least one")
    zero = (rows == 0).all(1)
    if bool(zero.any()):
        raise InputError(f"row {int(zero.nonzero()[0])} of truth is zero; valid: rows with a positive norm")
    return rows


def on_sphere(rows: Tensor, radius: float | Tensor | None = None) -> Tensor:
    """Rows rescaled to a radius, sqrt(d) unless given; a zero row stays zero."""
    norms = rows.norm(dim=1)
    radius = math.sqrt(rows.shape[1]) if radius is None else radius
    factors = torch.where(norms > 0, radius / norms, torch.zeros_like(norms))  # (b,)
    return factors[:, None] * rows


def distances(truth: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """All ||x_i - x_hat_j|| / ||x_i|| and all ||x_i + x_hat_j|| / ||x_i||, each (n, m), from one matrix product.

    Good to about 1e-8: enough to choose pairs, whose own distances are then taken directly.
    """
    squares = truth.square().sum(1)[:, None] + rows.square().sum(1)  # (n, m)
    products = 2.0 * truth @ rows.T
    norms = truth.norm(dim=1)[:, None]
    signed, mirrored = ((squares + sign * products).clamp(min=0.0).sqrt() / norms for sign in (-1.0, 1.0))
    return signed, mirrored


def match(truth: Tensor, rows: Tensor, *, up_to_sign: bool) -> Matching:
    """Pair true samples and rows one to one so that the sum of relative distances is least: Eq. (12)'s minimum.

    The Hungarian method, on min(||x - x_hat||, ||x + x_hat||) if signs are forgiven. With unequal counts the rest
    stays unpaired. Of a row and its negative, equally close up to sign, the one with the right sign is taken.
    """
    signed, mirrored = distances(truth, rows)
    costs = torch.minimum(signed, mirrored) + 1e-9 * signed if up_to_sign else signed
    indices, columns = (torch.from_numpy(places) for places in linear_sum_assignment(costs.numpy()))
    x, x_hat = truth[indices], rows[columns]
    norms = x.norm(dim=1)
    return Matching(indices, columns, (x - x_hat).norm(dim=1) / norms, (x + x_hat).norm(dim=1) / norms)


def left_to_find(truth: Tensor, known: Tensor, within: float) -> Tensor:
    """Indices of the true samples that no known row, matched one to one and with its sign, comes so near to."""
    pairs = match(truth, known, up_to_sign=False)
    left = torch.ones(len(truth), dtype=torch.bool)
    left[pairs.truth_indices[pairs.errors < within]] = False
    if not bool(left.any()):
        raise InputError(f"all {len(truth)} true samples were known; valid: at least one that was not")
    return left.nonzero().squeeze(1)


def random_directions(truth: Tensor, seed: int) -> Tensor:
    """As many Gaussian directions as true samples, with their mean norm."""
    drawn = torch.randn(truth.shape, dtype=truth.dtype, generator=generator_for(seed, "random baseline"))  # (n, d)
    return on_sphere(drawn, float(truth.norm(dim=1).mean()))


def orthogonal_residual(features: Tensor, row_features: Tensor) -> float:
    """How far the true features leave the span of the reconstruction's: r(Phi_hat) of Eq. (167).

    r = 1 / (n sqrt(p)) sum_i ||P_perp phi(x_i)||, with P_perp onto the complement of the row space of Phi_hat (m, p).
    By QR in float64, and not by the Gram matrix, whose squared condition number hides residuals below 1e-8.
    Directions of Phi_hat within the rounding of its own dtype do not count as span, so duplicates add nothing.
    """
    tolerance = torch.finfo(row_features.dtype).eps * max(10, *row_features.shape[:1])
    phi, phi_hat = features.double(), row_features.double()  # (n, p), (m, p)
    if not len(phi_hat):
        return float(phi.norm(dim=1).mean()) / math.sqrt(phi.shape[1])
    orthonormal, triangle = torch.linalg.qr(phi_hat.T)  # (p, q), (q, m)
    left, singular, _ = torch.linalg.svd(triangle, full_matrices=False)
    basis = orthonormal @ left[:, singular > tolerance * singular[0]]  # (p, rank)
    for _ in range(2):  # the second time removes what rounding left of the first
        phi = phi - (phi @ basis) @ basis.T
    return float(phi.norm(dim=1).mean()) / math.sqrt(phi.shape[1])


def picture_scores(to_pictures: RowMap, rows: Tensor, truth: Tensor) -> tuple[list[float], list[float]]:
    """PSNR (at most PSNR_CEILING decibels) and SSIM of each row's picture against the true one, in the range [0, 1].

    SSIM uses the usual Gaussian window of 11 pixels. Pictures with a side below 11 get a uniform window of the
    largest odd size that fits (7 for 8 x 8); their SSIM compares only with that of equally small pictures.
    """
    # Loaded here: it takes a quarter of the time that it takes to load all the rest, and few processes need it.
    from torchmetrics.functional.image import peak_signal_noise_ratio, structural_similarity_index_measure

    pictures, true_pictures = (to_pictures(vectors).double().clamp(0.0, 1.0) for vectors in (rows, truth))
    if pictures.dim() != 4 or pictures.shape != true_pictures.shape or len(pictures) != len(rows):
        raise InputError(f"to_pictures gave shape {tuple(pictures.shape)} for {len(rows)} rows; valid: (rows, C, H, W)")
    side = min(pictures.shape[2:])
    window = min(_SSIM_WINDOW, side - 1 + side % 2)
    psnr = peak_signal_noise_ratio(pictures, true_pictures, data_range=1.0, reduction="none", dim=(1, 2, 3))
    ssim = structural_similarity_index_measure(
        pictures,
        true_pictures,
        gaussian_kernel=window == _SSIM_WINDOW,
        kernel_size=window,
        data_range=1.0,
        reduction="none",
    )
    if not isinstance(ssim, Tensor):
        raise TypeError("torchmetrics returned an SSIM image although none was asked for")
    return psnr.clamp(max=PSNR_CEILING).reshape(-1).tolist(), ssim.reshape(-1).tolist()


def matched_picture_scores(
    to_pictures: RowMap | None,
    rows: Tensor,
    truth: Tensor,
    matching: Matching,
    signs_known: bool,
    norms_known: bool,
) -> tuple[list[float], list[float]]:
    """PSNR and SSIM of every pair, with the truth's norm and sign where the reconstruction claims none."""
    if to_pictures is None or not len(matching.rows):
        return [], []
    shown, true_rows = rows[matching.rows], truth[matching.truth_indices]
    if not norms_known:
        shown = on_sphere(shown, true_rows.norm(dim=1))
    if not signs_known:
        shown = torch.where((matching.mirrored_errors < matching.errors)[:, None], -shown, shown)
    return picture_scores(to_pictures, shown, true_rows)


def label_scores(labels: Tensor, true_labels: Tensor) -> tuple[float | None, float | None]:
    """Accuracy of labels +-1 (by sign), one-hot (by the largest) or whole (rounded); median error of any others.

    Both of length q, paired by place; (q, 1) counts as (q,), and classes (q,) may stand against one-hot (q, k).
    """
    found, true = (_without_single_column(values.double()) for values in (labels, true_labels))
    if true.dim() == 2 and bool(((true == 0) | (true == 1)).all() and (true.sum(1) == 1).all()):
        true = true.argmax(1).double()
        found = found.argmax(1).double() if found.dim() == 2 else found
    if found.shape != true.shape:
        raise InputError(f"labels have shape {tuple(labels.shape)}; valid: that of true_labels, {tuple(true.shape)}")
    if not len(true):
        return None, None
    if not bool((true == true.round()).all()):
        return None, float((found - true).abs().median())
    right = found.sign() == true if bool((true.abs() == 1).all()) else found.round() == true
    return float(right.double().mean()), None


def _without_single_column(values: Tensor) -> Tensor:
    """(q, 1) as (q,); anything else as it is."""
    return values[:, 0] if values.dim() == 2 and values.shape[1] == 1 else values
