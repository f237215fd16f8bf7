"""Tuned numbers as fields of frozen dataclasses, each with its unit and the evidence for its value.

A tuning dataclass holds numbers (made by `tuned`), rules whose own fields are numbers, and other tuning dataclasses.
`python -m benches sensitivity` halves and doubles every number and prints what changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

KEY = "evidence"  # of the metadata of a field


@dataclass(frozen=True)
class Evidence:
    """What a tuned number measures, and why it has its value.

    Attributes:
        unit: what the number counts or is relative to; "share" for numbers between 0 and 1 that approach 1.
        problem: the problem on which it was chosen.
        suite: the suite of `python -m benches sensitivity` that shows its effect.
        rare: the case that needs it, if that suite cannot show it; empty otherwise.
    """

    unit: str
    problem: str
    suite: str
    rare: str = ""


def tuned(default: Any, unit: str, *, problem: str, suite: str, rare: str = "") -> Any:
    """A dataclass field with a default and the evidence for it."""
    return field(default=default, metadata={KEY: Evidence(unit, problem, suite, rare)})
