"""Where data live: one folder that holds every data set in its official layout."""

from __future__ import annotations

import os
from pathlib import Path

from exhume.errors import DataError

ENVIRONMENT_VARIABLE = "EXHUME_DATA"


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


def missing_data(what: str, looked_for: str, home: Path, how_to_get: str) -> DataError:
    """The error for a data set that is not there: where exhume looked and what to do."""
    return DataError(
        f"{what} is not in {home} (looked for {looked_for}); {how_to_get}, "
        f"or set {ENVIRONMENT_VARIABLE} to the folder that holds it"
    )
