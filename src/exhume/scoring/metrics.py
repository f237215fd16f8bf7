"""How good matched rows are: PSNR and SSIM of images, accuracy of labels, and the residual of Eq. (167)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from exhume.errors import InputError
from exhume.support.labels import are_one_hot, are_signs

PSNR_CEILING = 100.0  # decibels given to (nearly) identical images: infinity is no JSON number
_SSIM_WINDOW = 11  # of the usual Gaussian window

RowMap = Callable[[Tensor], Tensor]


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


def picture_scores(to_pictures: RowMap | None, rows: Tensor, truth: Tensor) -> tuple[list[float], list[float]]:
    """PSNR (at most PSNR_CEILING decibels) and SSIM of each row's picture against the true one, in the range [0, 1].

    SSIM uses the usual Gaussian window of 11 pixels. Pictures with a side below 11 get a uniform window of the
    largest odd size that fits (7 for 8 x 8); their SSIM compares only with that of equally small pictures. Nothing is
    returned without `to_pictures` or without rows.
    """
    if to_pictures is None or not len(rows):
        return [], []
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


def label_scores(labels: Tensor, true_labels: Tensor) -> tuple[float | None, float | None]:
    """Accuracy of labels +-1 (by sign), one-hot (by the largest) or whole (rounded); median error of any others.

    Both of length q, paired by place; (q, 1) counts as (q,), and classes (q,) may stand against one-hot (q, k).
    """
    both = (values.double() for values in (labels, true_labels))
    found, true = (values.squeeze(1) if values.dim() == 2 else values for values in both)
    if are_one_hot(true):
        true = true.argmax(1).double()
        found = found.argmax(1).double() if found.dim() == 2 else found
    if found.shape != true.shape:
        raise InputError(f"labels have shape {tuple(labels.shape)}; valid: that of true_labels, {tuple(true.shape)}")
    if not len(true):
        return None, None
    if not bool((true == true.round()).all()):
        return None, float((found - true).abs().median())
    right = found.sign() == true if are_signs(true) else found.round() == true
    return float(right.double().mean()), None
