"""Labels in words: the name of a class where there are names, a sign, or a number."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from exhume.report.subject import Subject

# How far from -1 or +1, and from 0 or 1, a recovered label may be and still be read as one.
_NEAR = 0.3


def in_words(subject: Subject, labels: torch.Tensor | None, count: int) -> list[str | None]:
    """A word for each of `count` labels; None for all if there are none.

    Args:
        subject: tells names of classes, and what the attacker knows of labels.
        labels: (m,) real, +-1 or numbers of classes, or (m, k) one-hot or real.
        count: m.
    """
    if labels is None or len(labels) != count:
        return [None] * count
    values, names = labels.detach().cpu().double(), tuple(subject.class_names)
    if values.ndim == 2 and values.shape[1] > 1:
        if _are_classes(subject, values):
            return [class_in_words(index, names) for index in values.argmax(1).tolist()]
        return [", ".join(f"{number:.3g}" for number in row) for row in values.tolist()]
    numbers = values.reshape(-1)
    if bool(((numbers.abs() - 1).abs() < _NEAR).all()) and bool((numbers < 0).any() or _know_signs(subject)):
        if len(names) == 2:
            return [names[int(number > 0)] for number in numbers.tolist()]
        return ["+1" if number > 0 else "-1" for number in numbers.tolist()]
    if names and bool((numbers == numbers.round()).all() and (numbers >= 0).all()):
        return [class_in_words(int(number), names) for number in numbers.tolist()]
    return [f"{number:.3g}" for number in numbers.tolist()]


def class_in_words(index: int, names: Sequence[str]) -> str:
    """The name of a class, or its number."""
    return names[index] if index < len(names) else f"class {index}"


def _are_classes(subject: Subject, values: torch.Tensor) -> bool:
    """Whether rows of several outputs stand for classes: known, named, or each near a one-hot vector."""
    known = subject.result is not None and subject.result.knowledge.label_alphabet == "one-hot"
    if known or len(subject.class_names) == values.shape[1] or _one_hot(subject.true_labels):
        return True
    nearest = torch.nn.functional.one_hot(values.argmax(1), values.shape[1])
    return bool(((values - nearest).abs() < _NEAR).all())


def _one_hot(labels: torch.Tensor | None) -> bool:
    """Whether the true labels are classes."""
    if labels is None or labels.ndim != 2:
        return False
    return bool(((labels == 0) | (labels == 1)).all()) and bool((labels.sum(1) == 1).all())


def _know_signs(subject: Subject) -> bool:
    return subject.result is not None and subject.result.knowledge.label_alphabet == "signs"
