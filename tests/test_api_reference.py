"""The API reference agrees with the docstrings, and every example in it runs."""

import doctest
import importlib
import inspect
import re
import runpy
from pathlib import Path

import pytest

import exhume

ROOT = Path(__file__).resolve().parents[1]
GENERATOR = runpy.run_path(str(ROOT / "docs" / "build_api.py"))
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def page():
    return (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")


def public_paths():
    """Every name that the reference must describe."""
    paths = [f"exhume.{name}" for name in exhume.__all__]
    paths += [f"exhume.{name}" for names in GENERATOR["SUBJECTS"].values() for name in names if "." in name]
    for package in GENERATOR["PACKAGES"].values():
        paths += [f"exhume.{package}.{name}" for name in importlib.import_module(f"exhume.{package}").__all__]
    return paths


def named(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def examples_of(path):
    found = named(path)
    if not (inspect.isclass(found) or inspect.isfunction(found)):
        return []
    return [each for each in doctest.DocTestFinder().find(found, path, globs={}) if each.examples]


def anchors(text):
    return [GENERATOR["anchor"](line.lstrip("# ")) for line in re.findall(r"^#{1,4} .*$", text, flags=re.MULTILINE)]


def test_the_reference_is_what_the_docstrings_say():
    assert page() == GENERATOR["reference"](), "docs/reference/api.md is not up to date; run: make docs"


def test_every_public_name_has_a_heading_and_a_link_to_it():
    headings = anchors(page())
    links = re.findall(r"\]\(#([^)]+)\)", page())
    assert len(set(headings)) == len(headings)
    assert set(links) <= set(headings)
    for path in public_paths():
        anchor = GENERATOR["anchor"](f"class {path}" if inspect.isclass(named(path)) else path)
        assert anchor in headings, path
        assert anchor in links, path


@pytest.mark.parametrize("name", exhume.__all__)
def test_every_name_of_exhume_has_an_example(name):
    assert examples_of(f"exhume.{name}")


@pytest.mark.parametrize("path", [path for path in public_paths() if examples_of(path)])
def test_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    for test in examples_of(path):
        result = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append)
        assert result.failed == 0, "".join(said)
        assert result.attempted == len(test.examples)


def test_no_example_stands_on_the_page_that_is_not_run():
    blocks = re.findall(r"^```pycon\n(.*?)^```", page(), flags=re.MULTILINE | re.DOTALL)
    shown = [example.source for block in blocks for example in doctest.DocTestParser().get_examples(block)]
    run = [each.source for path in public_paths() for test in examples_of(path) for each in test.examples]
    assert sorted(shown) == sorted(run)
    assert len(blocks) >= len(exhume.__all__)


def test_a_broken_example_fails(tmp_path):
    """The runner above counts an example with a wrong answer as a failure."""
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "broken", None, 0)
    assert doctest.DocTestRunner(optionflags=FLAGS).run(test, out=lambda text: None).failed == 1
