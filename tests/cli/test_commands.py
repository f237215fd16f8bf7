"""Output, files and exit codes of the commands."""

import json
import shutil

import numpy as np
import pytest

from exhume import cli


def test_train_attack_score(small_run, exhume_json):
    assert {entry.name for entry in small_run.iterdir()} == {"victim.json", "victim.safetensors", "secret.safetensors"}
    code, attacked = exhume_json("attack", small_run, "--method", "descent")
    assert (code, attacked["stop"]) == (0, "converged")
    assert {entry.name for entry in (small_run / "descent").iterdir()} == {"result.json", "reconstruction.safetensors"}
    code, scored = exhume_json("score", small_run)
    assert code == 0
    assert scored["method"] == "descent"
    assert scored["error_up_to_sign"] < 0.02
    assert scored["recovered_up_to_sign"] == 2
    assert scored["baseline_random"] > 0.7
    assert json.loads((small_run / "descent" / "score.json").read_text()) == scored


def test_default_attack_is_exact_and_can_count_the_samples(small_run, exhume_json):
    code, attacked = exhume_json("attack", small_run, "--num-samples", "auto")
    assert (code, attacked["method"], attacked["num_samples"]) == (0, "exact", 2)
    assert attacked["certificate"]["verdict"] == "exact"
    assert attacked["evidence"]["residuals"][-1][0] == 1
    code, scored = exhume_json("score", small_run)
    assert scored["error"] < 1e-5
    assert scored["recovered"] == 2


def test_attack_that_does_not_converge_exits_with_1_and_says_why(small_run, exhume_command):
    code, out, _ = exhume_command("attack", small_run, "--method", "descent", "--option", "max-steps=3")
    assert code == 1
    assert "step limit" in out


def test_secret_is_readable_by_its_owner_alone(small_run):
    assert (small_run / "secret.safetensors").stat().st_mode & 0o077 == 0


def test_score_draws_a_gallery_for_pictures(trained_run, exhume_command, tmp_path):
    folder = shutil.copytree(trained_run("--data", "digits", "--samples", 4, "--ratio", 5), tmp_path / "digits")
    exhume_command("attack", folder, "--method", "descent", "--budget-passes", 10)
    code, out, err = exhume_command("score", folder)
    assert code == 0, err
    assert (folder / "descent" / "gallery.png").read_bytes().startswith(b"\x89PNG")
    assert "gallery.png" in out


def test_law_understands_exponents(exhume_json):
    code, value = exhume_json("law", "--parameters", "3e6", "--dim", 3072, "--samples", 100)
    assert code == 0
    assert value["equations"] == 3_000_000
    assert value["verdict"] == "reconstructible"


def test_data_lists_every_data_set(exhume_json, monkeypatch, tmp_path):
    monkeypatch.setenv("EXHUME_DATA", str(tmp_path))
    _, value = exhume_json("data")
    found = {entry["name"]: entry["found"] for entry in value["data"]}
    assert found["digits"]
    assert not found["cifar10"]
    assert value["home"] == str(tmp_path)


def test_arrays_and_every_loss_can_be_trained_on(exhume_json, tmp_path):
    np.savez(tmp_path / "own.npz", x=np.random.default_rng(0).normal(size=(4, 6)), y=np.array([1.0, -1, 1, -1]))
    for loss in ("square", "logistic"):
        code, value = exhume_json(
            *("train", "rf", "--data", "arrays", "--data-option", f"path={tmp_path / 'own.npz'}"),
            *("--features", 100, "--loss", loss, "--max-steps", 1000, "--out", tmp_path / loss),
        )
        assert code == 0
        assert (value["num_samples"], value["input_dim"], value["num_features"]) == (4, 6, 100)


def test_every_command_has_help_with_an_example(exhume_command):
    parts = {name: getattr(cli.load_command(name), "commands", {}) for name in cli.COMMANDS}
    assert {"rf", "vit"} <= parts["train"].keys()
    for words in [(name, *part) for name in parts for part in [(each,) for each in parts[name]] or [()]]:
        code, out, _ = exhume_command(*words, "--help")
        assert code == 0
        assert f"Example: exhume {' '.join(words)}" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "rf", "--data", "mnist", "--ratio", 2, "--out", "x"), "unknown data set 'mnist'; valid: arrays"),
        (
            ("train", "rf", "--activation", "swish", "--ratio", 2, "--out", "x"),
            "unknown activation 'swish'; valid: abs",
        ),
        (("train", "rf", "--out", "x"), "--features P or --ratio R"),
        (("train", "rf", "--data-option", "shape", "--ratio", 2, "--out", "x"), "'shape' is not of the form"),
        (("attack", "nowhere"), "nowhere is not a run folder"),
        (("score", "nowhere"), "nowhere is not a run folder"),
        (("data", "--fetch", "imagenet"), "unknown data set to fetch 'imagenet'; valid: cifar10"),
        (("train", "rf", "--ratio", "nan", "--out", "x"), "the ratio p / (d n) is nan; valid: a positive number"),
        (("train", "rf", "--ratio", 2, "--device", "abacus", "--out", "x"), "device 'abacus' cannot be used here"),
        (("law", "--parameters", "many", "--dim", 1, "--samples", 1), "'many' is not a whole number"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(exhume_command, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = exhume_command(*words)
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_unknown_method_lists_the_valid_ones(small_run, exhume_command):
    code, _, err = exhume_command("attack", small_run, "--method", "oracle")
    assert code == 2
    assert "unknown method 'oracle'; valid: " in err


def test_score_before_any_attack_says_what_to_run(small_run, exhume_command):
    code, _, err = exhume_command("score", small_run)
    assert code == 2
    assert f"exhume attack {small_run}" in err


def test_damaged_weights_are_refused_and_nothing_is_written(small_run, exhume_command):
    weights = small_run / "victim.safetensors"
    for damage in (weights.read_bytes()[:100], b"\x80\x04K\x01."):
        weights.write_bytes(damage)
        code, _, err = exhume_command("attack", small_run)
        assert code == 2
        assert "victim.safetensors" in err
    assert not (small_run / "exact").exists()


def test_score_refuses_a_result_for_other_weights(attacked_run, exhume_command):
    exhume_command("train", "rf", "--dim", 20, "--samples", 2, "--ratio", 60, "--seed", 5, "--out", attacked_run)
    code, _, err = exhume_command("score", attacked_run)
    assert code == 2
    assert "other weights" in err


def test_norms_are_not_read_off_a_model_that_does_not_interpolate(exhume_command, exhume_json, tmp_path):
    folder = tmp_path / "logistic"
    words = ("--data", "digits", "--samples", 4, "--ratio", 5, "--loss", "logistic", "--max-steps", 500)
    exhume_command("train", "rf", *words, "--out", folder)
    exhume_command("attack", folder)
    _, scored = exhume_json("score", folder)
    assert scored["compared"] == "directions"
    assert scored["recovered"] == 4


def test_unwritable_folder_is_a_clear_error(exhume_command, tmp_path):
    (tmp_path / "file").write_text("in the way")
    code, _, err = exhume_command("train", "rf", "--ratio", 1, "--out", tmp_path / "file" / "run")
    assert code == 2
    assert "cannot" in err
