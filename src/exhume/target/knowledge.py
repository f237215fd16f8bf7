"""What the attacker is assumed to know besides the weights."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import (
    BaseModel,
    ConfigDict,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from exhume.errors import InputError
from exhume.support.labels import are_one_hot, are_signs
from exhume.support.validation_errors import invalid
from exhume.training.recipe import Recipe

_TENSORS = ("samples", "labels", "subspace", "public")
Channels = float | tuple[float, ...]


class Knowledge(BaseModel):
    """What the attacker is assumed to know besides the weights. Every field is optional and stated in the result.

    Examples:
        >>> from exhume import Knowledge
        >>> Knowledge(num_samples=20, label_alphabet="signs").sentence()
        'Known: num samples 20, label alphabet signs, initial head known.'
        >>> Knowledge(norm=-1.0)
        Traceback (most recent call last):
            ...
        exhume.errors.InputError: invalid Knowledge: norm is -1.0; it must be greater than 0
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)

    num_samples: PositiveInt | None = None
    """How many samples the model was trained on, known ones included."""
    samples: torch.Tensor | None = None
    """(m, d) some of the training samples: the informed adversary looks for the others."""
    labels: torch.Tensor | None = None
    """(n,) or (n, k) the labels of all training samples, in any order."""
    label_alphabet: Literal["signs", "one-hot"] | None = None
    """That the model outputs -1 / +1, or one-hot vectors, on its training samples: it interpolates such labels.
    The weights of ReLU models then determine the samples' norms too; wrong ones if the model does not interpolate."""
    norm: PositiveFloat | None = None
    """The norm of every sample, the same for all: sqrt(d) for standardised pictures."""
    pixel_range: tuple[float, float] | None = None
    """Smallest and largest value of a pixel before normalisation."""
    pixel_mean: Channels | None = None
    """What normalisation took off every pixel: a number, or one for each channel."""
    pixel_std: Channels | None = None
    """What normalisation divided by, likewise."""
    column_mean: tuple[float, ...] | None = None
    """Mean of every column over samples of this kind, as a scaler stores it; searches start from there."""
    column_std: tuple[PositiveFloat, ...] | None = None
    """Standard deviation of every column, likewise."""
    subspace: torch.Tensor | None = None
    """(r, d) rows that span a subspace with all samples in it."""
    public: torch.Tensor | None = None
    """(m, d) public samples of the same kind that are not training samples: `layers` takes their mean and variances
    for a prior where it reads feature spans."""
    recipe: Recipe | None = None
    """How the model was trained; `replay` simulates it."""
    initial_head: Literal["known", "zero", "unknown"] = "known"
    """Whether the head's weights before training are known, so that its displacement is; random features start at
    zero. If they are unknown, the trained head is taken for the displacement, and what remains of the initial weights
    in it is noise."""
    initial_body: Literal["known", "unknown"] = "unknown"
    """Whether the other weights before training are known. The target holds them; "unknown" hides them."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise invalid("Knowledge", error, values) from error

    @field_validator(*_TENSORS, mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> torch.Tensor | None:
        """A tensor of finite numbers, from a tensor, an array or a list."""
        if value is None:
            return None
        try:
            tensor = torch.as_tensor(value).detach()
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"expected rows of numbers, got a {type(value).__name__}") from error
        if not tensor.is_floating_point():
            tensor = tensor.to(torch.get_default_dtype())
        if tensor.numel() == 0 or tensor.ndim not in (1, 2):
            raise ValueError(f"expected rows of numbers, got a shape of {tuple(tensor.shape)}")
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError("holds NaN or infinite numbers")
        return tensor

    @model_validator(mode="after")
    def _consistent(self) -> Knowledge:
        for name in ("samples", "subspace", "public"):
            rows = getattr(self, name)
            if rows is not None and rows.ndim != 2:
                raise ValueError(f"{name} are rows (m, d), not numbers of shape {tuple(rows.shape)}")
        if self.samples is not None:
            if bool((self.samples == 0).all(1).any()):
                raise ValueError("samples hold a row of zeros, which does not change the weights")
            if len(torch.unique(self.samples, dim=0)) < len(self.samples):
                raise ValueError("samples hold the same sample twice")
        if self.pixel_range is not None and not self.pixel_range[0] < self.pixel_range[1]:
            raise ValueError(f"pixel_range {self.pixel_range} must rise")
        if self.pixel_std is not None:
            stds = self.pixel_std if isinstance(self.pixel_std, tuple) else (self.pixel_std,)
            if not min(stds, default=0.0) > 0:
                raise ValueError(f"pixel_std {self.pixel_std} must be positive")
        if self.labels is not None and self.num_samples not in (None, len(self.labels)):
            raise ValueError(f"{len(self.labels)} labels, but num_samples is {self.num_samples}")
        if self.count is not None and self.known_samples >= self.count:
            raise ValueError(f"all {self.count} samples are known; nothing is left to look for")
        return self

    @property
    def known_samples(self) -> int:
        """How many samples are known."""
        return 0 if self.samples is None else int(self.samples.shape[0])

    @property
    def count(self) -> int | None:
        """How many samples there are in all, if that is known: `num_samples`, or as many as labels."""
        return self.num_samples if self.labels is None else int(self.labels.shape[0])

    def knowing(self, **values: Any) -> Knowledge:
        """The same with some fields changed, checked anew."""
        return Knowledge(**({name: getattr(self, name) for name in type(self).model_fields} | values))

    def without(self, *names: str) -> Knowledge:
        """The same with some fields unknown."""
        unknown = sorted(set(names) - set(type(self).model_fields))
        if unknown:
            raise InputError(
                f"no knowledge is called {', '.join(unknown)}; valid: {', '.join(type(self).model_fields)}"
            )
        gone = {name: type(self).model_fields[name].default for name in names}
        return self.knowing(**gone | ({"initial_head": "unknown"} if "initial_head" in names else {}))

    def pixel_bounds(self, input_shape: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Smallest and largest value of every entry of an input, (d,) each; None if the range is not known."""
        if self.pixel_range is None:
            return None
        mean = _per_entry(0.0 if self.pixel_mean is None else self.pixel_mean, input_shape)
        std = _per_entry(1.0 if self.pixel_std is None else self.pixel_std, input_shape)
        low, high = self.pixel_range
        return (low - mean) / std, (high - mean) / std

    def sentence(self) -> str:
        """What is known, in words."""
        parts = []
        for name in type(self).model_fields:
            value = getattr(self, name)
            if value is None or (name == "initial_body" and value == "unknown"):
                continue
            if isinstance(value, torch.Tensor):
                value = "x".join(map(str, value.shape))
            elif isinstance(value, Recipe):
                value = f"({value.sentence()})"
            parts.append(f"{name.replace('_', ' ')} {f'{value:g}' if isinstance(value, float) else value}")
        return f"Known: {', '.join(parts)}."

    def to_json(self) -> dict[str, Any]:
        """Every field as plain JSON, for people: of tensors their shape and a hash."""
        value = self.model_dump(exclude=set(_TENSORS))
        for name in _TENSORS:
            tensor = getattr(self, name)
            value[name] = None if tensor is None else {"shape": list(tensor.shape), "sha256": _digest(tensor)}
        return value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Knowledge) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(repr(self.to_json()))

    @classmethod
    def about(cls, labels: torch.Tensor, *, interpolated: bool = True) -> Knowledge:
        """What somebody who knows the task would know of these labels: how many they are and their alphabet.

        Args:
            labels: (n,) or (n, k).
            interpolated: whether the model fits them exactly; if not, its outputs are not in the alphabet.
        """
        alphabet = "signs" if labels.ndim == 1 and are_signs(labels) else "one-hot" if are_one_hot(labels) else None
        return cls(num_samples=len(labels), label_alphabet=alphabet if interpolated else None)


def named_as_now(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tensors of a file by name; those of knowledge were called "known.samples" in version 0.1.0."""
    return {re.sub(r"^known\.", "knowledge.", name): tensor for name, tensor in tensors.items()}


def _per_entry(value: Channels, input_shape: tuple[int, ...]) -> torch.Tensor:
    """A number for every entry of an input, (d,), from one for all or one for each channel."""
    size = torch.Size(input_shape).numel()
    numbers = torch.tensor(value, dtype=torch.float64).reshape(-1)
    if len(numbers) == 1:
        return numbers.expand(size)
    if len(numbers) != input_shape[0]:
        raise InputError(
            f"{len(numbers)} numbers for pixels do not fit inputs of shape {input_shape}; valid: 1, or one a channel"
        )
    return numbers.repeat_interleave(size // input_shape[0])


def _digest(tensor: torch.Tensor) -> str:
    """A short hash of the numbers."""
    plain = tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(plain).hexdigest()[:16]
