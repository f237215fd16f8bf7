"""Thresholds that make an audit fail: `--fail-on recovered=1`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from exhume.errors import InputError
from exhume.law import GREY_ZONE, LABELS_ONLY, NOT_EVEN_LABELS, RECONSTRUCTIBLE
from exhume.results.certificate import APPROXIMATE, EXACT, FAILED
from exhume.support.validation import one_of

# Words from harmless to bad; a threshold is reached by its word and by worse ones.
_VERDICTS = (FAILED, APPROXIMATE, EXACT)
_ZONES = (NOT_EVEN_LABELS, LABELS_ONLY, GREY_ZONE, RECONSTRUCTIBLE)


@dataclass(frozen=True)
class Measure:
    """A number or a verdict of an audit that a threshold can limit."""

    meaning: str
    reached: Callable[[Any, Any], bool]
    words: Sequence[str] = ()

    def parse(self, text: str) -> Any:
        """A number, or one of the words."""
        if self.words:
            return one_of("threshold", text.replace("-", " "), self.words)
        try:
            number = float(text)
        except ValueError as error:
            raise InputError(f"threshold {text!r} is not a number") from error
        if not number >= 0:
            raise InputError(f"threshold {text!r} must not be negative")
        return number


def _worse(words: Sequence[str]) -> Callable[[Any, Any], bool]:
    return lambda value, limit: words.index(value) >= words.index(limit)


MEASURES: Mapping[str, Measure] = {
    "recovered": Measure("at least so many samples recovered, by the truth", operator.ge),
    "share": Measure("at least this share of the samples recovered, by the truth", operator.ge),
    "certain": Measure("at least so many certified samples", operator.ge),
    "error": Measure("an error of at most so much, by the truth", operator.le),
    "closest": Measure("a sample with an error of at most so much, by the truth", operator.le),
    "predicted_error": Measure("a predicted error of at most so much", operator.le),
    "equations_per_unknown": Measure("at least so many equations for each unknown", operator.ge),
    "verdict": Measure("this verdict of the certificate or a surer one", _worse(_VERDICTS), _VERDICTS),
    "law": Measure("this zone of the law or a worse one", _worse(_ZONES), _ZONES),
}


@dataclass(frozen=True)
class Threshold:
    """A measure, and the value from which on the audit fails."""

    measure: str
    limit: float | str

    @classmethod
    def parse(cls, text: str) -> Threshold:
        """From "recovered=1"."""
        name, separator, limit = text.strip().partition("=")
        name = name.strip().replace("-", "_")
        if not separator:
            raise InputError(f"threshold {text!r} is not of the form measure=limit, as recovered=1")
        return cls(one_of("measure", name, MEASURES), MEASURES[name].parse(limit.strip()))

    def reached_by(self, measured: Mapping[str, Any]) -> bool | None:
        """Whether an audit reached it; None if the audit could not measure that."""
        value = measured.get(self.measure)
        return None if value is None else MEASURES[self.measure].reached(value, self.limit)

    def __str__(self) -> str:
        limit = f"{self.limit:g}" if isinstance(self.limit, float) else self.limit
        return f"{self.measure}={limit}"
