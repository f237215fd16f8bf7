"""The source keeps its shape: few modules at the root, small folders, few parameters, limited size, plain words."""

import re
from pathlib import Path

import pytest
from benches.structure import PACKAGE, code_lines, folder_sizes, functions, modules

ROOT = Path(__file__).resolve().parents[1]
# Documented public signatures that keep more than seven parameters; each is a call that users write with keywords.
DOCUMENTED = {
    "adapters/art.py:__init__",
    "attacks/_base/attack.py:__call__",
    "auditing/run.py:audit",
    "data/user/csv.py:load_table",
    "data/user/images.py:load_folder",
    "defences/measuring.py:measure",
    "law.py:forecast",
    "networks/vit.py:__init__",
    "research/width_bound.py:sufficient_width",
    "training/gradient_descent.py:train",
    "victims/random_features.py:__init__",
}
# Metaphors and private words for which the field has names, and former names of classes and methods.
BANNED = re.compile(
    r"\b((?i:rooms?|houses?|halls?|shelf|shelves|darkroom|thief|thieves|vouch\w*|delivery entrance|printing press)"
    r"|Patience|Inner|Course|pull_?backs?|preactivate|Ledger)\b"
)


def test_at_most_six_modules_stand_at_the_root():
    named = [path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__")]
    assert len(named) <= 6, named


def test_no_folder_holds_much_more_than_fifteen_files():
    assert {path.name: count for path, count in folder_sizes().items() if count > 17} == {}


def test_the_package_stays_small():
    assert sum(code_lines(path.read_text(encoding="utf-8")) for path in modules()) <= 27_600


def test_functions_take_at_most_seven_parameters_and_every_documented_exception_still_exists():
    assert {name for name, count in functions() if count > 7 and not name.startswith("cli/")} == DOCUMENTED


def written_files():
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "benches").glob("*.py")]
    templates = [path for path in PACKAGE.rglob("templates/*") if path.suffix in (".j2", ".css", ".js")]
    return [*modules(), *templates, *pages, *(ROOT / "examples").glob("*.py")]


@pytest.mark.parametrize("path", written_files(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_plain_words(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [f"{number}: {line}" for number, line in enumerate(lines, 1) if BANNED.search(line)] == []


def test_the_search_for_banned_words_finds_them():
    assert BANNED.search("The attack vouches for it")
    assert BANNED.search("What a Thief holds")
    assert BANNED.search("point.pull_back(change)")
    assert not BANNED.search("the inner loop, of course")
    assert not BANNED.search("a mushroom in the hallway")


def test_code_lines_leave_out_blanks_comments_docstrings_and_imports():
    text = '"""Doc.\n\nMore."""\n\nimport os\n\n\n# why\ndef f(a):\n    """One."""\n    return (\n        a\n    )\n'
    assert code_lines(text) == 4
