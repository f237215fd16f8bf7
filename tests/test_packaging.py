"""What a user installs: few dependencies, extras that errors name, and files that describe the project."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import exhume
from exhume.support.extras import MissingExtra, load_extra

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRA = ("dask", "distributed", "pandas", "pyarrow", "opacus", "art", "mkdocs")
HIDDEN = f"""
import sys
for name in {EXTRA}:
    sys.modules[name] = None  # importing it raises ImportError
"""


def run_without_extras(code, folder):
    """Runs code in a process where no package of an extra can be imported."""
    words = [sys.executable, "-c", HIDDEN + code]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


def names_of(requirements):
    return {each.split(">")[0].split("[")[0] for each in requirements}


def test_packages_of_extras_are_not_dependencies():
    extras = PROJECT["optional-dependencies"]
    assert names_of(extras["sweep"]) == {"distributed", "pandas", "pyarrow"}
    assert not names_of(PROJECT["dependencies"]) & {name for extra in extras.values() for name in names_of(extra)}
    assert names_of(PROJECT["dependencies"]).isdisjoint(EXTRA)


def test_every_module_but_the_adapter_and_the_figures_loads_without_the_extras(tmp_path):
    code = """
import importlib, pkgutil, exhume
for each in pkgutil.walk_packages(exhume.__path__, "exhume.", onerror=lambda name: None):
    if not each.name.startswith(("exhume.adapters.art", "exhume.research.paper_figures", "exhume.__main__")):
        importlib.import_module(each.name)
print("all loaded")
"""
    done = run_without_extras(code, tmp_path)
    assert done.stdout.strip() == "all loaded", done.stderr


@pytest.mark.parametrize(
    "words", [["sweep", "run", "grid.yaml"], ["reproduce", "fig3", "--out", "figs"]], ids=["sweep", "reproduce"]
)
def test_commands_without_their_extra_name_it(words, tmp_path):
    grid = "name: one\ndata: {name: sphere, dim: 8, samples: 2}\nvictim: rf\nratio: 5\nattack: exact\nseeds: 1\n"
    (tmp_path / "grid.yaml").write_text(grid)
    done = run_without_extras(f"sys.argv = ['exhume', *{words}]\nfrom exhume.cli import main\nmain()", tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("is not installed; run: pip install 'exhume[sweep]'")
    assert len(done.stderr.splitlines()) == 1


def test_a_missing_package_is_both_an_error_of_exhume_and_an_import_error():
    with pytest.raises(MissingExtra, match=r"no_such_package is not installed; run: pip install 'exhume\[sweep\]'"):
        load_extra("sweep", "no_such_package")
    assert issubclass(MissingExtra, ImportError)
    assert issubclass(MissingExtra, exhume.ExhumeError)
    assert load_extra("sweep", "json") is json


def test_the_package_is_typed_and_the_versions_agree():
    assert Path(exhume.__file__).with_name("py.typed").is_file()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["version"]
    assert citation["authors"] == [{"name": "The exhume authors"}]


def test_the_pinned_versions_are_within_the_supported_ones():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    pinned = {name.lower(): version for name, version in (line.split("==") for line in lines)}
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["sweep"]]
    for requirement in wanted:
        name, lowest = requirement.split(">=")
        assert [*map(int, pinned[name].split(".")[:2])] >= [*map(int, lowest.split("."))][:2], requirement
    dockerfile, makefile = ((ROOT / name).read_text(encoding="utf-8") for name in ("Dockerfile", "Makefile"))
    assert f"torch=={pinned['torch']}" in dockerfile
    assert f"torch=={pinned['torch']}" in makefile


def test_workflows_templates_and_the_cluster_of_containers_are_valid_yaml():
    for path in [*(ROOT / ".github").rglob("*.yml"), ROOT / "compose.yaml"]:
        assert yaml.safe_load(path.read_text(encoding="utf-8")), path
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    assert set(services) == {"scheduler", "worker", "exhume"}
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    assert {"lint", "test", "package", "docs"} <= set(jobs)
    assert jobs["test"]["strategy"]["matrix"]["python-version"] == ["3.11", "3.12", "3.13"]
    for form in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        if form.name != "config.yml":
            assert {"name", "description", "body"} <= set(yaml.safe_load(form.read_text(encoding="utf-8")))
