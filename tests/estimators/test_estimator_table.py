"""The table of estimators in the documentation is the one that the code makes, and covers scikit-learn."""

import importlib.util
from pathlib import Path

from sklearn.utils import all_estimators

DOCS = Path(__file__).resolve().parents[2] / "docs"


def builder():
    spec = importlib.util.spec_from_file_location("build_estimators", DOCS / "build_estimators.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_current():
    text = (DOCS / "tutorials" / "estimators.md").read_text()
    assert builder().page(text) == text, "run: python docs/build_estimators.py"


def test_every_estimator_has_one_answer():
    cells = [line.split(" | ")[2].strip(" |") for line in builder().table().splitlines()[2:]]
    named = [name for cell in cells for name in cell.split(", ")]
    assert sorted(named) == sorted(name for name, _ in all_estimators())
