"""The law: from sizes alone, whether the training data can be reconstructed from the weights.

Weights Theta (k outputs, h features, p = k h numbers in all) trained on n samples of dimension d satisfy the span
equation Theta = A^T Phi(X): p equations. The unknowns are the samples X and the coefficients A (n, k). A homogeneous
activation hides the norms, which leaves d - 1 numbers per sample: n (d - 1) + n k unknowns, and with k = 1 that is d n.
This gives the two thresholds of the law: labels can be fitted from p = n on (p = n k with k outputs), and samples can
be reconstructed beyond p = d n. Knowledge lowers the second threshold: in a known subspace of dimension r, r replaces
d; a known sample leaves only its k coefficients unknown, which use up k of the equations.

With several outputs or few samples another count may bind. A sample changes Theta only through the features that are
active on it, half of them with ReLU, whatever the number of outputs, and m samples that share a feature get min(m, k)
equations from it: see `Wall`. `exhume law --verify` compares both counts with ranks of Jacobians.

This module does not import torch, so that a forecast starts at once.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from exhume.errors import InputError
from exhume.support.validation import whole_number
from exhume.wall import Wall

if TYPE_CHECKING:
    from exhume.activations import Activation

# Equations per unknown from which the exact attack is expected to succeed, with a margin. On sphere data (d = 30,
# n = 20, relu) it recovered all samples for every seed from 1.4 on and for none at 1.3 (python -m benches
# success_curve); on CIFAR-10 it recovered all 30 images at 3 (python -m benches cifar10), fewer were not tried.
PRACTICAL_RATIO = 3.0

# Degree k of phi(r z) = r^k phi(z) for r > 0 of the built-in activations; None if there is none. The same as in
# exhume.activations, which needs torch; a test compares the two.
HOMOGENEITY: dict[str, int | None] = {
    "relu": 1,
    "abs": 1,
    "relu+tanh": None,
    "tanh": None,
    "erf": None,
    "gelu": None,
    "softplus": None,
    "sigmoid": None,
}

# Share of the features that a sample is active on, for built-in activations whose slope is exactly zero somewhere; 1
# for the others. The same as Activation.active_share, which needs torch; a test compares the two.
ACTIVE_SHARE: dict[str, float] = {"relu": 0.5}

# Which count binds: all equations against all unknowns, or those of each sample.
TOGETHER, PER_SAMPLE = "together", "per sample"

NOT_EVEN_LABELS = "not even labels"
LABELS_ONLY = "labels only"
GREY_ZONE = "grey zone"
RECONSTRUCTIBLE = "reconstructible"


@dataclass(frozen=True)
class Forecast:
    """What the law says of given sizes.

    Attributes:
        num_parameters: p, all weights of the layer.
        input_dim: d.
        num_samples: n.
        num_outputs: k.
        activation: its name.
        known_samples: how many of the n samples the attacker knows already.
        subspace_dim: dimension r of a known subspace that contains the samples, or None; it replaces d.
        norms_known: whether the samples' norms are known.
        equations: p, less k for each known sample, which determine its coefficients.
        unknowns: numbers in the unknown samples and their coefficients.
        ratio: p / (d n), as in the paper (p / (r n) in a known subspace).
        verdict: "not even labels", "labels only", "grey zone" or "reconstructible".
        smallest_parameters: fewest parameters with more equations than unknowns, together and for each sample.
        comfortable_parameters: fewest parameters with PRACTICAL_RATIO equations per unknown, likewise.
        largest_samples: most samples (known ones included) that p parameters determine; 0 if none.
        active_share: share of the features that a sample is active on: 1/2 for ReLU.
        equations_per_sample: expected equations of the unknown sample that has the fewest; None in files of 0.1.0.
        unknowns_per_sample: what these equations must determine; None in files of 0.1.0.
        binding: "together" or "per sample", whichever count asks for more parameters.

    Examples:
        >>> import exhume
        >>> exhume.forecast(20_000, input_dim=3072, num_samples=100).smallest_parameters
        307201
    """

    num_parameters: int
    input_dim: int
    num_samples: int
    num_outputs: int
    activation: str
    known_samples: int
    subspace_dim: int | None
    norms_known: bool
    equations: int
    unknowns: int
    ratio: float
    verdict: str
    smallest_parameters: int
    comfortable_parameters: int
    largest_samples: int
    active_share: float = 1.0
    equations_per_sample: int | None = None
    unknowns_per_sample: int | None = None
    binding: str = TOGETHER

    @property
    def margin(self) -> float:
        """Equations per unknown, by the count that binds."""
        if self.binding == PER_SAMPLE and self.equations_per_sample is not None:
            return self.equations_per_sample / max(self.unknowns_per_sample or 0, 1)
        return self.equations / max(self.unknowns, 1)

    def to_json(self) -> dict[str, Any]:
        """Every field and the sentence, as plain JSON values."""
        return {**asdict(self), "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """The verdict and its reason in plain words."""
        counted = f"{self.equations:,} equations for {self.unknowns:,} unknowns"
        reason = counted if self.binding == TOGETHER else self._of_each_sample
        p = f"{self.num_parameters:,} parameters"
        n = f"{self.num_samples:,} sample{'' if self.num_samples == 1 else 's'}"
        if self.verdict == NOT_EVEN_LABELS:
            labels = self.num_samples * self.num_outputs
            return f"Not even labels: {p} are too few to fit the {labels:,} label values of {n} ({counted})."
        if self.verdict == LABELS_ONLY:
            return (
                f"Labels only: {p} can fit the labels of {n} but cannot determine the samples themselves "
                f"({reason}; it takes at least {self.smallest_parameters:,} parameters)."
            )
        if self.verdict == GREY_ZONE:
            return (
                f"Grey zone: {p} determine {n} in principle ({reason}), but reconstruction is dependable only from "
                f"about {self.comfortable_parameters:,} parameters on."
            )
        return f"Reconstructible: {p} determine {n}, {self.margin:.3g} times over ({reason})."

    @property
    def _of_each_sample(self) -> str:
        """The count of the sample with the fewest equations, and why they are so few."""
        left = f"{self.equations_per_sample:,} equations for the {self.unknowns_per_sample:,} unknowns of a sample"
        features, unknown = self.num_parameters // self.num_outputs, self.num_samples - self.known_samples
        if self.active_share == 1:
            shown = f"{unknown:,} combinations of the {self.num_outputs:,} outputs"
            return f"{unknown:,} samples show in {shown} only: {left}"
        active = f"each sample is active on about {round(self.active_share * features):,} of the {features:,} features"
        shared = ", shared with other samples" if unknown > self.num_outputs else ""
        return f"{active}{shared}, which leaves as few as {left}"

    def _repr_html_(self) -> str:
        """The sentence, the sizes and this model's place on the law's axis, for notebooks."""
        return str(import_module("exhume.report.notebook").forecast_html(self))


def forecast(
    num_parameters: int,
    input_dim: int,
    num_samples: int,
    num_outputs: int = 1,
    activation: str | Activation = "relu",
    known_samples: int = 0,
    subspace_dim: int | None = None,
    norms_known: bool = False,
    active_share: float | None = None,
) -> Forecast:
    """Forecasts whether n samples of dimension d can be reconstructed from p parameters.

    Counts the equations and unknowns of Theta = A^T Phi(X), all together and those of each sample. The verdict is "not
    even labels" below p = n k, where the labels cannot be fitted; "labels only" if one of the counts has no more
    equations than unknowns; "grey zone" if one has fewer than PRACTICAL_RATIO per unknown; else "reconstructible".

    Args:
        num_parameters: p, all weights of the layer: a multiple of the number of outputs.
        input_dim: d.
        num_samples: n.
        num_outputs: k.
        activation: decides whether norms are among the unknowns, and how many features a sample is active on.
        known_samples: how many of the n samples the attacker knows already; only their coefficients are unknown.
        subspace_dim: dimension of a known subspace that contains the samples; it replaces d.
        norms_known: whether the samples' norms are known; changes nothing if the activation is homogeneous.
        active_share: share of the features that a sample is active on; by default the activation's.

    Examples:
        >>> import exhume
        >>> exhume.forecast(3_000_000, input_dim=3072, num_samples=100).verdict
        'reconstructible'
        >>> print(exhume.forecast(60, input_dim=30, num_samples=20).sentence)
        Labels only: 60 parameters can fit the labels of 20 samples but cannot determine the samples themselves
        (60 equations for 600 unknowns; it takes at least 601 parameters).
    """
    p, n = whole_number("num_parameters", num_parameters), whole_number("num_samples", num_samples)
    d, k = whole_number("input_dim", input_dim), whole_number("num_outputs", num_outputs)
    known = whole_number("known_samples", known_samples, least=0)
    r = d if subspace_dim is None else whole_number("subspace_dim", subspace_dim)
    if r > d:
        raise InputError(f"subspace_dim is {r}; valid: at most input_dim, which is {d}")
    if known > n:
        raise InputError(f"known_samples is {known}; valid: at most num_samples, which is {n}")
    if p % k:
        raise InputError(f"num_parameters is {p}; valid: a multiple of num_outputs, which is {k}")
    name, homogeneity, share = _properties(activation)
    share = share if active_share is None else active_share
    if not 0 < share <= 1:
        raise InputError(f"active_share is {share}; valid: above 0 and at most 1")
    norms_open = homogeneity is None and not norms_known
    equations, unknowns = count(p, r, n, k, norms_open=norms_open, known_samples=known)
    wall = Wall(r + norms_open, k, n - known, known, share)
    per_sample = wall.per_sample(p // k)
    together, alone = wall.features_together(), wall.features_per_sample()
    verdict = RECONSTRUCTIBLE if p // k >= wall.features(PRACTICAL_RATIO) else GREY_ZONE
    return Forecast(
        num_parameters=p,
        input_dim=d,
        subspace_dim=None if subspace_dim is None else r,
        num_samples=n,
        num_outputs=k,
        activation=name,
        known_samples=known,
        norms_known=norms_known,
        ratio=p / (r * n),
        equations=equations,
        unknowns=unknowns,
        verdict=NOT_EVEN_LABELS if p < n * k else LABELS_ONLY if p // k < wall.features() else verdict,
        smallest_parameters=k * wall.features(),
        comfortable_parameters=k * wall.features(PRACTICAL_RATIO),
        largest_samples=_largest_samples(wall, p // k),
        active_share=share,
        equations_per_sample=per_sample[0],
        unknowns_per_sample=per_sample[1],
        binding=PER_SAMPLE if alone > together else TOGETHER,
    )


def _largest_samples(wall: Wall, num_features: int) -> int:
    """Most samples, the known ones included, that so many features determine; 0 if not even the known ones."""

    def determined(unknown: int) -> bool:
        return replace(wall, unknown=unknown).features() <= num_features

    low = 0 if wall.known else 1
    if not determined(low):
        return 0
    # The count together is linear in the number of samples and bounds it; that of each sample grows with the number.
    most = (wall.num_outputs * (num_features - wall.known) - 1) // (wall.numbers - 1 + wall.num_outputs)
    return wall.known + low + bisect_left(range(low + 1, max(low, most) + 1), True, key=lambda u: not determined(u))


def count(
    num_parameters: int, input_dim: int, num_samples: int, num_outputs: int, *, norms_open: bool, known_samples: int = 0
) -> tuple[int, int]:
    """Equations and unknowns of a target, as certificates count them.

    Args:
        num_parameters: k p.
        input_dim: d, or the dimension of a known subspace.
        num_samples: n, known ones included.
        num_outputs: k.
        norms_open: whether norms are among the unknowns.
        known_samples: of the n.
    """
    per_sample = num_outputs + (input_dim if norms_open else input_dim - 1)
    return num_parameters - known_samples * num_outputs, (num_samples - known_samples) * per_sample


def _properties(activation: str | Activation) -> tuple[str, int | None, float]:
    """Name, homogeneity and active share of a built-in activation by the tables above, else by exhume.activations."""
    if isinstance(activation, str) and activation in HOMOGENEITY:
        return activation, HOMOGENEITY[activation], ACTIVE_SHARE.get(activation, 1.0)
    from exhume import activations  # imports torch, which only activations of the user's own need

    found = activations.get(activation)
    return found.name, found.homogeneity, found.active_share


def __getattr__(name: str) -> Any:
    """`sufficient_width` is imported when it is first used: it needs torch, and the law does not."""
    if name == "sufficient_width":
        return import_module("exhume.research.width_bound").sufficient_width
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
