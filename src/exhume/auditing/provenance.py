"""Where an audit comes from: versions, seeds, the budget, and the SHA-256 of every file that was read."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from exhume import __version__
from exhume.auditing.settings import SEEDS, Settings
from exhume.report import Fact
from exhume.target.knowledge_text import FROM_FILES, known_name
from exhume.target.target import Target

# Settings that name files, and other settings that are shown if they were given.
_FILES = ("model", "recipe", "run", "weights", "initial", "truth", "labels", "held_out", "held_out_labels", "reference")
# Files of a folder that are hashed one after the other.
_MOST_FILES = 10_000


def provenance_of(target: Target, settings: Settings) -> tuple[Fact, ...]:
    """Everything that is needed to repeat an audit, or to see that another was of the same files."""
    passes = f"{settings.max_passes:,.0f}".replace("inf", "any number of")
    facts = [
        Fact("exhume", __version__),
        Fact("torch", torch.__version__),
        Fact("numpy", np.__version__),
        Fact("Python", platform.python_version()),
        Fact("date", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        Fact("initial weights of the head", target.knowledge.initial_head),
        Fact("seed", str(settings.seed), "of the attacks, of the draws of non-members and of the permutations"),
        Fact("budget", f"{passes} feature passes, {settings.budget_seconds:,.0f} s"),
        Fact("method", settings.method, "other attacks: repeat this audit with --method NAME and another --out"),
    ]
    if settings.head is not None:
        facts.append(Fact("head", settings.head))
    for name, value in _named(settings):
        digest = hash_path(Path(value.partition(":")[0]) if name == "model" else Path(value))
        facts.append(Fact(name, value, f"SHA-256 {digest}" if digest else ""))
    return tuple(facts)


def hash_path(path: Path) -> str:
    """SHA-256 of a file; of a folder that of its files' names and hashes, in order; empty for anything else."""
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    if not path.is_dir():
        return ""
    digest = hashlib.sha256()
    for each in sorted(each for each in path.rglob("*") if each.is_file())[:_MOST_FILES]:
        digest.update(f"{each.relative_to(path)} {hash_path(each)}\n".encode())
    return digest.hexdigest()


def _named(settings: Settings) -> Iterator[tuple[str, str]]:
    """The files that the settings name, and words such as "zero" in their place."""
    for name in _FILES:
        value = getattr(settings, name)
        if name in settings.model_fields_set and value is not None:
            yield name, str(value)
    for name, value in settings.know.items():
        if isinstance(value, str) and known_name(name) in FROM_FILES and not value.startswith(SEEDS):
            yield f"know {name}", value
