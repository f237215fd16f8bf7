"""The recipe of a training: optimiser, steps, batches and loss, as a published configuration states them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from exhume.errors import InputError
from exhume.support.validation_errors import problems
from exhume.support.yaml_files import read_yaml

Optimiser = Literal["sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop"]
# Those that divide each weight's step by the size of its own gradients.
ADAPTIVE: tuple[Optimiser, ...] = ("adam", "adamw", "rmsprop")
_Share = Annotated[float, Field(ge=0, lt=1)]


class Recipe(BaseModel):
    """How a network was trained; every step as `torch.optim` takes it, with its default constants.

    A learning rate or a weight decay of None is unknown, and `replay` fits it along with the samples. The number of
    steps must be known: it is not a smooth unknown, and a wrong one is not made up for by another learning rate.

    Examples:
        >>> from exhume import Recipe
        >>> recipe = Recipe(optimiser="adam", learning_rate=1e-3, steps=60, batch_size=2, order_seed=0)
        >>> [batch.tolist() for batch in recipe.batches(5)][:3]
        [[4, 0], [1, 3], [2]]
        >>> recipe.unknown
        ()
        >>> Recipe(learning_rate=None, weight_decay=None).unknown
        ('learning_rate', 'weight_decay')
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    optimiser: Optimiser = "sgd"
    """"momentum" and "nesterov" are SGD with `momentum`; "adamw" decouples the weight decay from the gradient, all
    others add it to the gradient. RMSprop smooths squares by 0.99; the eps of all three is 1e-8."""
    learning_rate: PositiveFloat | None = 0.01
    steps: PositiveInt = 20
    """Updates of the weights, not epochs."""
    batch_size: PositiveInt | None = None
    """Samples of an update; None for all of them."""
    momentum: _Share = 0.0
    weight_decay: NonNegativeFloat | None = 0.0
    """Of all trained weights, biases included."""
    loss: Literal["cross-entropy", "square", "logistic"] = "cross-entropy"
    """Averaged over the batch; "square" over its outputs too, "logistic" is for labels -1 and +1."""
    order_seed: NonNegativeInt | None = None
    """The order of the samples: one generator `torch.Generator().manual_seed(order_seed)` gives a `torch.randperm(n)`
    for every epoch in turn, and each is cut into batches of `batch_size`; the last of an epoch may be smaller. None
    with a batch size: the order is unknown."""
    betas: tuple[_Share, _Share] = (0.9, 0.999)
    """Of Adam and AdamW."""
    schedule: Literal["cosine", "linear"] | tuple[tuple[NonNegativeInt, NonNegativeFloat], ...] | None = None
    """Factor of the learning rate at step t = 0, 1, ...: "cosine" is (1 + cos(pi t / steps)) / 2, "linear" is
    1 - t / steps; pairs (first step, factor), as [[0, 1.0], [50, 0.1]], hold from their step on. None: 1."""
    label_smoothing: _Share = 0.0
    """Share of each label that is spread over all classes (cross-entropy)."""
    batch_norm: Literal["eval", "train"] = "eval"
    """Whether BatchNorm layers used their stored statistics in training, or those of the batch."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            clauses = problems(error, values, fields_at=lambda _: Recipe.model_fields)
            raise InputError(f"invalid Recipe: {'; '.join(clauses)}") from error

    @field_validator("steps", mode="before")
    @classmethod
    def _steps_known(cls, value: object) -> object:
        if value is None:
            raise ValueError("unknown, and not fitted: run replay with each number that is possible")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        if self.momentum and self.optimiser in ("adam", "adamw"):
            raise ValueError(f"{self.optimiser} has betas, not momentum")
        if not self.momentum and self.optimiser in ("momentum", "nesterov"):
            raise ValueError("momentum is 0.0; valid for this optimiser: a number between 0 and 1, as 0.9")
        if self.order_seed is not None and self.batch_size is None:
            raise ValueError("order_seed needs a batch_size; without one all samples are in every batch")
        if self.label_smoothing and self.loss != "cross-entropy":
            raise ValueError(f"label_smoothing is for cross-entropy, not for the {self.loss} loss")
        if isinstance(self.schedule, tuple):
            firsts = [first for first, _ in self.schedule]
            if not firsts or firsts[0] != 0 or firsts != sorted(set(firsts)):
                raise ValueError("schedule must begin at step 0 and rise, as [[0, 1.0], [50, 0.1]]")
        return self

    @classmethod
    def read(cls, path: Path) -> Recipe:
        """A recipe from a YAML file of its fields."""
        value = read_yaml(Path(path))
        try:
            return cls(**value)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    @property
    def unknown(self) -> tuple[str, ...]:
        """Numbers that are fitted along with the samples."""
        return tuple(name for name in ("learning_rate", "weight_decay") if getattr(self, name) is None)

    @property
    def order_known(self) -> bool:
        """Whether it is known which samples every step used."""
        return self.batch_size is None or self.order_seed is not None

    @property
    def adaptive(self) -> bool:
        """Whether each weight has a step size of its own."""
        return self.optimiser in ADAPTIVE

    def batches(self, num_samples: int) -> list[torch.Tensor]:
        """The samples of every step, in turn; all of them where there are no batches or their order is unknown."""
        if self.order_seed is None or self.batch_size is None:
            return [torch.arange(num_samples)] * self.steps
        generator, found = torch.Generator().manual_seed(self.order_seed), list[torch.Tensor]()
        while len(found) < self.steps:
            found += torch.randperm(num_samples, generator=generator).split(self.batch_size)
        return found[: self.steps]

    def factors(self) -> list[float]:
        """What the learning rate is multiplied by at every step."""
        steps = self.steps
        if self.schedule is None:
            return [1.0] * steps
        if self.schedule == "cosine":
            return [0.5 * (1 + math.cos(math.pi * step / steps)) for step in range(steps)]
        if self.schedule == "linear":
            return [1 - step / steps for step in range(steps)]
        return [[factor for first, factor in self.schedule if first <= step][-1] for step in range(steps)]

    def changed(self, **values: Any) -> Recipe:
        """The same with some fields changed, checked anew."""
        return Recipe(**({name: getattr(self, name) for name in Recipe.model_fields} | values))

    def sentence(self) -> str:
        """The recipe in words, without what has its default."""
        given = {"learning_rate": self.learning_rate, "steps": self.steps} | self.model_dump(exclude_defaults=True)
        parts = [f"{name.replace('_', ' ')} {'unknown' if value is None else value}" for name, value in given.items()]
        return ", ".join(parts)
