"""Training losses: value and gradient with respect to the outputs in closed form, and the labels each takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from exhume.errors import InputError
from exhume.support.labels import are_class_numbers, are_one_hot, are_signs
from exhume.support.validation import one_of


class Loss(ABC):
    """A loss of outputs f (n, k) against targets Y (n, k), averaged over the training set.

    Attributes:
        name: its key in `LOSSES`.
        step_size: the paper's step of full-batch gradient descent on it.
        has_minimum: whether outputs can reach its infimum, so that training ends by itself.
    """

    name: ClassVar[str]
    step_size: ClassVar[float]
    has_minimum: ClassVar[bool]

    @abstractmethod
    def targets(self, labels: Tensor, num_outputs: int) -> Tensor:
        """Checks labels and returns them as (n, k) numbers."""

    @abstractmethod
    def value(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss, a scalar."""

    @abstractmethod
    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """dL/df, (n, k)."""

    @abstractmethod
    def largest_curvature(self, num_samples: int, num_outputs: int) -> float:
        """A bound on the second derivative of the loss along any unit direction of the outputs."""


class SquareLoss(Loss):
    """(1 / n k) sum (f - y)^2: the mean over all entries, as in the public code of the paper's authors."""

    name = "square"
    step_size = 1e-5
    has_minimum = True

    def targets(self, labels: Tensor, num_outputs: int) -> Tensor:
        """Real labels (n,) for one output, or (n, k)."""
        rows = labels.unsqueeze(1) if labels.ndim == 1 else labels
        if rows.ndim != 2 or rows.shape[1] != num_outputs:
            raise InputError(
                f"labels of shape {tuple(labels.shape)} do not fit {num_outputs} outputs; valid: (n, {num_outputs})"
                + (" or (n,)" if num_outputs == 1 else "")
            )
        return rows

    def value(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean of (f - y)^2."""
        return (outputs - targets).square().mean()

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """2 (f - y) / (n k)."""
        return (outputs - targets).mul_(2.0 / outputs.numel())

    def largest_curvature(self, num_samples: int, num_outputs: int) -> float:
        """2 / (n k), along every direction."""
        return 2.0 / (num_samples * num_outputs)


class LogisticLoss(Loss):
    """(1 / n) sum log(1 + exp(-y f)) for labels -1 and +1 and one output."""

    name = "logistic"
    step_size = 1e-3
    has_minimum = False

    def targets(self, labels: Tensor, num_outputs: int) -> Tensor:
        """Labels -1 and +1, (n,) or (n, 1)."""
        if num_outputs != 1 or labels.numel() != len(labels):
            raise InputError(
                f"logistic loss takes one output and labels (n,), not {num_outputs} outputs and labels "
                f"{tuple(labels.shape)}; for several classes use cross-entropy"
            )
        if not are_signs(labels):
            wrong = labels[labels.abs() != 1].flatten()[0]
            raise InputError(f"logistic loss takes labels -1 and +1, not {wrong:g}")
        return labels.reshape(-1, 1)

    def value(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean of log(1 + exp(-y f))."""
        return functional.softplus(-targets * outputs).mean()

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """-y s(-y f) / n, with s the logistic function."""
        return torch.sigmoid(-targets * outputs).mul_(targets).mul_(-1.0 / len(outputs))

    def largest_curvature(self, num_samples: int, num_outputs: int) -> float:
        """s (1 - s) / n is at most 1 / (4 n)."""
        return 0.25 / num_samples


class CrossEntropyLoss(Loss):
    """-(1 / n) sum_i log softmax(f_i)[class of i] for k classes."""

    name = "cross-entropy"
    step_size = 1e-3
    has_minimum = False

    def targets(self, labels: Tensor, num_outputs: int) -> Tensor:
        """One-hot rows (n, k), or whole numbers 0 .. k - 1, (n,)."""
        if num_outputs < 2:
            raise InputError("cross-entropy takes at least 2 outputs; for one output and labels -1, +1 use logistic")
        if labels.ndim == 1:
            if not are_class_numbers(labels, num_outputs):
                raise InputError(
                    f"cross-entropy takes one-hot labels (n, {num_outputs}) or classes 0 to {num_outputs - 1}; "
                    f"these range from {float(labels.min()):g} to {float(labels.max()):g}"
                )
            return functional.one_hot(labels.long(), num_outputs)
        shape_fits = labels.ndim == 2 and labels.shape[1] == num_outputs
        if not shape_fits or not are_one_hot(labels):
            raise InputError(
                f"cross-entropy with {num_outputs} outputs takes one-hot labels (n, {num_outputs}), a single 1 in each "
                f"row; these are {tuple(labels.shape)}" + (" but not one-hot" if shape_fits else "")
            )
        return labels

    def value(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Mean over samples of -log softmax at the class."""
        return -(targets * torch.log_softmax(outputs, 1)).sum() / len(outputs)

    def gradient(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """(softmax(f) - y) / n."""
        return torch.softmax(outputs, 1).sub_(targets).mul_(1.0 / len(outputs))

    def largest_curvature(self, num_samples: int, num_outputs: int) -> float:
        """diag(s) - s s^T has eigenvalues up to 1/2."""
        return 0.5 / num_samples


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (SquareLoss(), LogisticLoss(), CrossEntropyLoss())}


def get(name: str) -> Loss:
    """The loss of that name."""
    return LOSSES[one_of("loss", name, LOSSES)]
