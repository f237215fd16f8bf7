"""SARIF, JUnit and CSV say what the audit says, in the formats that other programs read."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
import yaml
from auditing_models import DIM, SAMPLES, probe

import exhume
from exhume.auditing import Audited
from exhume.auditing.evidence import Evidence, junit_xml, record_table, sarif_log
from exhume.auditing.evidence.record_table import COLUMNS
from exhume.errors import InputError
from official_schemas import official_schema

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how_to" / "evidence.md"


@pytest.fixture(scope="module")
def audits():
    """A recovered model with thresholds, the same without the truth, and one that could not be audited."""
    model, training = probe()
    settings = {"initial": "zero", "input_shape": (DIM,)}
    held_out = exhume.data.load("sphere", dim=DIM, samples=20, seed=5).inputs
    recovered = exhume.audit(
        model, **settings, truth=training.inputs, held_out=held_out, fail_on="recovered=1,error=0.0", name="probe"
    )
    blind = exhume.audit(model, **settings, num_samples=SAMPLES, name="blind & <odd>\x07")
    out = Path("audits")
    return [
        Audited("probe", out, recovered),
        Audited("blind & <odd>\x07", out, blind),
        Audited("broken", out, reason="none.pt does not exist"),
    ]


@pytest.fixture(scope="module")
def open_audit(audits):
    """A model of which nothing is decided: the attack had no budget."""
    model, _ = probe()
    found = exhume.audit(
        model,
        initial="zero",
        input_shape=(DIM,),
        num_samples=SAMPLES,
        budget_passes=1.0,
        fail_on="certain=1",
        name="open",
    )
    assert found.outcome.value == "inconclusive"
    return Audited("open", Path("audits"), found)


def test_the_log_follows_the_schema_of_sarif_2_1_0(audits, open_audit):
    schema = official_schema("sarif-2.1.0")
    assert schema["$id"].endswith("sarif-schema-2.1.0.json")
    log = json.loads(json.dumps(sarif_log([*audits, open_audit]), allow_nan=False))
    jsonschema.validate(log, schema)
    with pytest.raises(jsonschema.ValidationError):  # the schema is not an empty one
        jsonschema.validate(log | {"version": "2.0.0"}, schema)


def test_findings_thresholds_and_models_that_could_not_be_audited_are_in_the_log(audits, open_audit):
    (run,) = sarif_log([*audits, open_audit])["runs"]
    results = [(each["ruleId"], each["level"]) for each in run["results"]]
    assert results == [("EXH001", "error"), ("EXH010", "error"), ("EXH001", "error"), ("EXH003", "warning")]
    assert "probe: recovered=1 was reached." in run["results"][1]["message"]["text"]
    for each in run["results"]:
        assert run["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"]
        assert each["kind"] == "fail"
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 2)
    assert "none.pt does not exist" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    prints = [each["partialFingerprints"]["exhumeFinding/v1"] for each in run["results"]]
    assert prints[0] != prints[1]


def test_a_location_below_the_folder_of_the_run_is_relative(audits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    audit = audits[0].audit

    def location(weights):
        changed = replace(audit, settings=audit.settings.model_copy(update={"weights": weights}))
        log = sarif_log([replace(audits[0], audit=changed)])
        return log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]

    assert location(Path("models/a.safetensors")) == "models/a.safetensors"
    assert location(tmp_path / "b c.pt") == "b%20c.pt"
    assert location(tmp_path.parent / "elsewhere.pt").startswith("file:///")


def test_junit_counts_failures_and_errors_and_never_passes_what_was_not_tested(audits, open_audit):
    root = ElementTree.fromstring(junit_xml([*audits, open_audit]))
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "7",
        "failures": "2",
        "errors": "2",
        "skipped": "0",
    }
    cases = {(each.get("classname"), each.get("name")): each for each in root.iter("testcase")}
    assert cases["exhume.probe", "recovered=1"].find("failure").get("message") == "recovered=1 reached"
    assert cases["exhume.probe", "error=0"].find("failure") is None
    assert cases["exhume.probe", "outcome"].find("failure") is None  # the thresholds say what is too much
    assert cases["exhume.blind & <odd> ", "outcome"].find("failure").get("message") == "recovered"
    assert cases["exhume.broken", "audit"].find("error").text == "none.pt does not exist"
    assert cases["exhume.open", "outcome"].find("error").get("message") == "inconclusive"
    audit = open_audit.audit
    allowed = replace(audit, settings=audit.settings.model_copy(update={"allow_inconclusive": True}))
    suite = ElementTree.fromstring(junit_xml([replace(open_audit, audit=allowed)]))
    assert suite.get("skipped") == "1"


def test_each_recovered_sample_has_a_row_with_its_bar_match_and_p_value(audits):
    rows = list(csv.DictReader(io.StringIO(record_table(audits))))
    assert tuple(rows[0]) == COLUMNS
    assert [row["model"] for row in rows] == ["probe"] * SAMPLES + ["blind & <odd>\x07"] * SAMPLES
    scored, blind = rows[:SAMPLES], rows[SAMPLES:]
    audit = audits[0].audit
    assert {row["certified"] for row in rows} == {"yes"}
    assert sorted(int(row["matched_index"]) for row in scored) == list(range(SAMPLES))
    for row in scored:
        match = next(each for each in audit.score.matches if each.row == int(row["row"]))
        assert int(row["matched_index"]) == match.truth_index
        assert float(row["error"]) == pytest.approx(match.error, rel=1e-5)
        assert row["recovered"] == "yes"
        assert float(row["p_value"]) == pytest.approx(int(row["rank"]) / int(row["rank_of"]), rel=1e-5)
        assert row["rank_of"] == "21"
    bars = audit.result.certificate.predicted_errors
    assert [float(row["error_bar"]) for row in scored] == pytest.approx(list(bars), rel=1e-5)
    assert {(row["matched_index"], row["error"], row["p_value"]) for row in blind} == {("", "", "")}


def test_files_that_cannot_be_written_are_refused_beforehand(tmp_path):
    with pytest.raises(InputError, match="is a folder or lies in none"):
        Evidence(sarif=tmp_path).check()
    with pytest.raises(InputError, match="is a folder or lies in none"):
        Evidence(junit=tmp_path / "none" / "a.xml").check()
    with pytest.raises(InputError, match="name the same file"):
        Evidence(sarif=tmp_path / "a", records=tmp_path / "a").check()


def test_the_example_for_github_actions_follows_the_schema_of_workflows_and_uses_options_that_exist():
    blocks = PAGE.read_text(encoding="utf-8").split("```yaml\n")[1:]
    (text,) = [block.partition("```")[0] for block in blocks if "runs-on" in block]
    workflow = yaml.safe_load(text)
    workflow["on"] = workflow.pop(True)  # YAML 1.1 reads the key `on` as a truth value
    jsonschema.validate(workflow, official_schema("github-workflow"))
    (command,) = [step["run"] for step in workflow["jobs"]["audit"]["steps"] if "exhume audit" in step.get("run", "")]
    from exhume.cli import load_command

    known = {option for each in load_command("audit").params for option in each.opts}
    used = {word for word in command.split() if word.startswith("--")}
    assert used
    assert used <= known
