"""The registry of data sets: what each is, where it is found, and its loader."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from exhume.data.dataset import Dataset
from exhume.errors import DataError, InputError

ENVIRONMENT_VARIABLE = "EXHUME_DATA"
SHIPPED = "shipped with scikit-learn"
Loader = TypeVar("Loader", bound=Callable[..., Dataset])


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

    `load` makes the Dataset; `found` says where the data are, or finds their folder below the folder of all data sets.
    """

    name: str
    summary: str
    load: Callable[..., Dataset]
    found: str | Callable[[Path], Path | None]
    how_to_get: str

    def info(self) -> DatasetInfo:
        """What is known about this data set on this machine."""
        location = self.found if isinstance(self.found, str) else self.found(data_home())
        words = "not found" if location is None else str(location)
        return DatasetInfo(self.name, self.summary, location is not None, words, self.how_to_get)

    def call(self, options: Mapping[str, Any]) -> Dataset:
        """Calls `load`; an option it does not have, or one it needs and did not get, is an InputError."""
        signature = inspect.signature(self.load)
        try:
            signature.bind(**options)
        except TypeError as error:
            valid = ", ".join(signature.parameters)
            raise InputError(f"data set {self.name}: {error}; valid options of {self.name}: {valid}") from error
        return self.load(**options)


# The data sets whose modules were imported.
SOURCES: dict[str, DataSource] = {}


def data_set(
    name: str, summary: str, found: str | Callable[[Path], Path | None], how_to_get: str = "nothing to get"
) -> Callable[[Loader], Loader]:
    """Registers the loader below it.

    Args:
        name: of the data set.
        summary: what it is, in a line.
        found: where the data are: a text, or a function that finds their folder below the folder of all data sets.
        how_to_get: what to do if they are not found.
    """

    def register(load: Loader) -> Loader:
        SOURCES[name] = DataSource(name, summary, load, found, how_to_get)
        return load

    return register


def user_data(name: str, summary: str) -> Callable[[Loader], Loader]:
    """Registers a loader of the user's own files, which its option `path` names."""
    return data_set(name, summary, "wherever `path` points", "give the option path")


def data_home() -> Path:
    """The folder of all data sets: $EXHUME_DATA, else $XDG_CACHE_HOME/exhume, else ~/.cache/exhume."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification says that a relative path is invalid and must be ignored.
    base = Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache"
    return base / "exhume"


def resolve_home(home: str | os.PathLike[str] | None) -> Path:
    """The folder a caller names, or `data_home()` if none is named."""
    return data_home() if home is None else Path(home).expanduser()


def find_data(
    find: Callable[[Path], Path | None], home: str | os.PathLike[str] | None, looked_for: str, how_to_get: str
) -> Path:
    """The folder that `find` finds below `home`; an error says where exhume looked and what to do."""
    place = resolve_home(home)
    folder = find(place)
    if folder is None:
        raise DataError(
            f"{looked_for} is not in {place}; {how_to_get}, or set {ENVIRONMENT_VARIABLE} to the folder that holds it"
        )
    return folder


def numbered_files(folder: Path, pattern: str) -> list[Path]:
    """The files whose names match the pattern, in the order of the number that its group holds."""
    found = {path: match for path in folder.iterdir() if (match := re.fullmatch(pattern, path.name))}
    return sorted(found, key=lambda path: int(found[path].group(1)))
