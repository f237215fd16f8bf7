"""`exhume audit`: options, exit codes and JSON output."""

import contextlib
import hashlib
import json
import sys
from pathlib import Path

import pytest

from exhume.auditing import thresholds
from exhume.cli import render
from exhume.cli.audit import DEFENCE_NAMES, MEASURES
from exhume.defences import DEFENCES

sys.path.append(str(Path(__file__).parents[1] / "auditing"))
from auditing_models import SAMPLES, write_probe


def test_help_texts_name_every_defence_and_every_threshold():
    assert tuple(DEFENCES) == DEFENCE_NAMES
    assert MEASURES.keys() == thresholds.MEASURES.keys()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_probe(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


PROBE = ["audit", "--model", "mymodel.py:build", "--weights", "after.safetensors"]
PROBE += ["--initial", "zero", "--input-shape", "12"]


def test_exit_code_is_0_if_no_threshold_is_reached_and_1_if_one_is(folder, exhume_json):
    code, value = exhume_json(*PROBE, "--truth", "x.npy", "--fail-on", f"recovered={SAMPLES + 1}")
    assert code == 0
    assert value["passed"]
    assert value["measured"]["recovered"] == SAMPLES
    assert Path(value["report"]).exists()
    code, value = exhume_json(*PROBE, "--num-samples", SAMPLES, "--fail-on", "verdict=exact", "--fail-on", "certain=99")
    assert code == 1
    assert value["exceeded"] == ["verdict=exact"]
    assert value["score"] is None


@pytest.fixture(scope="module")
def audited(exhume_command, tmp_path_factory):
    """The folder of a probe that was audited into `there`, the exit code and what was printed."""
    place = tmp_path_factory.mktemp("audited")
    write_probe(place)
    with contextlib.chdir(place):
        words = ("--truth", "x.npy", "--reference", "x.npy", "--name", "my probe", "--out", "there")
        code, out, _ = exhume_command(*PROBE, *words)
    return place, code, out


def test_text_names_the_verdict_and_the_page(audited):
    _, code, out = audited
    assert code == 0
    assert out.startswith("my probe: This model gives away its training data")
    assert "there/report.html" in out


def test_a_report_is_made_again_from_the_folder(audited, exhume_command, exhume_json, monkeypatch):
    folder = audited[0]
    monkeypatch.chdir(folder)
    first = (folder / "there" / "report.html").read_text()
    code, value = exhume_json("report", "there", "--out", "again.html")
    assert code == 0
    assert Path(value["out"]).read_text() == first
    code, _, err = exhume_command("report", "there", "--redact", "--out", "shared.html")
    assert code == 0, err
    assert (folder / "shared.html").read_text() != first


def test_defences_are_measured_when_asked_for(folder, exhume_json):
    code, value = exhume_json(*PROBE, "--truth", "x.npy", "--labels", "y.npy", "--defence", "rounding")
    assert code == 0
    assert {each["defence"] for each in value["defences"]} == {"none", "rounding"}
    assert value["defences"][0]["recovered"] == SAMPLES
    assert all(each["utility"]["training_error"] is not None for each in value["defences"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["audit"], "an audit needs one of model"),
        (["audit", "none.yaml"], "none.yaml does not exist"),
        (["audit", "--model", "nothing.py:build"], "nothing.py does not exist"),
        (["audit", "--model", "mymodel.py:make"], "make"),
        ([*PROBE, "--fail-on", "recovered=1"], "needs the truth"),
        ([*PROBE, "--run", "there"], "given: model and run"),
        ([*PROBE, "--defence", "armour"], "unknown defence 'armour'"),
        ([*PROBE, "--truth", "none.npy"], "none.npy"),
        ([*PROBE, "--truth", "x.npy", "--out", "mymodel.py"], "mymodel.py is a file"),
        ([*PROBE, "--truth", "x.npy", "--out", "."], "is the current folder"),
    ],
)
def test_bad_usage_is_one_line_exit_code_2_and_nothing_written(folder, exhume_command, words, message):
    before = sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")
    code, out, err = exhume_command(*words)
    assert code == 2
    assert not out
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == before


def test_an_audit_that_decides_nothing_exits_with_3_unless_that_is_allowed(folder, exhume_json):
    words = [*PROBE, "--num-samples", SAMPLES, "--method", "descent", "--budget-passes", "10", "--fail-on", "certain=1"]
    code, value = exhume_json(*words)
    assert (code, value["exit_code"], value["outcome"], value["passed"]) == (3, 3, "inconclusive", False)
    assert exhume_json(*words, "--allow-inconclusive")[0] == 0


def test_the_hash_of_every_input_file_is_recorded(audited):
    folder = audited[0]
    facts = {each["name"]: each for each in json.loads((folder / "there" / "audit.json").read_text())["provenance"]}
    for name, file in (("model", "mymodel.py"), ("weights", "after.safetensors"), ("truth", "x.npy")):
        digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
        assert facts[name]["explanation"] == f"SHA-256 {digest}"
    assert facts["reference"]["explanation"] == facts["truth"]["explanation"]


def test_the_equation_at_the_truth_is_in_summary_json_and_page(audited):
    folder, _, out = audited
    value, page = json.loads((folder / "there" / "audit.json").read_text()), (folder / "there/report.html").read_text()
    (head,) = value["premise"]["layers"]
    assert f"the truth leaves {head['truth']:.2g} of the displacement unexplained" in out
    assert "Share of the displacement that is left unexplained" in page
    assert value["premise"]["sentence"].partition(":")[0] in page


def test_other_attacks_are_tried_by_the_command_that_the_page_and_compare_name(audited, exhume_command):
    again = "with --method NAME and another --out"
    assert again in (audited[0] / "there" / "report.html").read_text()
    code, _, err = exhume_command("compare", audited[0] / "there")
    assert code == 2
    assert again in err


def test_several_models_exit_with_2_if_one_could_not_be_audited(folder, exhume_json):
    common = "model: mymodel.py:build\ninitial: zero\ninput_shape: [12]\nnum_samples: 3\n"
    (folder / "two.yaml").write_text(
        f"{common}models:\n  - {{name: good, weights: after.safetensors}}\n  - {{name: bad, weights: none.pt}}\n"
    )
    code, value = exhume_json("audit", "two.yaml", "--out", "audits")
    assert code == 2
    assert [each["audited"] for each in value["models"]] == [True, False]
    assert "none.pt" in value["models"][1]["reason"]
    code, value = exhume_json("report", "audits")
    assert code == 0
    assert value["out"] == "audits/index.html"
    index = json.loads((folder / "audits" / "audits.json").read_text())
    assert [each["name"] for each in index["models"]] == ["good", "bad"]


def test_the_seed_of_the_initial_weights_is_found(folder, exhume_json, exhume_command):
    words = [*PROBE[:-4], "--input-shape", "12", "--num-samples", SAMPLES, "--budget-passes", "10"]
    code, value = exhume_json(*words, "--initial", "seed:0-50")  # the probe was built under seed 0
    assert code == 3  # the budget is too small to find anything
    assert any("those of seed 0" in note for note in value["notes"])
    code, out, err = exhume_command(*words, "--initial", "seed:1-50", "--out", "none")
    assert (code, out) == (2, "")
    assert "no seed from 1 to 50" in err
    assert not (folder / "none").exists()
    assert not (folder / ".none.running").exists()


def test_progress_of_a_seed_search_shows_the_time_that_is_left(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(render.time, "monotonic", lambda: clock[0])
    with render.seed_progress("seeds") as report:
        clock[0] = 1000.0
        report(5_000, 10_000)  # of an earlier run, and not counted
        clock[0] = 1050.0
        report(7_500, 10_000)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "seeds: 5,000 of 10,000 seeds"
    assert second == "seeds: 7,500 of 10,000 seeds, at most 50 s left"


def test_settings_beside_a_file_of_settings_are_refused(folder, exhume_command):
    (folder / "one.yaml").write_text("run: there\n")
    code, _, err = exhume_command("audit", "one.yaml", "--seed", 3)
    assert code == 2
    assert "seed beside a file of settings" in err
