"""Labels: what kind they are, the outputs that a model should have for them, its error, and labels in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from exhume.errors import InputError

Kind = Literal["classes", "signs", "binary", "numbers"]

# How far from -1 or +1, and from 0 or 1, a recovered label may be and still be read as one.
_NEAR = 0.3


def are_signs(labels: torch.Tensor) -> bool:
    """Whether all are -1 or +1."""
    return bool((labels.abs() == 1).all())


def are_one_hot(labels: torch.Tensor) -> bool:
    """Whether they are rows (n, k) of zeros with a single 1 each."""
    return labels.ndim == 2 and bool(((labels == 0) | (labels == 1)).all() and (labels.sum(1) == 1).all())


def are_class_numbers(labels: torch.Tensor, num_classes: int) -> bool:
    """Whether all are whole numbers from 0 to `num_classes` - 1."""
    return bool(((labels == labels.round()) & (labels >= 0) & (labels < num_classes)).all())


def kind_of(labels: torch.Tensor, num_outputs: int) -> Kind:
    """What kind labels (n,) or (n, k) are, for a model of so many outputs; `InputError` if they do not fit it.

    "classes" are one-hot rows, rows of -1 with one +1, or whole numbers below the number of outputs; "signs" are -1 and
    +1 for one output; "binary" are 0 and 1 for one output, separated at 1/2; all else is "numbers".
    """
    if labels.ndim == 1 and num_outputs > 1:
        if not are_class_numbers(labels, num_outputs):
            raise InputError(
                f"labels of shape {tuple(labels.shape)} from {float(labels.min()):g} to {float(labels.max()):g} do not "
                f"fit {num_outputs} outputs; valid: classes 0 to {num_outputs - 1}, or (n, {num_outputs}) numbers"
            )
        return "classes"
    if labels.ndim not in (1, 2) or labels.shape[1:].numel() != num_outputs:
        raise InputError(
            f"labels of shape {tuple(labels.shape)} do not fit a model of {num_outputs} outputs; "
            f"valid: (n, {num_outputs}){' or (n,)' if num_outputs == 1 else ', or classes (n,)'}"
        )
    columns = labels.reshape(len(labels), -1)
    signs, binary = are_signs(columns), bool(((columns == 0) | (columns == 1)).all())
    if num_outputs == 1:
        return "signs" if signs else "binary" if binary else "numbers"
    return "classes" if (signs or binary) and bool(((columns == 1).sum(1) == 1).all()) else "numbers"


def as_outputs(labels: torch.Tensor, num_outputs: int) -> torch.Tensor:
    """Y (n, k), what a model that fits the labels outputs: labels as they are, class numbers as one-hot rows."""
    if kind_of(labels, num_outputs) == "classes" and labels.ndim == 1:
        return torch.nn.functional.one_hot(labels.long(), num_outputs).to(_real_type(labels))
    return labels.reshape(len(labels), -1).to(_real_type(labels))


def class_numbers(labels: torch.Tensor) -> torch.Tensor:
    """The classes (n,) of one-hot rows (n, k); class numbers (n,) as they are."""
    return labels.argmax(1) if labels.ndim == 2 and labels.shape[1] > 1 else labels.reshape(-1)


def error_of(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    """The share of wrong classes of outputs (n, k), or their mean squared error where labels are numbers."""
    outputs = outputs.detach().cpu().double()
    kind, wanted = kind_of(labels, outputs.shape[1]), as_outputs(labels, outputs.shape[1]).cpu().double()
    if kind == "numbers":
        return float((outputs - wanted).square().mean())
    if kind == "classes":
        wrong = outputs.argmax(1) != wanted.argmax(1)
    else:
        border = 0.0 if kind == "signs" else 0.5
        wrong = (outputs[:, 0] > border) != (wanted[:, 0] > border)
    return float(wrong.double().mean())


def in_words(
    labels: torch.Tensor, class_names: Sequence[str] = (), alphabet: Literal["signs", "one-hot"] | None = None
) -> list[str]:
    """Each label as people would say it: a class by its name or number, a sign, or a number.

    Args:
        labels: (m,) numbers, signs or classes, or (m, k) outputs; recovered ones are near those values only.
        class_names: if there are any; of two classes the first is -1 and the second +1.
        alphabet: "signs" or "one-hot" if the labels are known to be that; by default it is read off the numbers.
    """
    values = labels.detach().cpu().double()
    if values.ndim == 2 and values.shape[1] > 1:
        nearest = torch.nn.functional.one_hot(values.argmax(1), values.shape[1])
        near = bool(((values - nearest).abs() < _NEAR).all())
        if near or alphabet == "one-hot" or len(class_names) == values.shape[1]:
            return [class_in_words(index, class_names) for index in values.argmax(1).tolist()]
        return [", ".join(f"{number:.3g}" for number in row) for row in values.tolist()]
    numbers = values.reshape(-1)
    near_signs = bool(((numbers.abs() - 1).abs() < _NEAR).all())
    if near_signs and (alphabet == "signs" or bool((numbers < 0).any())):
        minus, plus = class_names if len(class_names) == 2 else ("-1", "+1")
        return [plus if number > 0 else minus for number in numbers.tolist()]
    if class_names and are_class_numbers(numbers, len(class_names)):
        return [class_in_words(int(number), class_names) for number in numbers.tolist()]
    return [f"{number:.3g}" for number in numbers.tolist()]


def class_in_words(index: int, class_names: Sequence[str]) -> str:
    """The name of a class, or its number."""
    return class_names[index] if index < len(class_names) else f"class {index}"


def _real_type(labels: torch.Tensor) -> torch.dtype:
    """Labels' own type; of whole numbers double."""
    return labels.dtype if labels.is_floating_point() else torch.float64
