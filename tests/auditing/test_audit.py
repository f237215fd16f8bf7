"""One audit: forecast, attack, certificate, score and page, from memory and from files."""

import copy
import json
import stat
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from auditing_models import DIM, SAMPLES, WIDTH, probe, write_probe
from torch import nn

import exhume
from exhume import data
from exhume.auditing import folder
from exhume.errors import ExhumeError, FileError, InputError
from exhume.report import Level
from exhume.scoring.outcome import Outcome

QUICK = {"method": "descent", "budget_passes": 20.0}  # an attack for tests that do not look at its result


@pytest.fixture(scope="module")
def model_and_data():
    return probe()


@pytest.fixture(scope="module")
def audited(model_and_data, tmp_path_factory):
    model, training = model_and_data
    out = tmp_path_factory.mktemp("audits") / "audit"
    return exhume.audit(
        model,
        initial="zero",
        input_shape=(DIM,),
        truth=training.inputs,
        labels=training.labels,
        fail_on="recovered=1",
        name="a probe",
        out=out,
    )


def test_a_model_that_carries_its_training_set_is_found_out(audited):
    assert audited.report.verdict.level is Level.LEAK
    assert audited.result.certificate.verdict == "exact"
    assert audited.score.recovered == SAMPLES
    assert audited.forecast.verdict == "reconstructible"
    assert audited.measured["recovered"] == audited.measured["certain"] == SAMPLES
    assert not audited.passed
    assert [str(each) for each in audited.exceeded] == ["recovered=1"]
    assert "reached recovered=1" in audited.summary()


def test_the_folder_is_readable_by_its_owner_alone_and_holds_the_page(audited):
    for path in (audited.folder, *audited.folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    page = (audited.folder / folder.PAGE).read_text()
    assert audited.report.verdict.headline in page
    assert "a probe" in page


def test_an_audit_comes_back_from_its_folder(audited):
    again = folder.load(audited.folder)
    assert again.to_json() == audited.to_json()
    assert torch.equal(again.result.samples, audited.result.samples)
    assert folder.report_of(audited.folder) == audited.report
    assert folder.report_of(audited.folder, redact=True).redacted


def test_the_result_does_not_depend_on_the_truth(audited, model_and_data):
    model, training = model_and_data
    other = exhume.audit(
        model, initial="zero", input_shape=(DIM,), truth=training.inputs + 1, labels=-training.labels, name="a probe"
    )
    assert torch.equal(other.result.samples, audited.result.samples)
    assert other.score.recovered == 0
    without = exhume.audit(model, initial="zero", input_shape=(DIM,), num_samples=SAMPLES)
    assert torch.equal(without.result.samples, audited.result.samples)
    assert without.score is None
    assert without.measured["recovered"] is None


def test_files_give_what_memory_gives(audited, tmp_path):
    write_probe(tmp_path)
    other = exhume.audit(
        f"{tmp_path / 'mymodel.py'}:build",
        weights=tmp_path / "after.safetensors",
        initial="zero",
        input_shape=(DIM,),
        truth=tmp_path / "x.npy",
    )
    assert torch.equal(other.result.samples, audited.result.samples)


def test_a_target_can_be_audited(audited, model_and_data):
    model, training = model_and_data
    known = exhume.Knowledge(num_samples=SAMPLES)
    target = exhume.Target.last_layer(model, initial_head="zero", input_shape=(DIM,), knowledge=known)
    assert torch.equal(exhume.audit(target, truth=training).result.samples, audited.result.samples)


def test_too_few_equations_in_all_layers_are_no_error_but_a_verdict(model_and_data):
    model = copy.deepcopy(model_and_data[0])
    model[1].requires_grad_(True)  # only the head was trained
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    before["1.weight"].zero_()
    settings = {"initial": before, "input_shape": (DIM,), "truth": torch.randn(WIDTH, DIM), "fail_on": "certain=1"}
    found = exhume.audit(model, **settings)
    assert found.result is None
    assert found.outcome is Outcome.NOT_RECOVERABLE
    assert found.report.verdict.level is Level.OUT_OF_REACH
    assert found.measured["certain"] == 0
    assert found.passed
    assert f"{WIDTH} equations cannot determine" in found.reason


def test_too_few_equations_for_a_number_of_samples_that_was_only_stated_are_no_pass(model_and_data):
    model = copy.deepcopy(model_and_data[0])
    model[1].requires_grad_(True)
    found = exhume.audit(model, initial="zero", input_shape=(DIM,), num_samples=WIDTH, fail_on="certain=1")
    assert (found.outcome, found.exit_code) == (Outcome.INCONCLUSIVE, 3)
    assert f"the number of samples, {WIDTH} (give the training data)" in found.report.verdict.sentences[0]
    assert "layers marked as frozen whose initial weights were not given" in found.report.verdict.sentences[0]


def test_too_few_equations_in_the_head_are_no_pass_if_other_layers_moved(model_and_data):
    found = exhume.audit(
        model_and_data[0].requires_grad_(False),  # nothing tells which layers were trained: all are counted
        initial="zero",
        input_shape=(DIM,),
        num_samples=WIDTH - 50,
        fail_on="certain=1",
    )
    assert found.result is None
    assert found.outcome is Outcome.INCONCLUSIVE
    assert (found.exit_code, found.passed) == (3, False)
    assert found.report.verdict.level is Level.INCONCLUSIVE


def test_a_failed_search_for_data_that_are_in_the_weights_is_no_pass(model_and_data):
    model, training = model_and_data
    settings = {"initial": "zero", "input_shape": (DIM,)} | QUICK
    held_out = data.load("sphere", dim=DIM, samples=40, seed=5).inputs
    known = exhume.audit(model, truth=training.inputs, held_out=held_out, fail_on="recovered=1", **settings)
    assert known.outcome is Outcome.NOT_RECOVERED
    assert known.exit_code == 3
    assert known.premise.best.truth < 1e-4 < 0.5 < known.premise.best.others
    assert "the truth leaves" in known.summary()
    assert known.to_json()["premise"]["holds"] is True
    unknown = exhume.audit(model, num_samples=SAMPLES, fail_on="certain=1", **settings)
    assert unknown.outcome is Outcome.INCONCLUSIVE
    assert unknown.exit_code == 3
    allowed = exhume.audit(model, num_samples=SAMPLES, allow_inconclusive=True, **settings)
    assert (allowed.exit_code, allowed.passed) == (0, True)


def test_true_samples_are_shown_only_if_something_came_back_or_they_are_asked_for(model_and_data):
    model, training = model_and_data
    settings = {"initial": "zero", "input_shape": (DIM,)} | QUICK
    settings |= {"columns": tuple(f"column {place}" for place in range(DIM)), "truth": training.inputs}
    hidden = exhume.audit(model, **settings).report
    shown = exhume.audit(model, show_truth=True, **settings).report
    assert hidden.samples_folded
    assert not any(sample.true_record for sample in hidden.samples)
    assert "--show-truth" in hidden.samples_note
    assert all(sample.true_record for sample in shown.samples)


def test_a_reference_pool_is_a_baseline_without_the_truth_in_it(model_and_data, audited):
    model, training = model_and_data
    pool = data.load("sphere", dim=DIM, samples=120, seed=5).inputs
    found = exhume.audit(
        model,
        initial="zero",
        input_shape=(DIM,),
        truth=training.inputs,
        reference=torch.cat([training.inputs, pool]),
    )
    assert audited.score.baseline.p_value is None
    assert found.score.baseline.non_members == len(pool)
    assert found.score.baseline.ranks == (1,) * SAMPLES
    assert found.score.baseline.true_positive_rate == 1
    assert {"p-value", "Members found"} <= {fact.name for fact in found.report.facts}
    assert found.report.samples[0].rank == "1 of 121"


def test_a_threshold_that_needs_the_truth_is_refused_without_it(model_and_data, tmp_path):
    model, _ = model_and_data
    with pytest.raises(InputError, match="recovered=1 needs the truth"):
        exhume.audit(
            model, initial="zero", input_shape=(DIM,), num_samples=3, fail_on="recovered=1", out=tmp_path / "a"
        )
    assert not (tmp_path / "a").exists()


class Refuses(nn.Module):
    """A model whose forward pass raises."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(DIM, 2)

    def forward(self, x):
        raise RuntimeError("no forward today")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"input_shape": (DIM + 1,)}, "cannot be|forward|shape"),
        ({"input_shape": ()}, "input_shape is not given"),
        ({"input_shape": (DIM,), "head": "fc"}, "no head 'fc'; there are: 0.0"),
        ({"input_shape": (DIM,), "truth": np.ones((2, 3))}, "samples of 3 numbers"),
        ({"input_shape": (DIM,), "initial": {"1.weight": torch.full((1, WIDTH), torch.nan)}}, "NaN or infinite"),
        ({"input_shape": (DIM,), "num_samples": 3, "know": {"colour": 1}}, "unknown knowledge 'colour'"),
    ],
)
def test_bad_input_is_a_clear_error_and_leaves_nothing(model_and_data, tmp_path, settings, message):
    model, _ = model_and_data
    with pytest.raises(ExhumeError, match=message):
        exhume.audit(model, **({"initial": "zero"} | settings), out=tmp_path / "audit")
    assert list(tmp_path.iterdir()) == []


def test_a_model_whose_forward_raises_is_a_clear_error(tmp_path):
    with pytest.raises(InputError, match="no forward today"):
        exhume.audit(Refuses().eval(), input_shape=(DIM,), num_samples=3, out=tmp_path / "audit")
    assert list(tmp_path.iterdir()) == []


def test_weights_with_nan_are_a_clear_error(model_and_data, tmp_path):
    model, _ = model_and_data
    broken = nn.Sequential(model[0], nn.Linear(WIDTH, 1, bias=False)).eval()
    broken[1].weight.data[0, 0] = torch.nan
    with pytest.raises(InputError, match="NaN"):
        exhume.audit(broken, initial="zero", input_shape=(DIM,), num_samples=3, out=tmp_path / "audit")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_something_else_is_refused_and_untouched(model_and_data, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    model, _ = model_and_data
    with pytest.raises(InputError, match="holds other files than audit.json"):
        exhume.audit(model, initial="zero", input_shape=(DIM,), num_samples=3, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_audit_is_replaced_whole_and_other_files_stay(audited, model_and_data, tmp_path):
    model, _ = model_and_data
    out = tmp_path / "audit"
    again = {"initial": "zero", "input_shape": (DIM,), "num_samples": SAMPLES, "out": out} | QUICK
    exhume.audit(model, **again, name="first")
    (out / "notes.txt").write_text("mine")
    exhume.audit(model, **again, name="second")
    assert json.loads((out / folder.RECORD).read_text())["name"] == "second"
    assert (out / "notes.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["audit"]


def test_a_full_disk_leaves_the_earlier_audit(audited, model_and_data, tmp_path, monkeypatch):
    model, _ = model_and_data
    out = tmp_path / "audit"
    settings = {"initial": "zero", "input_shape": (DIM,), "num_samples": SAMPLES, "out": out} | QUICK
    exhume.audit(model, **settings)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("exhume.auditing.folder._write", full)
    with pytest.raises(FileError, match="No space left"):
        exhume.audit(model, **settings, seed=5)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["audit"]


def test_a_record_that_is_not_whole_is_refused(audited, tmp_path):
    (tmp_path / folder.RECORD).write_text(json.dumps({"name": "x"}))
    with pytest.raises(FileError, match="does not hold a whole audit"):
        folder.load(tmp_path)


def test_an_audit_shows_itself_in_a_notebook(audited):
    shown = audited._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<script" not in shown  # escaped inside the frame's document


def test_a_killed_audit_goes_on_to_the_same_answer(audited, model_and_data, tmp_path, monkeypatch):
    model, _ = model_and_data
    monkeypatch.setattr("exhume.support.checkpoint.EVERY_SECONDS", 0.0)
    settings = {"initial": "zero", "input_shape": (DIM,), "num_samples": SAMPLES, "out": tmp_path / "audit"}

    @contextmanager
    def killed(_):
        def stop(event):
            if event.step >= 5:
                raise KeyboardInterrupt

        yield stop

    seen = []

    @contextmanager
    def watched(_):
        yield lambda event: seen.append(event.step)

    with pytest.raises(KeyboardInterrupt):
        exhume.audit(model, **settings, progress_of=killed)
    assert list(folder.workplace(tmp_path / "audit").glob("exact-*.safetensors"))
    monkeypatch.setattr("exhume.support.checkpoint.EVERY_SECONDS", 60.0)  # saving takes longer than the steps
    again = exhume.audit(model, **settings, progress_of=watched)
    assert seen[0] >= 4
    assert torch.equal(again.result.samples, audited.result.samples)
    assert [path.name for path in tmp_path.iterdir()] == ["audit"]


def test_data_that_were_held_out_may_stand_beside_a_run_folder(exhume_command, tmp_path):
    exhume_command(
        "train", "rf", "--data", "sphere", "--dim", DIM, "--samples", 3, "--features", 300, "--out", tmp_path / "run"
    )
    others = data.load("sphere", dim=DIM, samples=7, seed=9)
    np.save(tmp_path / "x.npy", others.inputs.numpy())
    np.save(tmp_path / "y.npy", others.labels.numpy())
    found = exhume.audit(
        tmp_path / "run",
        held_out=tmp_path / "x.npy",
        held_out_labels=tmp_path / "y.npy",
        defences=["rounding"],
        budget_passes=3000,
    )
    assert found.score.recovered == 3
    assert all(each.utility.held_out_error > 0 for each in found.defences)


def test_a_threshold_that_could_not_be_measured_is_not_passed(model_and_data):
    model, training = model_and_data
    settings = {"initial": "zero", "input_shape": (DIM,), "truth": training.inputs}
    refused = exhume.audit(model, **settings, method="subspace", fail_on=["recovered=1", "verdict=approximate"])
    assert refused.result is None
    assert [str(each) for each in refused.unmeasured] == ["recovered=1", "verdict=approximate"]
    assert not refused.passed
    assert "NOT MEASURED: recovered=1" in refused.summary()
    settings["truth"] = torch.randn(SAMPLES, DIM, generator=torch.Generator().manual_seed(5))
    contradicted = exhume.audit(model, **settings, fail_on=["recovered=1", "certain=99"])
    assert contradicted.result.certificate.verdict == "exact"
    assert [str(each) for each in contradicted.unmeasured] == ["recovered=1"]
    assert not contradicted.passed


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": "w.safetensors"}, "weights cannot be set for a module in memory"),
        ({"truth": np.zeros((2, DIM))}, "row of zeros"),
        ({"truth": np.ones((0, DIM))}, "inputs .* at least one sample"),
        ({"held_out": np.ones((0, DIM))}, "non_members .* at least one sample"),
        ({"columns": "age,bmi"}, "2 columns do not name the 12 numbers"),
        ({"truth": np.ones((2, DIM)), "labels": np.array([1, np.nan])}, "in labels are NaN"),
        ({"budget_seconds": float("inf")}, "budget_seconds"),
        ({"memory_budget": "much"}, "memory_budget"),
    ],
)
def test_what_would_spoil_the_audit_is_found_before_the_attack(model_and_data, monkeypatch, settings, message):
    model, _ = model_and_data
    monkeypatch.setattr("exhume.auditing.run.attempt", lambda *_: pytest.fail("the attack was begun"))
    with pytest.raises(InputError, match=message):
        exhume.audit(model, **({"initial": "zero", "input_shape": (DIM,), "num_samples": 3} | settings))


def test_settings_of_modules_mean_nothing_for_a_target_or_a_run_folder(model_and_data, tmp_path):
    model, _ = model_and_data
    target = exhume.Target.last_layer(model, initial_head="zero", input_shape=(DIM,))
    with pytest.raises(InputError, match="head, input_shape cannot be set for a target"):
        exhume.audit(target, head="fc", input_shape=(DIM,))
    with pytest.raises(InputError, match="holds its own initial weights"):
        exhume.audit(target, initial="zero")
    with pytest.raises(InputError, match="initial cannot be set for a run folder"):
        exhume.audit(tmp_path, initial="zero")


def test_names_of_classes_are_as_many_as_outputs(model_and_data):
    model, _ = model_and_data
    with pytest.raises(InputError, match="3 classes for 1 outputs; valid: 2 names"):
        exhume.audit(model, initial="zero", input_shape=(DIM,), num_samples=3, classes="a,b,c")


def test_a_model_that_does_not_fit_the_truth_is_said_not_to(model_and_data):
    model, training = model_and_data
    wrong = -torch.sign(model(training.inputs)[:, 0])
    found = exhume.audit(model, initial="zero", input_shape=(DIM,), truth=training.inputs, labels=wrong, **QUICK)
    assert any("errs on 100% of the truth" in note for note in found.report.notes)


def test_a_module_in_training_mode_is_refused_and_not_altered():
    module = nn.Sequential(nn.Linear(DIM, 30), nn.BatchNorm1d(30), nn.Linear(30, 1))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    with pytest.raises(InputError, match="in training mode"):
        exhume.audit(module, input_shape=(DIM,), num_samples=2)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_an_audit_through_a_link_replaces_what_the_link_leads_to(model_and_data, tmp_path):
    model, _ = model_and_data
    settings = {"initial": "zero", "input_shape": (DIM,), "num_samples": SAMPLES} | QUICK
    exhume.audit(model, **settings, out=tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "mine.txt").write_text("mine")
    exhume.audit(model, **settings, out=tmp_path / "link", name="second")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]
    assert (tmp_path / "real" / "mine.txt").exists()
    assert json.loads((tmp_path / "real" / folder.RECORD).read_text())["name"] == "second"


def test_time_for_defences_is_limited_too(model_and_data):
    model, training = model_and_data
    found = exhume.audit(
        model, initial="zero", input_shape=(DIM,), truth=training, defences="noise", budget_seconds=0.001, num_samples=3
    )
    assert {each.reason for each in found.defences[1:]} == {"the time was spent before"}
