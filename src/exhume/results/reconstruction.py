"""The result of an attack: samples, coefficients, why it stopped, what it cost and how far it can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from exhume.errors import FileError, InputError, brief
from exhume.results.certificate import Certificate
from exhume.results.stop import Stop
from exhume.support import files, serialise
from exhume.target.knowledge import Knowledge, named_as_now

_TENSORS = "reconstruction.safetensors"
_RESULT = "result.json"


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
        notes: other remarks, as sentences.
        input_shape: shape of one sample; (d,) for plain vectors.

    Examples:
        >>> import exhume
        >>> from exhume import data
        >>> points = data.load("sphere", dim=10, samples=3)
        >>> target = exhume.RandomFeatures(num_features=150).fit(points.inputs, points.labels).target()
        >>> result = exhume.reconstruct(target, num_samples=3)
        >>> result.certificate.verdict, result.stop.value, tuple(result.samples.shape)
        ('exact', 'converged', (3, 10))
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

    @property
    def ending(self) -> str:
        """Why the attack ended, as a sentence: its own one if it gave one, else that of `stop`."""
        return str(self.evidence.get("ending", self.stop.sentence))

    def summary(self) -> str:
        """A few plain lines for people."""
        certificate = self.certificate
        lines = [
            f"{self.method}: {self.samples.shape[0]} samples of dimension {self.samples.shape[1]}, "
            f"verdict {certificate.verdict}",
            *dict.fromkeys((f"  {certificate.reason}", f"  {self.ending}")),
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
        return str(import_module("exhume.report.notebook").reconstruction_html(self))

    def to_json(self) -> dict[str, Any]:
        """Everything but the tensors."""
        _, value = serialise.dump(self)
        value.pop("labels", None)
        return {**value, "num_samples": len(self.samples), "knowledge": self.knowledge.to_json()}

    def save(self, folder: Path) -> None:
        """Writes `reconstruction.safetensors`, and then `result.json`: where that exists, both are whole."""
        files.write_tensors(Path(folder) / _TENSORS, serialise.dump(self)[0])
        files.write_json(Path(folder) / _RESULT, self.to_json())

    @classmethod
    def load(cls, folder: Path) -> Reconstruction:
        """Reads `save`'s files."""
        value = files.read_json(Path(folder) / _RESULT)
        tensors = named_as_now(files.read_tensors(Path(folder) / _TENSORS))
        value.pop("num_samples", None)
        try:
            result = serialise.load(cls, tensors, value)
            _check_shapes(result.samples, result.coefficients, result.input_shape)
        except (ValueError, InputError) as error:
            raise FileError(f"{folder} does not hold a whole reconstruction: {brief(error)}") from error
        return result


def _check_shapes(samples: torch.Tensor, coefficients: torch.Tensor, input_shape: tuple[int, ...]) -> None:
    if samples.ndim != 2 or coefficients.ndim != 2 or len(samples) != len(coefficients):
        raise ValueError(f"samples {tuple(samples.shape)} and coefficients {tuple(coefficients.shape)} do not fit")
    if input_shape and (min(input_shape) < 1 or math.prod(input_shape) != samples.shape[1]):
        raise ValueError(f"input_shape {brief(input_shape, 80)} does not fit samples of {samples.shape[1]} numbers")
