"""Data sets: every one under its name, loaded by `load` and listed by `available`.

A new data set is one file with a loader under `@data_set` (see `registry.py`) and one line in `_MODULES`.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from exhume.data.dataset import Dataset
from exhume.data.download import fetch_cifar10
from exhume.data.formats import Column, PictureFormat, TableFormat, standardise
from exhume.data.registry import SOURCES, DatasetInfo, DataSource, data_home
from exhume.support.validation import one_of

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

# The module of each data set. It is imported on first use: scikit-learn alone takes longer to import than a small
# attack takes to run.
_MODULES = {
    "sphere": "builtin.sphere",
    "digits": "builtin.digits",
    "cifar10": "builtin.cifar10",
    "tiny-imagenet": "builtin.tiny_imagenet",
    "folder": "user.images",
    "arrays": "user.arrays",
    "table": "user.csv",
    "diabetes": "builtin.patients",
    "breast-cancer": "builtin.patients",
}


def load(name: str, **options: Any) -> Dataset:
    """Loads the data set `name`; its loader takes the options, e.g. `exhume.data.builtin.cifar10.load_cifar10`."""
    return _source(name).call(options)


def available() -> list[DatasetInfo]:
    """Every data set: what it is, where it was found, and how to get it if it was not."""
    return [_source(name).info() for name in _MODULES]


def options_of(name: str) -> tuple[str, ...]:
    """The options that `load(name, ...)` takes."""
    return tuple(inspect.signature(_source(name).load).parameters)


def _source(name: str) -> DataSource:
    importlib.import_module(f"exhume.data.{_MODULES[one_of('data set', name, _MODULES)]}")
    return SOURCES[name]
