"""Writes the table of estimators into docs/tutorials/estimators.md: what exhume does with every class of scikit-learn.

`python docs/build_estimators.py` rebuilds it; a test fails if the page is not what this makes.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from pathlib import Path

from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.utils import all_estimators

from exhume.estimators.findings import StepKind
from exhume.estimators.kinds import classify, family_of

PAGE = Path(__file__).parent / "tutorials" / "estimators.md"
BEGIN, END = "<!-- begin: build_estimators.py -->", "<!-- end: build_estimators.py -->"
_TITLES = {
    StepKind.KEEPS_ROWS: "keeps training rows",
    StepKind.RECOVERED: "rows can be computed",
    StepKind.STATISTICS: "statistics are listed",
    StepKind.NOTHING: "holds nothing of single rows",
    StepKind.DECLINED: "declined",
}


def table() -> str:
    """A row for every answer, with all classes that get it."""
    groups: dict[tuple[StepKind, str], list[str]] = defaultdict(list)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, kind in all_estimators():
            groups[classify(family_of(kind))].append(name)
    lines = ["| what | where, or why not | estimators |", "|---|---|---|"]
    for kind, title in _TITLES.items():
        for (found, reason), names in sorted(groups.items(), key=lambda group: group[1][0]):
            if found is kind:
                lines.append(f"| {title} | {reason.replace('_', chr(92) + '_')} | {', '.join(sorted(names))} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with the table as it is now."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
