"""`exhume report` detects the kind of a path, writes one private page, and refuses invalid combinations of options."""

import pytest

from exhume.sweep import Grid, Store


def test_a_run_gets_a_page_that_only_its_owner_reads(attacked_run, exhume_json):
    code, value = exhume_json("report", attacked_run)
    page = attacked_run / "report.html"
    assert code == 0
    assert (value["out"], value["kind"], value["level"]) == (str(page), "run", "leak")
    assert value["redacted"] is False
    assert page.stat().st_mode & 0o777 == 0o600
    assert "<!doctype html>" in page.read_text()[:100].lower()


def test_people_are_told_the_verdict_and_where_the_page_is(attacked_run, exhume_command):
    code, out, _ = exhume_command("report", attacked_run, "--redact", "--out", attacked_run / "other.html")
    assert code == 0
    assert out.splitlines()[0].startswith("This model gives away its training data")
    assert out.splitlines()[1] == f"report: {attacked_run / 'other.html'}"


def test_without_the_secret_a_page_is_made(attacked_run, exhume_json):
    (attacked_run / "secret.safetensors").unlink()
    assert exhume_json("report", attacked_run)[1]["level"] == "leak"


def test_a_comparison_is_one_unless_a_method_is_named(attacked_run, exhume_json):
    exhume_json("compare", attacked_run, "--methods", "exact,descent", "--budget-passes", 500, "--resume")
    whole, single = exhume_json("report", attacked_run)[1], exhume_json("report", attacked_run, "--method", "exact")[1]
    assert (whole["kind"], whole["title"]) == ("comparison", "run: 2 attacks compared")
    assert (single["kind"], single["title"]) == ("run", "run")


@pytest.mark.parametrize("name", ["grid.sqlite", "grid.yaml"])
def test_a_sweep_gets_its_page_beside_the_store(tmp_path, exhume_json, name):
    with Store(tmp_path / "grid.sqlite") as store:
        store.register("a", Grid(data="sphere", ratio=1, attack="exact", seeds=1).cells())
    code, value = exhume_json("report", tmp_path / name)
    assert (code, value["kind"], value["level"]) == (0, "sweep", "neutral")
    assert (tmp_path / "grid.html").is_file()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--out", "."), "is a folder"),
        (("--out", "victim.safetensors"), "does not end with .html"),
        (("--method", "kkt"), "no result of 'kkt'"),
        (("--sweep", "a"), "is not a store of sweeps"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_written(attacked_run, exhume_command, monkeypatch, words, told):
    monkeypatch.chdir(attacked_run)
    before = {path: path.stat().st_mtime_ns for path in attacked_run.iterdir()}
    code, _, err = exhume_command("report", attacked_run, *words)
    assert code == 2
    assert told in err
    assert {path: path.stat().st_mtime_ns for path in attacked_run.iterdir()} == before


@pytest.mark.parametrize("name", ["nothing", "nothing.sqlite", "text.txt"])
def test_a_path_that_holds_nothing_to_report_is_an_error(tmp_path, exhume_command, name):
    (tmp_path / "text.txt").write_text("hello")
    code, _, err = exhume_command("report", tmp_path / name)
    assert code == 2
    assert name in err


def test_a_run_without_an_attack_says_what_to_do(small_run, exhume_command):
    code, _, err = exhume_command("report", small_run)
    assert code == 2
    assert "exhume attack" in err


def test_help_has_an_example(exhume_command):
    code, out, _ = exhume_command("report", "--help")
    assert code == 0
    assert "Example: exhume report" in out
