"""Scores a reconstruction against the truth: rows matched one to one, errors beside those of random directions.

A distance is ||x_i - x_hat_j|| / ||x_i||, which is Eq. (12)'s ||x_i - x_hat_j|| / sqrt(d) for samples on the sphere of
radius sqrt(d) (Assumption 1) and keeps its meaning for any other data. A sign is forgiven per sample or not at all,
never per coordinate.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from importlib import import_module
from statistics import fmean
from types import SimpleNamespace
from typing import Any, Literal

import torch
from torch import Tensor

from exhume.data import Dataset
from exhume.errors import InputError
from exhume.features.protocol import FeatureMap
from exhume.results.certificate import RECOVERED_BELOW
from exhume.results.reconstruction import Reconstruction
from exhume.scoring import metrics
from exhume.scoring.baselines import Baseline, measure_baseline
from exhume.scoring.matching import (
    Array,
    Matching,
    as_rows,
    as_truth,
    borrow,
    distances,
    left_to_find,
    match,
    on_sphere,
    random_directions,
)
from exhume.scoring.metrics import RowMap


@dataclass(frozen=True)
class Match:
    """A true sample and the row that is matched to it up to sign.

    Attributes:
        truth_index, row: which true sample, and which row of the reconstruction.
        error: ||x - x_hat|| / ||x||.
        error_up_to_sign: the smaller of that and ||x + x_hat|| / ||x||.
        flipped: whether -x_hat is the closer one.
        psnr, ssim: of the two pictures; None without pictures.
    """

    truth_index: int
    row: int
    error: float
    error_up_to_sign: float
    flipped: bool
    psnr: float | None = None
    ssim: float | None = None


@dataclass(frozen=True)
class Score:
    """How good a reconstruction is.

    Attributes:
        num_samples, num_rows: n true samples that were looked for, m rows of the reconstruction.
        compared: "vectors", or "directions" if the norms of the reconstruction mean nothing.
        error: mean over the true samples under the best matching that forgives no sign.
        error_up_to_sign: rho of Eq. (12), with one sign per sample forgiven, under the matching best for that.
        recovered, recovered_up_to_sign: true samples with an error below RECOVERED_BELOW in either matching.
        missing: true samples without a row (m < n); each counts in the errors as the zero vector would, with 1.
        duplicates: unmatched rows (m > n) that are, up to sign, within RECOVERED_BELOW of a true sample.
        strays: the other unmatched rows.
        matches: the pairs, matched up to sign, in the order of the truth.
        baseline_random: error_up_to_sign of n Gaussian directions with the mean norm of the truth.
        baseline_non_members: mean error of as many non-members, matched to the same rows in the same way, over random
            draws; None if not given.
        baseline: what non-members, or surrogates of them, get, and how significant the score is beside that.
        psnr, ssim: means over the matches; None without pictures.
        orthogonal_residual: r(Phi_hat) of Eq. (167); None without features.
        label_accuracy: share of matched rows with the right label, if labels are +-1, one-hot or whole numbers.
        label_error: median absolute error of other labels.
        known: true samples that the adversary held already; they are not among the n.
        signs_claimed: whether the attack claims its signs; if not, its claimed errors are those up to sign.

    Examples:
        >>> import torch
        >>> from exhume.scoring import score_samples
        >>> truth = torch.eye(3)
        >>> found = score_samples(torch.stack([truth[0], -truth[1], truth[2] / 2]), truth)
        >>> found.recovered, found.recovered_up_to_sign
        (1, 2)
        >>> [match.flipped for match in found.matches]
        [False, True, False]
    """

    num_samples: int
    num_rows: int
    compared: Literal["vectors", "directions"]
    error: float
    error_up_to_sign: float
    recovered: int
    recovered_up_to_sign: int
    missing: int
    duplicates: tuple[int, ...]
    strays: tuple[int, ...]
    matches: tuple[Match, ...]
    baseline_random: float
    baseline_non_members: float | None = None
    psnr: float | None = None
    ssim: float | None = None
    orthogonal_residual: float | None = None
    label_accuracy: float | None = None
    label_error: float | None = None
    known: tuple[int, ...] = ()
    signs_claimed: bool = True
    baseline: Baseline | None = None

    @property
    def norms_claimed(self) -> bool:
        """Whether the attack claims the norms of its samples."""
        return self.compared == "vectors"

    @property
    def claimed_error(self) -> float:
        """The error of what the attack claims: with signs if it claims them, else up to sign."""
        return self.error if self.signs_claimed else self.error_up_to_sign

    @property
    def claimed_recovered(self) -> int:
        """How many true samples have a claimed error below RECOVERED_BELOW."""
        return self.recovered if self.signs_claimed else self.recovered_up_to_sign

    @property
    def claimed_errors(self) -> tuple[float, ...]:
        """The claimed error of every match."""
        return tuple(match.error if self.signs_claimed else match.error_up_to_sign for match in self.matches)

    def to_json(self) -> dict[str, Any]:
        """Every field as plain JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def summary(self) -> str:
        """A few plain lines for people; the errors stand beside what chance gets."""
        n, chance = self.num_samples, f"random directions {self.baseline_random:.3g}"
        if self.baseline_non_members is not None:
            chance += f", non-members {self.baseline_non_members:.3g}"
        lines = [
            f"{self.recovered} of {n} samples recovered, {self.recovered_up_to_sign} up to sign "
            f"({self.compared} compared, error below {RECOVERED_BELOW})",
            f"  error {self.error:.3g}, up to sign {self.error_up_to_sign:.3g} ({chance})",
        ]
        if self.known:
            lines.append(f"  {len(self.known)} more were known and are not counted")
        if self.num_rows != n:
            extras = f"{len(self.duplicates)} duplicates, {len(self.strays)} strays"
            lines.append(f"  {self.num_rows} rows for {n} samples: {self.missing} missing, {extras}")
        named = {
            "PSNR": self.psnr,
            "SSIM": self.ssim,
            "residual of the true features": self.orthogonal_residual,
            "label accuracy": self.label_accuracy,
            "label error": self.label_error,
        }
        return "\n".join(lines + [f"  {name} {value:.3g}" for name, value in named.items() if value is not None])

    def _repr_html_(self) -> str:
        """What was recovered, errors beside those of chance, and the best and worst pairs, for notebooks."""
        return str(import_module("exhume.report.notebook").score_html(self))


def score(
    result: Any,
    truth: Array,
    *,
    non_members: Array | None = None,
    true_labels: Array | None = None,
    to_pictures: RowMap | None = None,
    features: RowMap | None = None,
    seed: int = 0,
) -> Score:
    """Scores an attack's result (m rows) against the truth (n samples); m and n may differ.

    Samples that the attack knew are not looked for. If it does not claim norms, both sides are compared on the sphere
    of radius sqrt(d). Pictures get the norm and the sign of the true sample where the attack does not claim them.

    Args:
        result: a Reconstruction; of anything else that has `samples`, signs and norms are taken as claimed.
        truth: the training samples, (n, d) or in the shape of the input, such as (n, 1, 8, 8); none of them zero.
        non_members: (q, d) samples of the same kind that were not trained on, for a baseline.
        true_labels: (n,) or (n, k), for the result's labels.
        to_pictures: from rows (b, d) to pictures (b, C, H, W) in [0, 1]; gives PSNR and SSIM.
        features: from inputs (b, d) to features (b, p); gives the residual of Eq. (167).
        seed: of the random directions.

    Examples:
        >>> import exhume
        >>> from exhume import data
        >>> sphere = data.load("sphere", dim=8, samples=4)
        >>> victim = exhume.RandomFeatures(num_features=200).fit(sphere.inputs, sphere.labels)
        >>> found = exhume.score(exhume.reconstruct(victim.target(), num_samples=4), sphere.inputs)
        >>> found.recovered, found.error < 1e-5 < found.baseline_random
        (4, True)
    """
    signs_known, norms_known = (getattr(result, f"{name}_determined", True) for name in ("signs", "norms"))
    known = getattr(getattr(result, "knowledge", None), "samples", None)
    true_rows = as_truth(truth)  # (n, d)
    rows = as_rows("samples", result.samples, true_rows)  # (m, d)
    place = (lambda vectors: vectors) if norms_known else on_sphere
    all_x, x_hat = place(true_rows), place(rows)
    held = true_rows[:0] if known is None else as_rows("known", known, true_rows)
    left = left_to_find(all_x, place(held), RECOVERED_BELOW)
    x = all_x[left]
    signed, up_to_sign = match(x, x_hat, up_to_sign=False), match(x, x_hat, up_to_sign=True)
    pairs = replace(up_to_sign, truth_indices=left[up_to_sign.truth_indices])
    others = None if non_members is None else place(as_rows("non_members", non_members, x))
    baseline = measure_baseline(x, x_hat, up_to_sign.truth_indices, others, up_to_sign=not signs_known, seed=seed)
    true_matches = true_rows[pairs.truth_indices]
    shown = borrow(rows[pairs.rows], true_matches, pairs.flipped, norms_known=norms_known, signs_known=signs_known)
    psnr, ssim = metrics.picture_scores(to_pictures, shown, true_matches)
    duplicates, strays = _extras(all_x, x_hat, pairs)
    accuracy, label_error = _label_scores(getattr(result, "labels", None), true_labels, pairs, len(all_x), len(x_hat))
    return Score(
        num_samples=len(x),
        num_rows=len(x_hat),
        compared="vectors" if norms_known else "directions",
        error=_mean(signed.errors, len(x)),
        error_up_to_sign=_mean(pairs.errors_up_to_sign, len(x)),
        recovered=int((signed.errors < RECOVERED_BELOW).sum()),
        recovered_up_to_sign=int((pairs.errors_up_to_sign < RECOVERED_BELOW).sum()),
        missing=len(x) - len(pairs.rows),
        duplicates=duplicates,
        strays=strays,
        matches=_matches(pairs, psnr, ssim),
        baseline_random=float(match(x, random_directions(x, seed), up_to_sign=True).errors_up_to_sign.mean()),
        baseline_non_members=baseline.error if baseline.non_members else None,
        psnr=fmean(psnr) if psnr else None,
        ssim=fmean(ssim) if ssim else None,
        orthogonal_residual=_residual(features, result.samples, torch.as_tensor(truth)[left]) if features else None,
        label_accuracy=accuracy,
        label_error=label_error,
        known=tuple(sorted(set(range(len(all_x))) - set(left.tolist()))),
        signs_claimed=signs_known,
        baseline=baseline,
    )


def score_on_dataset(result: Any, data: Dataset, features: FeatureMap | None = None) -> Score:
    """Scores an attack's result against everything that a data set holds: samples, non-members, labels, images.

    Args:
        result: as for `exhume.score`.
        data: the training data.
        features: of the attacked model; gives the residual of Eq. (167).
    """
    return score(
        result,
        data.inputs,
        non_members=data.comparison_samples,
        true_labels=data.labels if data.is_labelled else None,
        to_pictures=data.picture.to_pictures if data.picture else None,
        features=None if features is None else lambda inputs: features.forward(inputs.to(features.device)),
    )


def score_unless_diverged(
    result: Reconstruction, data: Dataset | None, features: FeatureMap | None = None
) -> tuple[Score | None, tuple[str, ...]]:
    """The score if there are training data, or a note that the attack diverged and has none."""
    if data is None or not data.num_samples:
        return None, ()
    if not bool(torch.isfinite(result.samples).all()):
        return None, ("The attack diverged, so its rows were not compared with the training data.",)
    return score_on_dataset(result, data, features), ()


def score_samples(
    samples: Array,
    truth: Array,
    *,
    signs_known: bool = True,
    norms_known: bool = True,
    known: Array | None = None,
    labels: Array | None = None,
    **others: Any,
) -> Score:
    """Scores the rows of `samples` (m, d) as `exhume.score` does those of a result.

    Args:
        samples: the reconstruction.
        truth: the training samples, none of them zero.
        signs_known: whether the reconstruction claims its signs.
        norms_known: whether it claims its norms.
        known: (q, d) samples that the adversary held: those of the truth are not looked for.
        labels: (m,) or (m, k), of the rows.
        others: as for `exhume.score`: `non_members`, `true_labels`, `to_pictures`, `features`, `seed`.
    """
    claimed = SimpleNamespace(
        samples=samples,
        signs_determined=signs_known,
        norms_determined=norms_known,
        knowledge=SimpleNamespace(samples=known),
        labels=labels,
    )
    return score(claimed, truth, **others)


def _mean(errors: Tensor, count: int) -> float:
    """Mean over all true samples; those without a row are as far off as the zero vector, 1."""
    return (float(errors.sum()) + count - len(errors)) / count


def _extras(truth: Tensor, rows: Tensor, matching: Matching) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Unmatched rows: those that repeat a true sample, and those that resemble none."""
    matched = set(matching.rows.tolist())
    nearest = torch.minimum(*distances(truth, rows)).amin(0)  # (m,)
    repeats = (nearest < RECOVERED_BELOW).tolist()
    extras = [row for row in range(len(rows)) if row not in matched]
    return tuple(row for row in extras if repeats[row]), tuple(row for row in extras if not repeats[row])


def _matches(matching: Matching, psnr: list[float], ssim: list[float]) -> tuple[Match, ...]:
    """The pairs as plain values."""
    nothing = [None] * len(matching.rows)
    columns = (matching.truth_indices, matching.rows, matching.errors, matching.errors_up_to_sign, matching.flipped)
    pairs = zip(*(column.tolist() for column in columns), psnr or nothing, ssim or nothing, strict=True)
    return tuple(Match(*pair) for pair in pairs)


def _label_scores(
    labels: Array | None, true_labels: Array | None, matching: Matching, num_samples: int, num_rows: int
) -> tuple[float | None, float | None]:
    """Accuracy or error of the labels of matched rows; nothing if either side has none."""
    if labels is None or true_labels is None:
        return None, None
    found, true = (torch.as_tensor(values).detach().cpu() for values in (labels, true_labels))
    for name, values, count in (("labels", found, num_rows), ("true_labels", true, num_samples)):
        if values.dim() not in (1, 2) or len(values) != count:
            raise InputError(f"{name} has shape {tuple(values.shape)}; valid: ({count},) or ({count}, outputs)")
    return metrics.label_scores(found[matching.rows], true[matching.truth_indices])


def _residual(features: RowMap, samples: Array, truth: Array) -> float:
    """Eq. (167), of the truth in the dtype and on the device of the samples."""
    given = torch.as_tensor(samples)
    inputs = (torch.as_tensor(truth).flatten(1).to(given), given)
    phi, phi_hat = (features(each).detach().cpu() for each in inputs)
    return metrics.orthogonal_residual(phi, phi_hat)
