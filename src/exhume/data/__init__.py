"""The data house: every data set under one name, loaded by `load` and listed by `available`.

A new data set is one file with a `SOURCE` (see `sources.py`) and one line in `_NAMES`.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from exhume.data.dataset import Dataset, PictureFormat, standardise
from exhume.data.fetch import fetch_cifar10
from exhume.data.locations import data_home
from exhume.data.sources import DatasetInfo, DataSource
from exhume.data.tables import Column, TableFormat
from exhume.errors import unknown_name

__all__ = [
    "Column",
    "Dataset",
    "DatasetInfo",
    "PictureFormat",
    "TableFormat",
    "available",
    "data_home",
    "fetch_cifar10",
    "load",
    "options_of",
    "standardise",
]

# A name is its module's, with dashes for underscores.
_NAMES = (
    "sphere",
    "digits",
    "cifar10",
    "tiny-imagenet",
    "folder",
    "arrays",
    "table",
    "diabetes",
    "breast-cancer",
)


def load(name: str, **options: Any) -> Dataset:
    """Loads the data set `name`; the options are those of its loader, e.g. `exhume.data.cifar10.load_cifar10`."""
    return _source(name).call(options)


def available() -> list[DatasetInfo]:
    """Every data set: what it is, where it was found, and how to get it if it was not."""
    return [_source(name).info() for name in _NAMES]


def _source(name: str) -> DataSource:
    if name not in _NAMES:
        raise unknown_name("data set", name, _NAMES)
    # Imported when asked for: scikit-learn alone takes longer to import than a small attack takes to run.
    source: DataSource = importlib.import_module(f"exhume.data.{name.replace('-', '_')}").SOURCE
    return source


def options_of(name: str) -> tuple[str, ...]:
    """The options that `load(name, ...)` takes."""
    return tuple(inspect.signature(_source(name).load).parameters)
