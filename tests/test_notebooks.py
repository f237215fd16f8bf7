"""The notebooks hold the cells of docs/build_notebooks.py, run to their end, and are small."""

import runpy
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILDER = runpy.run_path(str(ROOT / "docs" / "build_notebooks.py"))
NOTEBOOKS = {path.stem: path for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")}
LARGEST = 100_000  # bytes, with outputs


def test_every_notebook_is_built_and_listed():
    assert set(NOTEBOOKS) == set(BUILDER["NOTEBOOKS"])
    listed = (ROOT / "docs" / "tutorials" / "notebooks.md").read_text(encoding="utf-8")
    assert all(f"../notebooks/{name}.ipynb" in listed for name in NOTEBOOKS)


@pytest.mark.parametrize("name", BUILDER["NOTEBOOKS"])
def test_the_committed_notebook_has_the_cells_and_their_outputs(name):
    notebook = nbformat.read(NOTEBOOKS[name], as_version=4)
    nbformat.validate(notebook)
    assert [cell.source for cell in notebook.cells] == [cell.source for cell in BUILDER["cells_of"](name)]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
    assert NOTEBOOKS[name].stat().st_size < LARGEST


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILDER["NOTEBOOKS"])
def test_the_notebook_runs(name, tmp_path):
    BUILDER["executed"](name, tmp_path)  # raises if a cell does


@pytest.mark.parametrize("name", ["quick_start", "audit"])
def test_the_code_of_the_short_notebooks_runs(name, tmp_path, monkeypatch):
    """In this process, without a kernel."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    names: dict[str, object] = {}
    for cell in BUILDER["cells_of"](name):
        if cell.cell_type == "code":
            exec(compile(cell.source, name, "exec"), names)
    assert names["result"]
