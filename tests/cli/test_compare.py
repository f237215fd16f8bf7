"""`exhume compare`: one victim, several attacks, one table and one gallery."""

import json
import shutil
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from matplotlib import image

from exhume import attacks
from exhume.attacks import Attack
from exhume.attacks._base.problem import Proposal
from exhume.cli import attack as attack_command
from exhume.cli import compare as compare_command
from exhume.results.stop import Stop
from exhume.run_folder import RunFolder
from exhume.support import checkpoint
from exhume.support.files import read_tensors, write_tensors

SAMPLES = 4
BOTH = ("--methods", "exact,descent", "--option", "descent.max_steps=40")
QUICK = ("--methods", "guess,descent", "--option", "descent.max_steps=40")  # where the results do not matter


class Guess(Attack):
    """Proposes `rows` random rows."""

    name = "guess"
    rows = SAMPLES

    def run(self, problem, session):
        samples = torch.randn(self.rows, problem.features.input_dim, generator=session.generator)
        return Proposal(samples, Stop.STARTS_SPENT, signs_determined=False, norms_determined=False)


class Refusing(Attack):
    """Refuses every target."""

    name = "refusing"

    def run(self, problem, session):
        raise attacks.InputError("needs the initial weights")


@pytest.fixture
def digits_run(trained_run, tmp_path):
    """A run folder with a victim trained on four digits."""
    return shutil.copytree(trained_run("--data", "digits", "--samples", SAMPLES, "--ratio", 5), tmp_path / "run")


@pytest.fixture(scope="module")
def compared(trained_run, exhume_command, exhume_json, tmp_path_factory):
    """The run folder after both attacks on the digits, the exit code, what was printed as JSON, and as text."""
    made = trained_run("--data", "digits", "--samples", SAMPLES, "--ratio", 5)
    folder = shutil.copytree(made, tmp_path_factory.mktemp("compared") / "run")
    code, value = exhume_json("compare", folder, *BOTH)
    written = json.loads((folder / "compare.json").read_text())
    _, out, _ = exhume_command("compare", folder, *BOTH, "--resume")
    return folder, code, value, written, out


@pytest.fixture
def more_attacks(monkeypatch):
    for each in (Guess, Refusing):
        monkeypatch.setitem(attacks.ATTACKS, each.name, each)


def by_method(value):
    return {row["method"]: row for row in value["methods"]}


def test_every_attack_is_run_saved_and_scored(compared):
    folder, code, value, written, _ = compared
    assert code == 0
    rows = by_method(value)
    assert list(rows) == ["exact", "descent"]
    exact, descent = rows.values()
    assert (exact["verdict"], exact["recovered"], exact["num_samples"], exact["num_rows"]) == ("exact", 4, 4, 4)
    assert exact["error"] < 1e-5 < descent["error_up_to_sign"]
    assert (exact["ssim"], exact["good_pictures"]) == (pytest.approx(1), 4)
    assert (exact["equations"], exact["unknowns"]) == (1280, 256)
    assert (descent["stop"], descent["options"]["max_steps"]) == ("step_limit", 40)
    assert exact["knowledge"]["num_samples"] == 4
    assert value["gallery"] == "compare.png"
    assert {"folder": str(folder), **written} == value
    for method, row in rows.items():
        scored = json.loads((folder / method / "score.json").read_text())
        assert {key: scored[key] for key in ("error", "recovered", "passes", "verdict")} == {
            key: row[key] for key in ("error", "recovered", "passes", "verdict")
        }
        files = {entry.name for entry in (folder / method).iterdir()}
        assert files == {"result.json", "reconstruction.safetensors", "score.json", "gallery.png"}


def test_results_are_those_of_attack_and_score(small_run, exhume_command, exhume_json):
    exhume_command("attack", small_run, "--method", "exact", "--seed", 3)
    alone = read_tensors(small_run / "exact" / "reconstruction.safetensors")
    _, scored = exhume_json("score", small_run)
    _, value = exhume_json("compare", small_run, "--methods", "exact", "--seed", 3)
    together = read_tensors(small_run / "exact" / "reconstruction.safetensors")
    assert all(torch.equal(tensor, together[name]) for name, tensor in alone.items())
    assert by_method(value)["exact"]["error"] == scored["error"]


def test_the_table_has_a_line_for_each_attack(compared):
    folder, *_, out = compared
    lines = out.splitlines()
    for word in ("method", "error", "up to sign", "recovered", "SSIM", "above 0.4", "passes", "verdict", "unknowns"):
        assert word in lines[0]
    assert lines[2].startswith("exact  ")
    assert "4 of 4" in lines[2]
    assert lines[3].startswith("descent  ")
    assert len({len(line) for line in lines[:4]}) == 1
    assert "Known: num samples 4, label alphabet signs" in out
    assert lines[-1] == f"pictures: {folder / 'compare.png'}"


def test_the_gallery_shows_the_truth_and_a_row_for_each_attack(compared):
    picture = image.imread(compared[0] / "compare.png")[:, :, 0]
    thirds = np.array_split(picture[40:], 3)  # below the title
    assert all((third < 0.2).mean() > 0.1 for third in thirds)  # digits have black ground, the page is white
    assert (picture > 0.9).mean() > 0.1


def test_plain_vectors_have_a_table_and_no_gallery(small_run, exhume_json, exhume_command):
    code, value = exhume_json("compare", small_run, "--methods", "exact")
    assert (code, value["gallery"]) == (0, None)
    assert (value["methods"][0]["ssim"], value["methods"][0]["good_pictures"]) == (None, None)
    assert not (small_run / "compare.png").exists()
    _, out, _ = exhume_command("compare", small_run, "--methods", "exact", "--resume")
    assert "SSIM" not in out


def test_an_attack_that_refuses_is_listed_with_its_reason(digits_run, exhume_json, exhume_command, more_attacks):
    words = ("compare", digits_run, "--methods", "exact,refusing,descent", "--forget", "num_samples")
    code, value = exhume_json(*words, "--budget-passes", 100)
    assert code == 0
    rows = by_method(value)
    assert [row["ran"] for row in rows.values()] == [True, False, False]
    assert "needs the number of samples" in rows["descent"]["reason"]
    assert rows["refusing"]["reason"].startswith("refusing needs the number")
    code, out, _ = exhume_command("compare", digits_run, "--methods", "guess,refusing")
    assert (code, out.splitlines()[3]) == (0, "  refusing: not run: needs the initial weights")


def test_exit_code_is_1_if_no_attack_could_be_run(small_run, exhume_json, more_attacks):
    code, value = exhume_json("compare", small_run, "--methods", "refusing")
    assert (code, value["methods"][0]["reason"], value["gallery"]) == (1, "needs the initial weights", None)


def test_by_default_all_attacks_are_compared(small_run, exhume_json):
    words = ("--budget-passes", 5, *BOTH[2:])
    _, value = exhume_json("compare", small_run, *words)
    assert list(by_method(value)) == list(attacks.ATTACKS)


def test_the_truth_is_opened_after_the_last_attack(small_run, exhume_command, more_attacks, monkeypatch):
    events = []
    run, load = compare_command.run_attack, RunFolder.load_secret
    monkeypatch.setattr(compare_command, "run_attack", lambda *a, **k: (events.append("attack"), run(*a, **k))[1])
    monkeypatch.setattr(RunFolder, "load_secret", lambda self: (events.append("truth"), load(self))[1])
    exhume_command("compare", small_run, *QUICK)
    assert events == ["attack", "attack", "truth"]


def test_without_the_truth_verdicts_are_all_there_is(small_run, exhume_json):
    (small_run / "secret.safetensors").unlink()
    code, value = exhume_json("compare", small_run, "--methods", "exact")
    row = value["methods"][0]
    assert (code, row["verdict"], row["error"]) == (0, "exact", None)
    assert "the run folder does not hold the true data" in row["reason"]


def test_resume_keeps_results_of_the_same_settings_alone(small_run, exhume_json, monkeypatch):
    ran = []
    run = compare_command.run_attack
    monkeypatch.setattr(compare_command, "run_attack", lambda *a, **k: (ran.append(a[1].name), run(*a, **k))[1])

    def again(*words):
        ran.clear()
        _, value = exhume_json("compare", small_run, *words, "--resume")
        assert [row["method"] for row in value["methods"] if not row["reused"]] == ran
        return list(ran)

    assert again(*BOTH) == ["exact", "descent"]
    first = json.loads((small_run / "compare.json").read_text())["methods"]
    assert again(*BOTH) == []
    second = json.loads((small_run / "compare.json").read_text())["methods"]
    residuals = [[row.pop("orthogonal_residual") for row in rows] for rows in (first, second)]
    assert residuals[1] == pytest.approx(residuals[0], rel=1e-4)  # of float32 products, whose rounding may differ
    assert [{**row, "reused": False} for row in second] == first
    assert again(*BOTH, "--budget-passes", 10_000) == []  # both ended before that
    assert again(*BOTH, "--budget-passes", 20) == ["exact", "descent"]
    assert again(*BOTH, "--budget-passes", 20) == []
    assert again(*BOTH) == ["exact", "descent"]
    assert again(*BOTH[:2], "--option", "descent.max_steps=41") == ["descent"]
    assert again(*BOTH[:2], "--option", "descent.max_steps=41", "--seed", 1) == ["exact", "descent"]
    assert again("--methods", "exact", "--seed", 1, "--know", "norm=4.4721") == ["exact"]
    (small_run / "exact" / "result.json").write_text("{}")
    assert again("--methods", "exact", "--seed", 1, "--know", "norm=4.4721") == ["exact"]


def test_without_resume_everything_is_run_again(small_run, exhume_json, more_attacks):
    for _ in range(2):
        _, value = exhume_json("compare", small_run, *QUICK)
        assert not any(row["reused"] for row in value["methods"])


def test_an_interrupted_comparison_goes_on_from_its_checkpoint(
    small_run, exhume_command, exhume_json, more_attacks, monkeypatch
):
    exhume_command("compare", small_run, *QUICK)
    whole = read_tensors(small_run / "descent" / "reconstruction.safetensors")
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    attack_progress = attack_command.attack_progress

    @contextmanager
    def killing(label):
        def report(event):
            if label == "descent" and event.step > 20:
                raise KeyboardInterrupt

        yield report

    for name in ("guess", "descent"):
        (small_run / name / "result.json").unlink()
    monkeypatch.setattr(attack_command, "attack_progress", killing)
    assert exhume_command("compare", small_run, *QUICK)[0] != 0
    assert (small_run / "guess" / "result.json").exists()
    assert (small_run / "descent" / "checkpoint.safetensors").exists()
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 60.0)  # saving takes longer than the steps
    steps = []

    @contextmanager
    def counting(label):
        yield lambda event: steps.append((label, event.step))

    monkeypatch.setattr(attack_command, "attack_progress", counting)
    _, value = exhume_json("compare", small_run, *QUICK, "--resume")
    monkeypatch.setattr(attack_command, "attack_progress", attack_progress)
    assert [row["reused"] for row in value["methods"]] == [True, False]
    assert {label for label, _ in steps} == {"descent"}
    assert min(step for _, step in steps) > 1
    resumed = read_tensors(small_run / "descent" / "reconstruction.safetensors")
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in whole.items())


def test_a_checkpoint_of_other_settings_is_not_overwritten_by_resume(small_run, exhume_json, more_attacks):
    left = small_run / "descent" / "checkpoint.safetensors"
    write_tensors(left, {"samples": torch.ones(1)}, {"format": "2", "fingerprint": "another"})
    code, value = exhume_json("compare", small_run, *QUICK, "--resume")
    assert (code, [row["ran"] for row in value["methods"]]) == (0, [True, False])
    assert "belongs to another run" in value["methods"][1]["reason"]
    assert left.exists()


@pytest.mark.parametrize("rows", [2 * SAMPLES, SAMPLES - 1])
def test_more_or_fewer_rows_than_samples_are_scored_and_drawn(
    digits_run, exhume_json, exhume_command, more_attacks, monkeypatch, rows
):
    monkeypatch.setattr(Guess, "rows", rows)
    words = ("compare", digits_run, "--methods", "guess,exact", "--allow-underdetermined")
    code, value = exhume_json(*words)
    guess = by_method(value)["guess"]
    assert code == 0
    assert (guess["num_rows"], guess["num_samples"], guess["recovered"]) == (rows, SAMPLES, 0)
    assert guess["error"] > 0.5
    assert (digits_run / "compare.png").exists()
    assert (digits_run / "guess" / "gallery.png").exists()
    _, out, _ = exhume_command(*words, "--resume")
    assert f"guess: {rows} rows for 4 samples: {max(SAMPLES - rows, 0)} missing" in out


def test_known_samples_are_not_counted(digits_run, exhume_json, more_attacks, monkeypatch, tmp_path):
    np.save(tmp_path / "known.npy", RunFolder(digits_run).load_secret().inputs[[1]].numpy())
    monkeypatch.setattr(Guess, "rows", SAMPLES - 1)
    words = ("--methods", "guess", "--know", f"samples={tmp_path / 'known.npy'}")
    code, value = exhume_json("compare", digits_run, *words)
    row = value["methods"][0]
    assert code == 0
    assert (row["num_rows"], row["num_samples"], row["known_samples"]) == (3, 3, 1)
    assert json.loads((digits_run / "guess" / "score.json").read_text())["known"] == [1]
    assert value["knowledge"]["samples"]["shape"] == [1, 64]
    assert exhume_json("score", digits_run)[1]["num_samples"] == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--methods", "exact,oracle"), "unknown method 'oracle'; valid: "),
        (("--methods", ""), "unknown method ''; valid: "),
        (("--option", "max_steps=3"), "option 'max_steps' is not of the form method.name=value; methods: exact"),
        (("--option", "exact"), "option 'exact' is not of the form name=value"),
        (("--option", "oracle.steps=3"), "unknown method of an option 'oracle'; valid: "),
        (("--methods", "exact", "--option", "descent.max_steps=3"), "method of an option 'descent'; valid: exact"),
        (("--option", "descent.steps=3"), "descent has no option steps; valid: "),
        (("--option", "descent.max_steps=few"), "invalid options of descent: max_steps"),
        (("--know", "norm=-1"), "invalid Knowledge: norm"),
        (("--num-samples", "some"), "'some' is not a whole number"),
        (("--budget-passes", 0), "--budget-passes is 0.0; valid: a positive number"),
    ],
)
def test_bad_usage_ends_before_any_attack(small_run, exhume_command, words, message):
    code, out, err = exhume_command("compare", small_run, *words)
    assert (code, out) == (2, "")
    assert message.split("; valid: ")[0] in err
    assert {entry.name for entry in small_run.iterdir()} == {"victim.json", "victim.safetensors", "secret.safetensors"}
