"""What a data set tells the registry about itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from exhume.data.dataset import Dataset
from exhume.errors import InputError


@dataclass(frozen=True)
class DatasetInfo:
    """One line of `available()`: what a data set is, whether it can be loaded now, and how to get it if not."""

    name: str
    summary: str
    found: bool
    location: str
    how_to_get: str


@dataclass(frozen=True)
class DataSource:
    """A data set's entry in the registry.

    `load` makes the Dataset; `locate` says where the data are found now, or None if they are not. Data that need no
    files say so in `locate`.
    """

    name: str
    summary: str
    load: Callable[..., Dataset]
    locate: Callable[[], str | None]
    how_to_get: str

    def info(self) -> DatasetInfo:
        """What is known about this data set on this machine."""
        location = self.locate()
        return DatasetInfo(self.name, self.summary, location is not None, location or "not found", self.how_to_get)

    def call(self, options: Mapping[str, Any]) -> Dataset:
        """Calls `load`; an option it does not have, or one it needs and did not get, is an InputError."""
        parameters = inspect.signature(self.load).parameters
        valid = f"valid options of {self.name}: {', '.join(parameters)}"
        unknown = sorted(set(options) - set(parameters))
        if unknown:
            raise InputError(f"data set {self.name} has no option {', '.join(map(repr, unknown))}; {valid}")
        needed = {name for name, parameter in parameters.items() if parameter.default is inspect.Parameter.empty}
        absent = sorted(needed - set(options))
        if absent:
            raise InputError(f"data set {self.name} needs the option {', '.join(map(repr, absent))}; {valid}")
        return self.load(**options)
