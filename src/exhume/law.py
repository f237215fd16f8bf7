"""The law's room: from sizes alone, whether the training data can be read off the weights.

Weights Theta (k outputs, h features, p = k h numbers in all) trained on n samples of dimension d satisfy the span
equation Theta = A^T Phi(X): p equations. Unknown are the samples X and the coefficients A (n, k). A homogeneous
activation hides the norms, which leaves d - 1 numbers a sample: n (d - 1) + n k unknowns, and with k = 1 that is d n.
Hence the two thresholds of the law: labels are fitted from p = n on (p = n k with k outputs), and samples can be
reconstructed beyond p = d n. What is known besides moves the wall: a known subspace puts its dimension r in the place
of d, and a known sample leaves only its k coefficients open, which k of the equations pay for.
"""

from __future__ import annotations

import math
import operator
from dataclasses import asdict, dataclass
from typing import Any

from exhume import activations, fragments
from exhume.activations import Activation
from exhume.errors import InputError
from exhume.width_bound import sufficient_width as sufficient_width

# Equations per unknown from which exhume's exact attack is expected to succeed, with room to spare: on sphere data
# (d = 30, n = 20, relu) it recovered every seed from 1.5 on and none at 1.25 (python -m benches success_curve),
# on CIFAR-10 all 30 images at 3 (python -m benches cifar10); less is untried there.
PRACTICAL_RATIO = 3.0

NOT_EVEN_LABELS = "not even labels"
LABELS_ONLY = "labels only"
GREY_ZONE = "grey zone"
RECONSTRUCTIBLE = "reconstructible"


@dataclass(frozen=True)
class Forecast:
    """What the law says of given sizes.

    Attributes:
        num_parameters: p, the weights of the layer in all.
        input_dim: d.
        num_samples: n.
        num_outputs: k.
        activation: its name.
        known_samples: how many of the n samples the attacker holds already.
        subspace_dim: dimension r of a known subspace that holds the samples, or None; it takes the place of d.
        norms_known: whether the samples' norms are known.
        equations: p, less the k that the coefficients of every known sample take.
        unknowns: what the unknown samples and their coefficients ask.
        ratio: p / (d n), the paper's axis (p / (r n) in a known subspace).
        verdict: "not even labels", "labels only", "grey zone" or "reconstructible".
        smallest_parameters: fewest parameters at which equations exceed unknowns.
        comfortable_parameters: fewest at which there are PRACTICAL_RATIO equations per unknown.
        largest_samples: most samples (known ones included) of which these parameters exceed the unknowns; 0 if none.

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

    @property
    def sentence(self) -> str:
        """The verdict and its reason in plain words."""
        counted = f"{self.equations:,} equations for {self.unknowns:,} unknowns"
        p = f"{self.num_parameters:,} parameters"
        n = f"{self.num_samples:,} sample{'' if self.num_samples == 1 else 's'}"
        if self.verdict == NOT_EVEN_LABELS:
            labels = self.num_samples * self.num_outputs
            return f"Not even labels: {p} are too few to fit the {labels:,} label values of {n} ({counted})."
        if self.verdict == LABELS_ONLY:
            return (
                f"Labels only: {p} can fit the labels of {n} but cannot determine the samples themselves "
                f"({counted}; it takes at least {self.smallest_parameters:,} parameters)."
            )
        if self.verdict == GREY_ZONE:
            return (
                f"Grey zone: {p} determine {n} in principle ({counted}), but reconstruction is dependable only from "
                f"about {self.comfortable_parameters:,} parameters on."
            )
        return (
            f"Reconstructible: {p} determine {n}, {self.equations / max(self.unknowns, 1):.3g} times over ({counted})."
        )

    def to_json(self) -> dict[str, Any]:
        """Every field and the sentence, as plain JSON values."""
        return {**asdict(self), "sentence": self.sentence}

    def _repr_html_(self) -> str:
        """The sentence, the sizes and this model's place on the law's axis, for notebooks."""
        unit, axis = self.num_parameters / self.ratio, "p/dn" if self.subspace_dim is None else "p/rn"
        walls = {"labels fit": self.num_samples * self.num_outputs, "wall": self.smallest_parameters}
        walls["dependable"] = self.comfortable_parameters
        colours = {LABELS_ONLY: fragments.WEAK, GREY_ZONE: fragments.MIDDLING, RECONSTRUCTIBLE: fragments.STRONG}
        sizes = {"p": self.num_parameters, "d": self.input_dim, "r": self.subspace_dim, "n": self.num_samples}
        sizes |= {"of them known": self.known_samples, "k": self.num_outputs}
        scale = fragments.scale(
            [fragments.Mark(place / unit, f"{name} {place / unit:.3g}") for name, place in walls.items()],
            fragments.Mark(self.ratio, f"{axis} = {self.ratio:.3g}"),
            ["#a8b0b8", *colours.values()],
            f"{axis} is {self.ratio:.3g}, {self.verdict}; the wall is at {self.smallest_parameters / unit:.3g}",
        )
        badge = fragments.badge(self.verdict, colours.get(self.verdict, fragments.WEAK))
        listed = ", ".join([f"{name} = {size:,}" for name, size in sizes.items() if size] + [self.activation])
        reason = self.sentence.partition(": ")[2]
        return fragments.frame(fragments.line(badge, reason), scale, fragments.line(listed))


@dataclass(frozen=True)
class _Sizes:
    """Checked sizes that do not depend on p or n, and the counts that follow from them."""

    per_sample: int  # unknown numbers in an unknown sample, its coefficients apart
    num_outputs: int
    known_samples: int

    @property
    def spent(self) -> int:
        """Equations that the coefficients of known samples take."""
        return self.known_samples * self.num_outputs

    def unknowns(self, num_samples: int) -> int:
        """Numbers and coefficients of the samples that are not known."""
        return (num_samples - self.known_samples) * (self.per_sample + self.num_outputs)

    def parameters_for(self, equations: int) -> int:
        """Fewest parameters, a whole number of features for each output, that give so many equations."""
        return self.num_outputs * -(-equations // self.num_outputs)

    def largest_samples(self, num_parameters: int) -> int:
        """Largest n with unknowns(n) < p."""
        known = self.known_samples
        largest = (num_parameters + known * self.per_sample - 1) // (self.per_sample + self.num_outputs)
        return largest if largest >= max(known, 1) else 0


def forecast(
    num_parameters: int,
    input_dim: int,
    num_samples: int,
    num_outputs: int = 1,
    activation: str | Activation = "relu",
    known_samples: int = 0,
    subspace_dim: int | None = None,
    norms_known: bool = False,
) -> Forecast:
    """Say whether n samples of dimension d can be reconstructed from p parameters.

    Counts equations and unknowns of Theta = A^T Phi(X). No more equations than unknowns: "labels only". More, but
    fewer than PRACTICAL_RATIO per unknown (for relu with one output: p / (d n) below it): "grey zone". From there on:
    "reconstructible". Below p = n k the labels themselves cannot be fitted: "not even labels".

    Args:
        num_parameters: p, all weights of the layer: a multiple of the number of outputs.
        input_dim: d.
        num_samples: n.
        num_outputs: k.
        activation: decides whether norms are among the unknowns.
        known_samples: how many of the n samples the attacker holds already; they leave only their coefficients open.
        subspace_dim: dimension of a known subspace that holds the samples; it takes the place of d.
        norms_known: the samples' norms are known; one unknown less for each, unless the activation hides them anyway.

    Examples:
        >>> import exhume
        >>> exhume.forecast(3_000_000, input_dim=3072, num_samples=100).verdict
        'reconstructible'
        >>> print(exhume.forecast(60, input_dim=30, num_samples=20).sentence)
        Labels only: 60 parameters can fit the labels of 20 samples but cannot determine the samples themselves
        (60 equations for 600 unknowns; it takes at least 601 parameters).
    """
    p = _whole("num_parameters", num_parameters, 1)
    n = _whole("num_samples", num_samples, 1)
    sizes = _sizes(input_dim, num_outputs, activation, known_samples, subspace_dim, norms_known)
    _check_fits(p, n, sizes)
    equations, unknowns = p - sizes.spent, sizes.unknowns(n)
    if p < n * sizes.num_outputs:
        verdict = NOT_EVEN_LABELS
    elif equations <= unknowns:
        verdict = LABELS_ONLY
    else:
        verdict = GREY_ZONE if equations < PRACTICAL_RATIO * unknowns else RECONSTRUCTIBLE
    return Forecast(
        num_parameters=p,
        input_dim=operator.index(input_dim),
        num_samples=n,
        num_outputs=sizes.num_outputs,
        activation=activations.get(activation).name,
        known_samples=sizes.known_samples,
        subspace_dim=None if subspace_dim is None else operator.index(subspace_dim),
        norms_known=norms_known,
        equations=equations,
        unknowns=unknowns,
        ratio=p / (operator.index(input_dim if subspace_dim is None else subspace_dim) * n),
        verdict=verdict,
        smallest_parameters=sizes.parameters_for(sizes.spent + unknowns + 1),
        comfortable_parameters=sizes.parameters_for(
            sizes.spent + max(unknowns + 1, math.ceil(PRACTICAL_RATIO * unknowns))
        ),
        largest_samples=sizes.largest_samples(p),
    )


def smallest_parameters(
    input_dim: int,
    num_samples: int,
    num_outputs: int = 1,
    activation: str | Activation = "relu",
    known_samples: int = 0,
    subspace_dim: int | None = None,
) -> int:
    """Fewest parameters p, a multiple of the number of outputs, at which equations exceed unknowns."""
    n = _whole("num_samples", num_samples, 1)
    sizes = _sizes(input_dim, num_outputs, activation, known_samples, subspace_dim)
    _check_fits(sizes.num_outputs, n, sizes)
    return sizes.parameters_for(sizes.spent + sizes.unknowns(n) + 1)


def largest_samples(
    num_parameters: int,
    input_dim: int,
    num_outputs: int = 1,
    activation: str | Activation = "relu",
    known_samples: int = 0,
    subspace_dim: int | None = None,
) -> int:
    """Most samples n (known ones included) whose unknowns p parameters exceed; 0 if there is no such n."""
    p = _whole("num_parameters", num_parameters, 1)
    sizes = _sizes(input_dim, num_outputs, activation, known_samples, subspace_dim)
    _check_fits(p, sizes.known_samples, sizes)
    return sizes.largest_samples(p)


def count(
    num_parameters: int,
    input_dim: int,
    num_samples: int,
    num_outputs: int,
    *,
    norms_open: bool,
    known_samples: int = 0,
) -> tuple[int, int]:
    """Equations and unknowns of a target: what certificates count by.

    Args:
        num_parameters: k p.
        input_dim: d, or the dimension of a known subspace.
        num_samples: n, known ones included.
        num_outputs: k.
        norms_open: whether norms are among the unknowns.
        known_samples: of the n.
    """
    sizes = _Sizes(input_dim if norms_open else input_dim - 1, num_outputs, known_samples)
    return num_parameters - sizes.spent, sizes.unknowns(num_samples)


def _sizes(
    input_dim: int,
    num_outputs: int,
    activation: str | Activation,
    known_samples: int,
    subspace_dim: int | None,
    norms_known: bool = False,
) -> _Sizes:
    """Check the sizes that all three questions share."""
    d = _whole("input_dim", input_dim, 1)
    if subspace_dim is not None:
        r = _whole("subspace_dim", subspace_dim, 1)
        if r > d:
            raise InputError(f"subspace_dim is {r}; valid: at most input_dim, which is {d}")
        d = r
    per_sample = d if activations.get(activation).identifies_norm and not norms_known else d - 1
    return _Sizes(per_sample, _whole("num_outputs", num_outputs, 1), _whole("known_samples", known_samples, 0))


def _check_fits(num_parameters: int, num_samples: int, sizes: _Sizes) -> None:
    """Refuse a fractional width, and more known samples than there are."""
    if num_parameters % sizes.num_outputs:
        raise InputError(
            f"num_parameters is {num_parameters} with {sizes.num_outputs} outputs, which is no whole number of "
            f"features; valid: a multiple of num_outputs"
        )
    if sizes.known_samples > num_samples:
        raise InputError(f"known_samples is {sizes.known_samples}; valid: at most num_samples, which is {num_samples}")


def _whole(name: str, value: int, least: int) -> int:
    """The value as an int, or an error that says which numbers are valid."""
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise InputError(f"{name} is {value!r}; valid: a whole number of at least {least}")
    return number
