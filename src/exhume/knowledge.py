"""What the attacker is assumed to know besides the weights."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError

from exhume.errors import InputError


class Knowledge(BaseModel):
    """What the attacker is assumed to know besides the weights. Every field is optional and stated in the result."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_samples: PositiveInt | None = None
    """How many samples the model was trained on."""
    label_alphabet: Literal["signs", "one-hot"] | None = None
    """That the model outputs -1 / +1, or one-hot vectors, on its training samples: it interpolates such labels.
    ReLU models then give up the norms of their samples too; if the model does not interpolate, wrong ones."""
    initial_head: Literal["known", "zero", "unknown"] = "known"
    """Whether the head's weights before training are known, so that its displacement is; random features start at
    zero. If they are unknown, the trained head stands for the displacement, and what is left of its initial weights is
    noise."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise InputError(f"this cannot be known: {problems}") from error

    @classmethod
    def about(cls, labels: torch.Tensor, *, interpolated: bool = True) -> Knowledge:
        """What somebody who knows the task would know of these labels: how many they are and their alphabet.

        Args:
            labels: (n,) or (n, k).
            interpolated: whether the model fits them exactly; if not, the alphabet tells nothing of its outputs.
        """
        alphabet: Literal["signs", "one-hot"] | None = None
        if not interpolated:
            pass
        elif labels.ndim == 1 and bool((labels.abs() == 1).all()):
            alphabet = "signs"
        elif labels.ndim == 2 and bool(((labels == 0) | (labels == 1)).all() and (labels.sum(1) == 1).all()):
            alphabet = "one-hot"
        return cls(num_samples=labels.shape[0], label_alphabet=alphabet)
