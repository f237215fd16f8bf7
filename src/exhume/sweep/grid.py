"""A grid: lists of data, victims, widths, attacks and seeds, whose product is the cells of a sweep."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from exhume.errors import DataError, FileError, InputError
from exhume.sweep.cell import AttackSpec, Cell, Count, DataSpec, Number, Positive, RandomFeaturesSpec, Spec, VictimSpec
from exhume.sweep.complaints import complain
from exhume.sweep.yaml_text import parse

MAX_CELLS = 100_000
# A grid of the largest size that makes sense is far below this; anything above is some other file.
_MAX_BYTES = 1_000_000


class Grid(Spec):
    """The product of what is listed; every field but the name is one value or a list.

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
        """Checks everything; all that is wrong is said in one `InputError`, a line each."""
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise InputError("\n".join(complain(error, fields, Grid))) from None

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
        path = Path(path)
        try:
            with path.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        except OSError as error:
            raise FileError(f"cannot read {path}: {error.strerror}") from error
        if len(content) > _MAX_BYTES:
            raise InputError(f"{path} has more than {_MAX_BYTES:,} bytes; a grid is a short YAML file")
        try:
            with naming(path):
                return cls(**parse(content))
        except yaml.YAMLError as error:
            raise InputError(f"{path} is not readable YAML: {' '.join(str(error).split())}") from error


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Puts the file's name above what is found wrong with its grid."""
    try:
        yield
    except (InputError, DataError) as error:
        problems = "".join(f"\n  {line}" for line in str(error).splitlines())
        raise type(error)(f"{path} is not a usable grid:{problems}") from None


def _spelled_out(field: str | None, value: Any) -> Any:
    """A name for what it stands for; random features are the victims of which no kind is said."""
    if field == "data" and isinstance(value, str):
        return {"name": value}
    if field == "victim":
        value = {"kind": value} if isinstance(value, str) else value
        return {"kind": "rf", **value} if isinstance(value, Mapping) else value
    return value
