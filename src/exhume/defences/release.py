"""A release: the model as it is given away, and what its owner holds besides."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from exhume.defences.altering import outputs_of
from exhume.defences.labels import error_of, kind_of
from exhume.errors import InputError
from exhume.target import Target

# What needs a name in words when it is missing.
IN_WORDS = {
    "inputs": "the training inputs",
    "labels": "the training labels",
    "held_out_inputs": "held-out inputs",
    "held_out_labels": "held-out labels",
}


@dataclass(frozen=True)
class Release:
    """A model before it is released.

    Attributes:
        target: the public part, under what the attacker is assumed to know.
        inputs: (n, d) that it was trained on; None if they are not at hand.
        labels: (n,) or (n, k): numbers, -1 and +1, one-hot rows, or classes.
        held_out_inputs, held_out_labels: likewise, that it was not trained on.
        seed: of the alterations' randomness.
        border: of one output for labels 0 and 1: 1/2 if it estimates them, 0 if it is a logit, which then become -1 and
            +1; by default the one at which the model errs less on its training data.
    """

    target: Target
    inputs: torch.Tensor | None = None
    labels: torch.Tensor | None = None
    held_out_inputs: torch.Tensor | None = None
    held_out_labels: torch.Tensor | None = None
    seed: int = 0
    border: float | None = None

    def __post_init__(self) -> None:
        dim = self.target.feature_map.input_dim
        for rows, labels in (("inputs", "labels"), ("held_out_inputs", "held_out_labels")):
            if getattr(self, rows) is not None:
                object.__setattr__(self, rows, _checked_rows(rows, getattr(self, rows), dim))
            if getattr(self, labels) is not None:
                self._check_labels(rows, labels)
        if self.border is None:
            self._find_border()

    def _find_border(self) -> None:
        """Takes labels 0 and 1 for what the model's one output shows that they are."""
        outputs = self.target.num_outputs
        if self.inputs is None or self.labels is None or kind_of(self.labels, outputs) != "binary":
            return
        found, signs = self.outputs(self.inputs), 2 * self.labels - 1
        logit = error_of(found, signs) < error_of(found, self.labels)
        object.__setattr__(self, "border", 0.0 if logit else 0.5)
        for name in ("labels", "held_out_labels") if logit else ():
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, 2 * values - 1)

    def _check_labels(self, rows: str, name: str) -> None:
        labels = torch.as_tensor(getattr(self, name)).detach().cpu()
        inputs = getattr(self, rows)
        if inputs is None:
            raise InputError(f"{name} are given without {rows}")
        if labels.ndim not in (1, 2) or len(labels) != len(inputs):
            raise InputError(f"{name} of shape {tuple(labels.shape)} do not fit {len(inputs)} {rows}")
        if not bool(torch.isfinite(labels.double()).all()):
            raise InputError(f"{name} hold NaN or infinity; valid: finite numbers")
        kind_of(labels, self.target.num_outputs)
        object.__setattr__(self, name, labels)

    def missing(self, needs: tuple[str, ...]) -> str:
        """Which of the named data are not there, in words; empty if none."""
        return " and ".join(IN_WORDS[name] for name in needs if getattr(self, name) is None)

    def outputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """What the model's head outputs for inputs (m, d): (m, k)."""
        return outputs_of(self.target, inputs)

    @property
    def training_error(self) -> float | None:
        """On the training data, if they are given: the share of wrong classes, or the mean squared error."""
        return self._error(self.inputs, self.labels)

    @property
    def held_out_error(self) -> float | None:
        """On the held-out data, likewise."""
        return self._error(self.held_out_inputs, self.held_out_labels)

    def _error(self, inputs: torch.Tensor | None, labels: torch.Tensor | None) -> float | None:
        return None if inputs is None or labels is None else error_of(self.outputs(inputs), labels)


def _checked_rows(name: str, values: torch.Tensor, dim: int) -> torch.Tensor:
    """Inputs (n, d) as finite rows; pictures are flattened."""
    rows = torch.as_tensor(values).detach()
    if rows.ndim < 2 or not len(rows) or rows[0].numel() != dim:
        raise InputError(f"{name} of shape {tuple(rows.shape)} do not fit; the model takes rows of {dim} numbers")
    if not rows.is_floating_point():
        rows = rows.to(torch.get_default_dtype())
    if not bool(torch.isfinite(rows).all()):
        raise InputError(f"{name} hold NaN or infinity; valid: finite numbers")
    return rows.reshape(len(rows), -1)
