"""The judge's room: a reconstruction against the truth, matched one to one, beside the scores that chance gets.

A distance is ||x_i - x_hat_j|| / ||x_i||, which is Eq. (12)'s ||x_i - x_hat_j|| / sqrt(d) for samples on the sphere of
radius sqrt(d) (Assumption 1) and keeps its meaning for any other data. A sign is forgiven per sample or not at all,
never per coordinate.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from exhume import fragments, measures
from exhume.errors import InputError
from exhume.measures import Array, Matching, RowMap

# The error below which a sample counts as recovered. Chance is near sqrt(2); a picture at 0.1 is the same picture.
RECOVERED_BELOW = 0.1
_ENDS = 5  # pairs at either end that a notebook shows


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
        baseline_non_members: the same of the non-members, over those that find a true sample; None if not given.
        psnr, ssim: means over the matches; None without pictures.
        orthogonal_residual: r(Phi_hat) of Eq. (167); None without features.
        label_accuracy: share of matched rows with the right label, if labels are +-1, one-hot or whole numbers.
        label_error: median absolute error of other labels.
        known: true samples that the attacker held already; they are not among the n.

    Examples:
        >>> import torch
        >>> from exhume.scoring import score_samples
        >>> truth = torch.eye(3)
        >>> judged = score_samples(torch.stack([truth[0], -truth[1], truth[2] / 2]), truth)
        >>> judged.recovered, judged.recovered_up_to_sign
        (1, 2)
        >>> [match.flipped for match in judged.matches]
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
        """What came back, the errors beside what chance gets, and the best and worst pairs, for notebooks."""
        colour = fragments.STRONG if self.recovered == self.num_samples else fragments.MIDDLING
        share = fragments.badge(
            f"{self.recovered} of {self.num_samples} recovered", colour if self.recovered else fragments.WEAK
        )
        errors = [("error", self.error), ("error up to sign", self.error_up_to_sign)]
        chance = [("random directions get", self.baseline_random), ("non-members get", self.baseline_non_members)]
        extras = [("PSNR", self.psnr), ("SSIM", self.ssim), ("label accuracy", self.label_accuracy)]
        extras += [("label error", self.label_error), ("known beforehand", len(self.known) or None)]
        surplus = len(self.duplicates) + len(self.strays)
        extras += [("without a row", self.missing or None), ("rows too many", surplus or None)]
        ranked = sorted(self.matches, key=lambda match: match.error_up_to_sign)
        shown = ranked if len(ranked) <= 2 * _ENDS else ranked[:_ENDS] + ranked[-_ENDS:]
        pairs = [(each.truth_index, each.row, f"{each.error:.2g}", f"{each.error_up_to_sign:.2g}") for each in shown]
        columns = ("true sample", "row", "error", "up to sign")
        heading = "Pairs, the best first" if shown is ranked else f"The {_ENDS} best and the {_ENDS} worst pairs"
        return fragments.frame(
            fragments.line(share, f"{self.recovered_up_to_sign} up to sign; {self.compared} compared."),
            fragments.facts((name, f"{value:.3g}") for name, value in errors + chance + extras if value is not None),
            fragments.line(f"{heading}:"),
            fragments.table(columns, pairs),
        )


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
    """Judge an attack's result: `score_samples`, with what it says of its own signs, norms, labels and knowledge.

    Args:
        result: a Reconstruction; of anything else that has `samples`, signs and norms are taken as claimed.
        truth: (n, d) the training samples, none of them zero.
        non_members, true_labels, to_pictures, features, seed: as for `exhume.scoring.score_samples`.

    Examples:
        >>> import exhume
        >>> from exhume import data
        >>> sphere = data.load("sphere", dim=8, samples=4)
        >>> victim = exhume.RandomFeatures(num_features=200).fit(sphere.inputs, sphere.labels)
        >>> result = exhume.reconstruct(victim.target(), num_samples=4)
        >>> judged = exhume.score(result, sphere.inputs)  # only here the truth is opened
        >>> judged.recovered, judged.error < 1e-5 < judged.baseline_random
        (4, True)
    """
    return score_samples(
        result.samples,
        truth,
        signs_known=getattr(result, "signs_determined", True),
        norms_known=getattr(result, "norms_determined", True),
        non_members=non_members,
        known=getattr(getattr(result, "knowledge", None), "samples", None),
        labels=getattr(result, "labels", None),
        true_labels=true_labels,
        to_pictures=to_pictures,
        features=features,
        seed=seed,
    )


def score_samples(
    samples: Array,
    truth: Array,
    *,
    signs_known: bool = True,
    norms_known: bool = True,
    non_members: Array | None = None,
    known: Array | None = None,
    labels: Array | None = None,
    true_labels: Array | None = None,
    to_pictures: RowMap | None = None,
    features: RowMap | None = None,
    seed: int = 0,
) -> Score:
    """Judge the rows of `samples` (m, d) against `truth` (n, d); m and n may differ.

    Args:
        samples: the reconstruction.
        truth: the training samples, none of them zero.
        signs_known: whether the reconstruction claims its signs. If not, pictures are turned to the truth's sign.
        norms_known: whether it claims its norms. If not, both sides are put on the sphere of radius sqrt(d) before
            they are compared, and pictures get the norm of the true sample.
        non_members: (q, d) samples of the same kind that were not trained on, for a baseline.
        known: (q, d) samples that the attacker held: those of the truth are not looked for.
        labels, true_labels: (m,) or (m, k), and (n,) or (n, k).
        to_pictures: from rows (b, d) to pictures (b, C, H, W) in [0, 1]; gives PSNR and SSIM.
        features: from inputs (b, d) to features (b, p); gives the residual of Eq. (167).
        seed: of the random directions.
    """
    true_rows = measures.as_truth(truth)  # (n, d)
    rows = measures.as_rows("samples", samples, true_rows)  # (m, d)
    place = (lambda vectors: vectors) if norms_known else measures.on_sphere
    everything, x_hat = place(true_rows), place(rows)
    held = true_rows[:0] if known is None else measures.as_rows("known", known, true_rows)
    left = measures.left_to_find(everything, place(held), RECOVERED_BELOW)
    x = everything[left]
    signed, loose = (measures.match(x, x_hat, up_to_sign=forgiving) for forgiving in (False, True))
    loose = replace(loose, truth_indices=left[loose.truth_indices])
    others = None if non_members is None else place(measures.as_rows("non_members", non_members, x))
    psnr, ssim = measures.matched_picture_scores(to_pictures, rows, true_rows, loose, signs_known, norms_known)
    duplicates, strays = _extras(everything, x_hat, loose)
    accuracy, label_error = _label_scores(labels, true_labels, loose, len(everything), len(x_hat))
    return Score(
        num_samples=len(x),
        num_rows=len(x_hat),
        compared="vectors" if norms_known else "directions",
        error=_mean(signed.errors, len(x)),
        error_up_to_sign=_mean(loose.errors_up_to_sign, len(x)),
        recovered=int((signed.errors < RECOVERED_BELOW).sum()),
        recovered_up_to_sign=int((loose.errors_up_to_sign < RECOVERED_BELOW).sum()),
        missing=len(x) - len(loose.rows),
        duplicates=duplicates,
        strays=strays,
        matches=_matches(loose, psnr, ssim),
        baseline_random=_baseline(x, measures.random_directions(x, seed)),
        baseline_non_members=None if others is None else _baseline(x, others),
        psnr=sum(psnr) / len(psnr) if psnr else None,
        ssim=sum(ssim) / len(ssim) if ssim else None,
        orthogonal_residual=_residual(features, samples, torch.as_tensor(truth)[left]) if features else None,
        label_accuracy=accuracy,
        label_error=label_error,
        known=tuple(sorted(set(range(len(everything))) - set(left.tolist()))),
    )


def _mean(errors: Tensor, count: int) -> float:
    """Mean over all true samples; those without a row are as far off as the zero vector, 1."""
    return (float(errors.sum()) + count - len(errors)) / count


def _baseline(truth: Tensor, rows: Tensor) -> float:
    """Mean error up to sign of rows that know nothing of the truth, over the pairs."""
    if not len(rows):
        raise InputError("non_members has no rows; valid: at least one, or None")
    return float(measures.match(truth, rows, up_to_sign=True).errors_up_to_sign.mean())


def _extras(truth: Tensor, rows: Tensor, matching: Matching) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Unmatched rows: those that repeat a true sample, and those that resemble none."""
    matched = set(matching.rows.tolist())
    nearest = torch.minimum(*measures.distances(truth, rows)).amin(0)  # (m,)
    repeats = (nearest < RECOVERED_BELOW).tolist()
    extras = [row for row in range(len(rows)) if row not in matched]
    return tuple(row for row in extras if repeats[row]), tuple(row for row in extras if not repeats[row])


def _matches(matching: Matching, psnr: list[float], ssim: list[float]) -> tuple[Match, ...]:
    """The pairs as plain values."""
    nothing = [None] * len(matching.rows)
    flipped = matching.mirrored_errors < matching.errors
    columns = (matching.truth_indices, matching.rows, matching.errors, matching.errors_up_to_sign, flipped)
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
    return measures.label_scores(found[matching.rows], true[matching.truth_indices])


def _residual(features: RowMap, samples: Array, truth: Array) -> float:
    """Eq. (167), of the truth in the dtype and on the device of the samples."""
    given = torch.as_tensor(samples)
    phi, phi_hat = (features(inputs).detach().cpu() for inputs in (torch.as_tensor(truth).to(given), given))
    return measures.orthogonal_residual(phi, phi_hat)
