"""What the weights show of the training, as facts of a page."""

from __future__ import annotations

from collections.abc import Sequence

from exhume.report.content import Fact
from exhume.target.diagnosis import Finding

_NAMES = {
    "missing": "Not given",
    "start": "Initial weights",
    "optimiser": "Optimiser",
    "decay": "Weight decay",
    "normalisation": "BatchNorm",
    "head": "Head",
}


def diagnosis_facts(findings: Sequence[Finding]) -> tuple[Fact, ...]:
    """One fact for each finding, its advice as the explanation."""
    return tuple(Fact(_NAMES.get(each.kind, each.kind), each.sentence, each.advice) for each in findings)
