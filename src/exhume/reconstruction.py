"""The result of an attack: samples, coefficients, why it stopped, what it cost and how far it can be trusted."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict

from exhume import files, fragments
from exhume.certificate import APPROXIMATE, EXACT, Certificate
from exhume.errors import FileError, InputError, brief
from exhume.knowledge import Knowledge
from exhume.pixels import shape_of_picture

_TENSORS = "reconstruction.safetensors"
_RESULT = "result.json"
_KNOWN = "known."
_SHOWN, _SHOWN_NUMBERS = 20, 8  # samples, and numbers of each, that a notebook shows


class Stop(StrEnum):
    """Why an attack ended; `sentence` says it to people.

    Examples:
        >>> from exhume import Stop
        >>> Stop.CONVERGED.sentence
        'The loss fell below its tolerance.'
        >>> [stop.value for stop in Stop if stop.trusted]
        ['converged', 'reproduced', 'floor']
    """

    CONVERGED = "converged"
    REPRODUCED = "reproduced"
    FLOOR = "floor"
    STRUCTURED = "structured"
    SIGNS_OPEN = "signs_open"
    STARTS_SPENT = "starts_spent"
    STEP_LIMIT = "step_limit"
    PASS_LIMIT = "pass_limit"
    TIME_LIMIT = "time_limit"
    DIVERGED = "diverged"

    @property
    def trusted(self) -> bool:
        """Whether the attack vouches for its minimum."""
        return self in (Stop.CONVERGED, Stop.REPRODUCED, Stop.FLOOR)

    @property
    def credible_error(self) -> float:
        """Up to which typical predicted error the minimum is believed.

        A floor was reached from one start only. With few equations to spare and much drift, wrong samples may fit as
        well as the true ones; their error bars are large.
        """
        return 0.1 if self is Stop.FLOOR else 0.5

    @property
    def sentence(self) -> str:
        """The reason as a sentence."""
        return {
            Stop.CONVERGED: "The loss fell below its tolerance.",
            Stop.REPRODUCED: "Independent starts reached the same minimum, above the floating-point floor.",
            Stop.FLOOR: "The residual settled at a floor above rounding, and every sample stands clear of it: "
            "the features moved in training, or the weights carry noise.",
            Stop.STRUCTURED: "Independent starts reached the same minimum, but its residual has structure: "
            "there may be more samples than were looked for.",
            Stop.SIGNS_OPEN: "Samples were found up to sign, but the weights do not decide their signs.",
            Stop.STARTS_SPENT: "No start reached a minimum that explains the weights.",
            Stop.STEP_LIMIT: "The step limit was reached before the loss fell below its tolerance.",
            Stop.PASS_LIMIT: "The budget of feature passes was spent before the loss fell below its tolerance.",
            Stop.TIME_LIMIT: "The time was spent before the loss fell below its tolerance.",
            Stop.DIVERGED: "The loss became NaN or infinite.",
        }[self]


@dataclass(frozen=True)
class Reconstruction:
    """What an attack recovered.

    Attributes:
        samples: (n, d) recovered inputs; on the sphere of radius sqrt(d) where the norm is undetermined.
        coefficients: A (n, k).
        certificate: how far to trust it.
        target: fingerprint of the target that was attacked.
        method, seed, options: what was run.
        knowledge: what the attacker was assumed to know.
        stop: why it ended.
        max_passes: the budget of feature passes that it was given; None if there was no limit.
        steps, passes, seconds: what it cost; a pass is one application of the features to all n rows.
        signs_determined, norms_determined: whether the attack claims signs and norms of the samples.
        evidence: numbers behind the attack's own choices, such as the number of samples.
        history: columns of equal length over the run ("step", "loss", "passes").
        notes: anything else worth telling.
        input_shape: shape of one sample; (d,) for plain vectors.

    Examples:
        >>> import exhume
        >>> from exhume import data
        >>> sphere = data.load("sphere", dim=8, samples=4)
        >>> victim = exhume.RandomFeatures(num_features=200).fit(sphere.inputs, sphere.labels)
        >>> result = exhume.reconstruct(victim.target(), num_samples=4)
        >>> result.certificate.verdict, result.stop.value, tuple(result.samples.shape)
        ('exact', 'converged', (4, 8))
        >>> result.norms_determined  # relu hides the norms of its inputs
        False
    """

    samples: torch.Tensor
    coefficients: torch.Tensor
    certificate: Certificate
    target: str
    method: str
    seed: int
    options: dict[str, Any]
    knowledge: Knowledge
    stop: Stop
    steps: int
    passes: float
    seconds: float
    signs_determined: bool
    norms_determined: bool
    evidence: dict[str, Any] = field(default_factory=dict)
    history: dict[str, list[float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    labels: torch.Tensor | None = None
    max_passes: float | None = None
    input_shape: tuple[int, ...] = ()

    def summary(self) -> str:
        """A few plain lines for people."""
        certificate = self.certificate
        lines = [
            f"{self.method}: {self.samples.shape[0]} samples of dimension {self.samples.shape[1]}, "
            f"verdict {certificate.verdict}",
            *dict.fromkeys((f"  {certificate.reason}", f"  {self.stop.sentence}")),
            f"  {self.steps} steps, {self.passes:.0f} feature passes, {self.seconds:.1f} s",
            f"  {certificate.equations} equations for {certificate.unknowns} unknowns, "
            f"relative residual {certificate.residual:.2e} (rounding alone: {certificate.floor:.1e})",
        ]
        if certificate.predicted_errors:
            worst = max(certificate.predicted_errors)
            lines.append(f"  predicted error {certificate.predicted_error:.1e}, worst sample {worst:.1e}")
        lines += [f"  {note}" for note in (self.knowledge.sentence(), *self.notes)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Verdict, reason and the samples, the most certain first, for notebooks."""
        certificate = self.certificate
        facts = {
            "samples": f"{self.samples.shape[0]} of dimension {self.samples.shape[1]}, by {self.method}",
            "relative residual": f"{certificate.residual:.2e} (rounding alone: {certificate.floor:.1e})",
            "equations": f"{certificate.equations:,} for {certificate.unknowns:,} unknowns",
        }
        if certificate.predicted_error is not None:
            worst = max(certificate.predicted_errors)
            facts["expected error"] = f"{certificate.predicted_error:.1e} on average, {worst:.1e} at worst"
        determined = {"signs": self.signs_determined, "norms": self.norms_determined}
        if not all(determined.values()):
            facts["left open"] = " and ".join(name for name, known in determined.items() if not known)
        facts["cost"] = f"{self.steps:,} steps, {self.passes:,.0f} feature passes, {self.seconds:.1f} s"
        said = dict.fromkeys((certificate.reason, self.stop.sentence))
        return fragments.frame(
            fragments.line(fragments.badge(certificate.verdict, _colour(certificate.verdict)), *said),
            fragments.facts(facts.items()),
            _shown(self),
            fragments.folded("What was known and decided", (self.knowledge.sentence(), *self.notes)),
        )

    def to_json(self) -> dict[str, Any]:
        """Everything but the tensors."""
        return {
            "target": self.target,
            "method": self.method,
            "seed": self.seed,
            "options": self.options,
            "knowledge": self.knowledge.to_json(),
            "num_samples": int(self.samples.shape[0]),
            "stop": self.stop.value,
            "max_passes": self.max_passes,
            "steps": self.steps,
            "passes": self.passes,
            "seconds": self.seconds,
            "signs_determined": self.signs_determined,
            "norms_determined": self.norms_determined,
            "certificate": asdict(self.certificate),
            "evidence": self.evidence,
            "history": self.history,
            "notes": list(self.notes),
            "input_shape": list(self.input_shape),
        }

    def save(self, folder: Path) -> None:
        """Writes `reconstruction.safetensors`, then `result.json`: the second vouches for the first."""
        tensors = {"samples": self.samples, "coefficients": self.coefficients}
        if self.labels is not None:
            tensors["labels"] = self.labels
        tensors |= {f"{_KNOWN}{name}": tensor for name, tensor in self.knowledge.tensors().items()}
        files.write_tensors(Path(folder) / _TENSORS, tensors)
        files.write_json(Path(folder) / _RESULT, self.to_json())

    @classmethod
    def load(cls, folder: Path) -> Reconstruction:
        """Reads `save`'s files."""
        value = files.read_json(Path(folder) / _RESULT)
        tensors = files.read_tensors(Path(folder) / _TENSORS)
        known = {name.removeprefix(_KNOWN): each for name, each in tensors.items() if name.startswith(_KNOWN)}
        try:
            saved = dict(_Saved.model_validate(value))
            samples, coefficients = tensors["samples"], tensors["coefficients"]
            _check_shapes(samples, coefficients, saved["input_shape"])
            del saved["num_samples"]
            return cls(
                samples=samples,
                coefficients=coefficients,
                labels=tensors.get("labels"),
                knowledge=Knowledge.from_json(saved.pop("knowledge"), known),
                **saved,
            )
        except (KeyError, TypeError, ValueError, InputError) as error:
            raise FileError(f"{folder} does not hold a whole reconstruction: {brief(error)}") from error


class _Saved(BaseModel):
    """What `result.json` must hold; people may have edited it."""

    model_config = ConfigDict(extra="forbid")

    target: str
    method: str
    seed: int
    options: dict[str, Any]
    knowledge: dict[str, Any]
    num_samples: int
    stop: Stop
    max_passes: float | None = None
    steps: int
    passes: float
    seconds: float
    signs_determined: bool
    norms_determined: bool
    certificate: Certificate
    evidence: dict[str, Any] = {}
    history: dict[str, list[float]] = {}
    notes: tuple[str, ...]
    input_shape: tuple[int, ...] = ()  # results of earlier versions have none


def _check_shapes(samples: torch.Tensor, coefficients: torch.Tensor, input_shape: tuple[int, ...]) -> None:
    if samples.ndim != 2 or coefficients.ndim != 2 or len(samples) != len(coefficients):
        raise ValueError(f"samples {tuple(samples.shape)} and coefficients {tuple(coefficients.shape)} do not fit")
    if input_shape and (min(input_shape) < 1 or math.prod(input_shape) != samples.shape[1]):
        raise ValueError(f"input_shape {brief(input_shape, 80)} does not fit samples of {samples.shape[1]} numbers")


def _colour(verdict: str) -> str:
    return {EXACT: fragments.STRONG, APPROXIMATE: fragments.MIDDLING}.get(verdict, fragments.WEAK)


def _shown(result: Reconstruction) -> fragments.Markup:
    """The first samples by certainty: pictures if they are some, else their first numbers, with error bars."""
    bars = dict(enumerate(result.certificate.predicted_errors))
    rows = sorted(range(len(result.samples)), key=lambda row: bars.get(row, 0.0))[:_SHOWN]
    errors = [f"\N{PLUS-MINUS SIGN} {bars[row]:.1e}" if row in bars else "no error bar" for row in rows]
    count, order = len(result.samples), "the most certain first" if bars else "in no order"
    heading = f"{len(rows)} of {count} samples" if len(rows) < count else f"All {count} samples"
    shape = shape_of_picture(result.input_shape)
    if shape is not None:
        uris = [fragments.picture_uri(result.samples[row], shape) for row in rows]
        names = [f"Recovered sample {row}" for row in rows]
        heading = f"{heading}, {order}, each stretched to its own range:"
        return fragments.Markup(fragments.line(heading) + fragments.pictures(uris, names, errors))
    shown = min(int(result.samples.shape[1]), _SHOWN_NUMBERS)
    rest = [] if shown == result.samples.shape[1] else ["\N{HORIZONTAL ELLIPSIS}"]
    lines = [
        [row, error, *(f"{value:.4g}" for value in result.samples[row, :shown].tolist()), *rest]
        for row, error in zip(rows, errors, strict=True)
    ]
    columns = ["row", "error bar", *(f"x{place}" for place in range(shown)), *rest]
    return fragments.Markup(fragments.line(f"{heading}, {order}:") + fragments.table(columns, lines))
