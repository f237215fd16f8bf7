"""Labels: what kind they are, what a head is to output for them, and how far outputs are off."""

from __future__ import annotations

from typing import Literal

import torch

from exhume.errors import InputError

Kind = Literal["classes", "signs", "binary", "numbers"]


def kind_of(labels: torch.Tensor, num_outputs: int) -> Kind:
    """What labels (n,) or (n, k) are, for a model of so many outputs.

    "classes" are one-hot rows, rows of -1 with one +1, or whole numbers below the number of outputs; "signs" are -1 and
    +1 for one output; "binary" are 0 and 1 for one output, told apart at 1/2; all else is "numbers".
    """
    if labels.ndim == 1 and num_outputs > 1:
        whole = bool((labels == labels.round()).all())
        if not whole or int(labels.min()) < 0 or int(labels.max()) >= num_outputs:
            raise InputError(
                f"labels of shape {tuple(labels.shape)} from {float(labels.min()):g} to {float(labels.max()):g} do not "
                f"fit {num_outputs} outputs; valid: classes 0 to {num_outputs - 1}, or (n, {num_outputs}) numbers"
            )
        return "classes"
    columns = labels.reshape(len(labels), -1)
    if columns.shape[1] != num_outputs:
        raise InputError(f"labels of shape {tuple(labels.shape)} do not fit a model of {num_outputs} outputs")
    signs, binary = bool((columns.abs() == 1).all()), bool(((columns == 0) | (columns == 1)).all())
    if num_outputs == 1:
        return "signs" if signs else "binary" if binary else "numbers"
    one_each = bool(((columns == 1).sum(1) == 1).all())
    return "classes" if (signs or binary) and one_each else "numbers"


def wanted_outputs(labels: torch.Tensor, num_outputs: int) -> torch.Tensor:
    """Y (n, k) that the square loss is to reach: labels as they are, classes given by their number as one-hot rows."""
    kind_of(labels, num_outputs)
    if labels.ndim == 1 and num_outputs > 1:
        return torch.nn.functional.one_hot(labels.long(), num_outputs).double()
    return labels.reshape(len(labels), -1).double()


def error_of(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """The share of wrong classes of outputs (n, k), or their mean squared error where labels are numbers."""
    outputs = outputs.detach().cpu().double()
    kind, wanted = kind_of(labels, outputs.shape[1]), wanted_outputs(labels, outputs.shape[1]).cpu()
    if kind == "numbers":
        return float((outputs - wanted).square().mean())
    if kind == "classes":
        wrong = outputs.argmax(1) != wanted.argmax(1)
    else:
        border = 0.0 if kind == "signs" else 0.5
        wrong = (outputs[:, 0] > border) != (wanted[:, 0] > border)
    return float(wrong.double().mean())
