"""Folders of an audit: names from anywhere made safe, and paths that stay inside their root."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import Path

from exhume.errors import InputError, brief

_LONGEST = 64
_HASH = 8
_HASHED = re.compile(rf"-[0-9a-f]{{{_HASH}}}$")
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{digit}" for port in ("com", "lpt") for digit in range(10))}


def folder_name(text: str) -> str:
    """A name that is safe as a folder's for any text: the text itself if it is safe, else a likeness with a hash.

    Different texts have different names, but for letter case where the file system ignores it.
    """
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", unicodedata.normalize("NFKC", text))
    slug = re.sub(r"\.{2,}", ".", slug).strip("-._")
    slug = slug[: _LONGEST - _HASH - 1].rstrip("-._") or "model"
    if slug.split(".")[0].lower() in _RESERVED:
        slug = f"model-{slug}"
    if slug == text and not _HASHED.search(slug):
        return slug
    return f"{slug}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:_HASH]}"


def inside(root: str | Path, name: str) -> Path:
    """The path of `name` below `root`; refused if it leaves it, be it by "..", from the root of the disk or a link."""
    root = Path(root)
    try:
        home = root.resolve()
        path = (root / name).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{brief(name, 80)!r} is not a usable name below {root}: {brief(error)}") from error
    if path == home or not path.is_relative_to(home):
        raise InputError(f"{brief(name, 80)!r} does not stay inside {root}; valid: a plain name below it")
    return root / name
