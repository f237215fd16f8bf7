"""`exhume runs` lists what attacks found; `exhume attack --watch` shows samples while they emerge."""

import base64
import io
import re
from types import SimpleNamespace

import torch
from PIL import Image

from exhume.attacks import ProgressEvent
from exhume.cli.render import attack_events
from exhume.report.live import WatchPage


def test_runs_lists_verdicts_scores_and_what_is_unfinished(small_run, exhume_command, exhume_json, tmp_path):
    exhume_command("attack", small_run)
    exhume_command("score", small_run)
    (small_run / "descent").mkdir()
    (small_run / "descent" / "checkpoint.safetensors").write_bytes(b"")
    (small_run / "kkt").mkdir()
    (small_run / "kkt" / "result.json").write_text("{}")
    code, value = exhume_json("runs", small_run.parent)
    assert code == 0
    listed = {each["attack"]: each for each in value["runs"] if each["run"] == str(small_run)}
    assert listed["exact"]["verdict"] == "exact"
    assert (listed["exact"]["recovered"], listed["exact"]["num_samples"]) == (2, 2)
    assert listed["descent"]["state"] == "unfinished"
    assert listed["kkt"]["state"] == "unreadable"
    code, out, _ = exhume_command("runs", small_run.parent)
    assert re.search(r"exact +exact +- +2 of 2", out)


def test_runs_lists_the_outcome_of_audits(small_run, exhume_command, exhume_json, tmp_path):
    exhume_command("audit", "--run", small_run, "--out", tmp_path / "audits" / "a")
    (tmp_path / "audits" / "b").mkdir()
    (tmp_path / "audits" / "b" / "audit.json").write_text('{"outcome": "inconclusive", "method": null}')
    (tmp_path / "audits" / "c").mkdir()
    (tmp_path / "audits" / "c" / "audit.json").write_text("{}")
    _, value = exhume_json("runs", tmp_path / "audits")
    first, second, third = value["runs"]
    assert (first["outcome"], first["verdict"], first["recovered"], first["num_samples"]) == (
        "recovered",
        "exact",
        2,
        2,
    )
    assert (second["attack"], second["outcome"], second["verdict"]) == ("", "inconclusive", None)
    assert third["state"] == "unreadable"
    _, out, _ = exhume_command("runs", tmp_path / "audits")
    assert re.search(r"b +- +- +inconclusive", out)


def test_runs_says_where_there_are_none(exhume_command, tmp_path):
    code, out, _ = exhume_command("runs", tmp_path)
    assert (code, "no run folder in" in out) == (0, True)
    code, _, err = exhume_command("runs", tmp_path / "none")
    assert (code, "is not a folder" in err) == (2, True)


def test_watching_changes_nothing_and_leaves_a_page_of_the_result(small_run, exhume_json, exhume_command):
    _, plain = exhume_json("attack", small_run, "--method", "descent")
    _, watched = exhume_json("attack", small_run, "--method", "descent", "--watch")
    assert plain["passes"] == watched["passes"]
    assert plain["certificate"] == watched["certificate"]
    page = (small_run / "descent" / "watch.html").read_text()
    assert "refresh" not in page
    assert f"verdict: {watched['certificate']['verdict']}" in page
    assert page.count("<img") == 2


def test_a_page_of_a_running_attack_is_loaded_again_and_shows_the_current_samples(tmp_path):
    page = WatchPage(tmp_path / "watch.html", "descent", (1, 4, 4))
    samples = torch.arange(32.0).reshape(2, 16)
    page.update(ProgressEvent(1, 10, 0.5, 3.0, samples))
    text = page.path.read_text()
    assert '<meta http-equiv="refresh" content="2">' in text
    assert "running: step 1, loss 5.00e-01, 3 passes" in text
    pixels = Image.open(io.BytesIO(base64.b64decode(re.findall(r"base64,([^\"]+)", text)[0])))
    assert [pixels.getpixel((place, 0)) for place in range(3)] == [0, 17, 34]
    assert page.path.stat().st_mode & 0o077 == 0


def test_rows_of_another_width_are_not_shown_as_samples(tmp_path):
    page = WatchPage(tmp_path / "watch.html", "subspace", (1, 4, 4))
    page.update(ProgressEvent(1, 10, float("nan"), 3.0, torch.zeros(2, 3)))
    assert "No samples yet." in page.path.read_text()


def test_progress_says_how_long_the_search_takes_at_most(monkeypatch):
    clock, said = SimpleNamespace(now=0.0), []
    monkeypatch.setattr("exhume.cli.render.time.monotonic", lambda: clock.now)
    report = attack_events(lambda step, total, words: said.append(words))
    for now, step in ((0.0, 0), (2.0, 10), (4.0, 20)):
        clock.now = now
        report(ProgressEvent(step, 100, 0.1, 5.0))
    assert "left" not in said[0]
    assert said[-1].endswith("at most 16 s left")
    report(ProgressEvent(1, 50, 0.1, 5.0))  # another search: its time is not known yet
    assert "left" not in said[-1]


def test_progress_counts_the_budget_that_ends_the_attack_first(monkeypatch):
    clock, said = SimpleNamespace(now=0.0), []
    monkeypatch.setattr("exhume.attacks._base.progress.time.monotonic", lambda: clock.now)
    report = attack_events(lambda done, total, words: said.append((done / total, words)))
    for now, step, passes in ((0.0, 0, 0.0), (5.0, 10, 250.0)):
        clock.now = now
        report(ProgressEvent(step, 1_500_000, 0.1, passes, None, 1000.0 - passes, 60.0 - now))
    assert said[-1] == (0.25, "step 10, loss 1.00e-01, 250 of 1,000 passes, at most 15 s left")
    clock.now = 50.0
    report(ProgressEvent(11, 1_500_000, 0.1, 300.0, None, 700.0, 10.0))
    assert said[-1][1].endswith("at most 10 s left")
