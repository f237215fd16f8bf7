"""What a user installs: few dependencies, extras that errors name, and files that describe the project."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml

import exhume
from exhume.support.extras import MissingExtra, load_extra
from official_schemas import official_schema

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ISSUE_FORMS = [f".github/ISSUE_TEMPLATE/{name}.yml" for name in ("bug_report", "idea", "wrong_certificate")]
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


def read_yaml(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def workflow():
    """The workflow of CI; YAML 1.1 reads the key `on` as True."""
    return {"on" if key is True else key: value for key, value in read_yaml(".github/workflows/ci.yml").items()}


@pytest.mark.parametrize(
    ("content", "schema"),
    [
        (workflow(), "github-workflow"),
        (read_yaml("compose.yaml"), "compose-spec"),
        (read_yaml("CITATION.cff"), "1.2.0/schema"),
        (read_yaml(".github/ISSUE_TEMPLATE/config.yml"), "github-issue-config"),
        *((read_yaml(form), "github-issue-forms") for form in ISSUE_FORMS),
    ],
    ids=["workflow", "compose", "citation", "issues", *ISSUE_FORMS],
)
def test_files_for_other_tools_follow_their_schemas(content, schema):
    jsonschema.validate(content, official_schema(schema))
    with pytest.raises(jsonschema.ValidationError):  # the schema is not an empty one
        jsonschema.validate({"body": [], "contact_links": 0, "services": [], "authors": []}, official_schema(schema))


def test_the_cluster_and_the_workflow_have_their_parts():
    assert set(read_yaml("compose.yaml")["services"]) == {"scheduler", "worker", "exhume"}
    jobs = workflow()["jobs"]
    assert {"lint", "test", "package", "docs"} <= set(jobs)
    assert jobs["test"]["strategy"]["matrix"]["python-version"] == ["3.11", "3.12", "3.13"]


def test_the_dockerfile_passes_its_linter():
    linter = Path(sys.executable).with_name("hadolint")
    if not linter.exists():
        pytest.skip("hadolint is not installed: it has no package for this platform")
    done = subprocess.run([linter, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
