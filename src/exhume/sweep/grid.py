"""A grid: lists of data sets, victims, widths, attacks and seeds; the cells of a sweep are their product."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from exhume.errors import DataError, InputError
from exhume.support.validation_errors import problems
from exhume.support.yaml_files import read_yaml
from exhume.sweep.cell import (
    AttackSpec,
    Cell,
    Count,
    DataSpec,
    NetworkSpec,
    Number,
    Positive,
    RandomFeaturesSpec,
    Spec,
    VictimSpec,
)

MAX_CELLS = 100_000


class Grid(Spec):
    """Lists whose product is the cells; every field but the name is one value or a list.

    Attributes:
        name: of the sweep.
        data: names or {name: sphere, dim: 30, samples: 20}.
        victim: kinds or {kind: rf, activation: tanh}; random features if left out.
        features: p; or
        ratio: p / (d n).
        attack: methods or {method: descent, max_steps: 5000}.
        seeds: how many (3 stands for 0, 1, 2), or which.
    """

    name: str = "sweep"
    data: tuple[DataSpec, ...]
    victim: tuple[VictimSpec, ...] = (RandomFeaturesSpec(),)
    features: tuple[Count, ...] | None = None
    ratio: tuple[Positive, ...] | None = None
    attack: tuple[AttackSpec, ...]
    seeds: tuple[Annotated[int, Field(ge=0), Number], ...] = (0,)

    def __init__(self, **fields: Any) -> None:
        """Checks all fields; one `InputError` lists every problem, one per line."""
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InputError("\n".join(problems(error, fields, _valid_fields))) from None

    @field_validator("name")
    @classmethod
    def _nameable(cls, value: str) -> str:
        if not re.fullmatch(r"[\w.+-][\w. ,=+-]{0,99}", value):
            raise ValueError("valid: up to 100 letters, digits, blanks and . , _ = + -")
        return value

    @field_validator("data", "victim", "features", "ratio", "attack", mode="before")
    @classmethod
    def _listed(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None:
            return None
        values = value if isinstance(value, (list, tuple)) else (value,)
        if not values:
            raise ValueError("valid: at least one")
        return tuple(_spelled_out(info.field_name, each) for each in values)

    @field_validator("seeds", mode="before")
    @classmethod
    def _counted(cls, value: Any) -> Any:
        if isinstance(value, (list, tuple)) and value:
            return value
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_CELLS:
            raise ValueError("valid: a whole number of at least 1 (how many), or a list of whole numbers (which)")
        return tuple(range(value))

    @model_validator(mode="after")
    def _consistent(self) -> Grid:
        if (self.features is None) == (self.ratio is None):
            raise ValueError("give either features (p) or ratio (p / (d n)), and not both")
        if self.size > MAX_CELLS:
            raise ValueError(f"the grid has {self.size:,} cells; valid: at most {MAX_CELLS:,}")
        return self

    @property
    def size(self) -> int:
        """The number of cells, repeats included."""
        widths = self.features or self.ratio or ()
        return math.prod(map(len, (self.seeds, self.data, self.victim, widths, self.attack)))

    def cells(self) -> list[Cell]:
        """The product without repeats, seeds outermost: an interrupted sweep has the whole grid for the first ones."""
        widths: list[dict[str, Any]] = [{"features": features} for features in self.features or ()]
        widths += [{"ratio": ratio} for ratio in self.ratio or ()]
        found: dict[str, Cell] = {}
        for seed, data, victim, width, attack in product(self.seeds, self.data, self.victim, widths, self.attack):
            cell = Cell(data=data, victim=victim, attack=attack, seed=seed, **width)
            found.setdefault(cell.key, cell)
        return list(found.values())

    @classmethod
    def read(cls, path: Path) -> Grid:
        """A grid from a YAML file."""
        fields = read_yaml(Path(path))
        with naming(path):
            return cls(**fields)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Puts the file's name above the problems that the block finds in its grid."""
    try:
        yield
    except (InputError, DataError) as error:
        problems = "".join(f"\n  {line}" for line in str(error).splitlines())
        raise type(error)(f"{path} is not a usable grid:{problems}") from None


def _spelled_out(field: str | None, value: Any) -> Any:
    """A bare name as the fields that it stands for; a victim without a kind is random features."""
    if field == "data" and isinstance(value, str):
        return {"name": value}
    if field == "victim":
        value = {"kind": value} if isinstance(value, str) else value
        return {"kind": "rf", **value} if isinstance(value, Mapping) else value
    return value


def _valid_fields(location: Sequence[int | str]) -> list[str]:
    """The valid fields at the place where pydantic found an unknown one: in the grid, or in a victim."""
    if len(location) == 1:
        return list(Grid.model_fields)
    return list((RandomFeaturesSpec if "rf" in location else NetworkSpec).model_fields)
