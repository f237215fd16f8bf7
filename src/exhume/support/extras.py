"""Packages that only some commands need: they are extras of the installation, and errors name the extra."""

from __future__ import annotations

import importlib
from types import ModuleType

from exhume.errors import ExhumeError


class MissingExtra(ExhumeError, ImportError):
    """A package of an extra is not installed."""


def load_extra(extra: str, package: str) -> ModuleType:
    """Imports a package of an extra; the error says how to install the extra.

    Examples:
        >>> load_extra("sweep", "json").__name__
        'json'
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtra(f"{package} is not installed; run: pip install 'exhume[{extra}]'") from error
