"""`exhume train two-layer | mlp | conv | resnet | vit`: output, files and exit codes."""

import json

import pytest

from exhume.run_folder import RunFolder
from exhume.support import checkpoint
from exhume.support.files import read_tensors
from exhume.training import gradient_descent as descent

PUBLIC_AND_SECRET = {"victim.json", "victim.safetensors", "initial.safetensors", "secret.safetensors"}
# One row a network: options that make it small, and what the report says of it.
SMALL = {
    "two-layer": ((), {"width": 256, "num_outputs": 10, "num_samples": 10, "num_features": 256}),
    "mlp": (("--width", 300), {"width": [300, 300], "num_outputs": 1, "num_samples": 4, "num_features": 300}),
    "resnet": (("--option", "blocks=1"), {"width": 20, "num_outputs": 1, "num_samples": 4, "num_features": 980}),
    "vit": (
        ("--samples", 3, "--width", 80, "--option", "depth=1", "--option", "token_std=0.2"),
        {"width": 80, "num_outputs": 10, "num_samples": 3, "num_features": 80},
    ),
}


@pytest.mark.parametrize("name", sorted(SMALL))
def test_defaults_train_in_seconds_without_downloads_and_write_a_run(exhume_json, tmp_path, name):
    words, expected = SMALL[name]
    code, value = exhume_json("train", name, *words, "--out", tmp_path / "run")
    assert code == 0
    assert {key: value[key] for key in expected} == expected
    assert value["network"] == name
    assert value["input_dim"] == 64
    assert value["ratio"] == pytest.approx(value["num_features"] * value["num_outputs"] / 64 / value["num_samples"])
    assert value["converged"]
    assert value["training_loss"] < 1e-7
    assert 0 < value["drift"] < 1
    assert value["step_size"] > 1e-5
    assert "instead of 1e-05" in value["note"]
    assert value["verdict"] in ("grey zone", "reconstructible")
    folder = RunFolder(tmp_path / "run")
    assert {entry.name for entry in folder.path.iterdir()} == PUBLIC_AND_SECRET
    target = folder.load_target()
    assert target.num_parameters == value["num_features"] * value["num_outputs"]
    assert target.input_shape == (1, 8, 8)
    assert target.knowledge.num_samples == value["num_samples"]
    assert target.knowledge.label_alphabet == ("one-hot" if value["num_outputs"] == 10 else "signs")
    secret = folder.load_secret()
    assert secret.inputs.shape == (value["num_samples"], 64)
    public = (folder.path / "victim.json").read_text()
    assert "drift" not in public
    assert "loss" not in json.loads(public)


def test_report_for_people_names_width_ratio_steps_loss_drift_and_verdict(exhume_command, tmp_path):
    code, out, _ = exhume_command("train", "two-layer", "--width", 192, "--samples", 3, "--out", tmp_path / "run")
    assert code == 0
    for words in ("two-layer of width 192", "p_L = 10 d n", "square loss", "steps", "features moved by", "3 samples"):
        assert words in out
    assert "Grey zone" in out or "Reconstructible" in out


def test_alphabet_is_known_only_of_a_network_that_interpolates(exhume_json, tmp_path):
    words = ("--samples", 3, "--width", 40, "--max-steps", 300)
    for name, more in {
        "short": ("--step-size", 1e-4, "--max-steps", 20),
        "cross-entropy": ("--loss", "cross-entropy"),
        "decayed": ("--weight-decay", 0.1),
    }.items():
        code, value = exhume_json("train", "two-layer", *words, *more, "--out", tmp_path / name)
        assert code == 0
        assert RunFolder(tmp_path / name).load_target().knowledge.label_alphabet is None
        if name == "short":
            assert (value["converged"], value["steps"], value["step_size"], value["note"]) == (False, 20, 1e-4, "")


def test_progress_is_shown_on_standard_error_alone(exhume_command, tmp_path, monkeypatch):
    monkeypatch.setattr("exhume.cli.render._PLAIN_EVERY", 0.0)
    words = ("--samples", 3, "--width", 40, "--step-size", 1e-4, "--max-steps", 20)
    _, out, err = exhume_command("train", "two-layer", *words, "--out", tmp_path / "run", "--json")
    assert err.splitlines()[-1].startswith("two-layer: step 20 of at most 20, loss ")
    assert json.loads(out)["steps"] == 20


def test_paper_s_step_is_taken_if_asked_for(exhume_json, tmp_path):
    words = ("--samples", 3, "--width", 40, "--no-stable", "--max-steps", 30)
    _, value = exhume_json("train", "two-layer", *words, "--out", tmp_path / "run")
    assert value["step_size"] == 1e-5
    assert value["steps"] == 30


def test_interrupted_training_resumes_to_the_same_run(exhume_command, exhume_json, tmp_path, monkeypatch):
    words = ("train", "resnet", "--width", 6, "--step-size", 1e-3, "--max-steps", 40, "--seed", 2)
    exhume_json(*words, "--out", tmp_path / "whole")
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    follow = descent.follow

    def killed(trajectory, plan, place, saved, progress):
        def die(step, total, loss):
            if step == 25:
                raise KeyboardInterrupt

        return follow(trajectory, plan, place, saved, die)

    monkeypatch.setattr(descent, "follow", killed)
    assert exhume_command(*words, "--out", tmp_path / "cut")[0] != 0
    monkeypatch.setattr(descent, "follow", follow)
    assert {entry.name for entry in (tmp_path / "cut").iterdir()} == {"training.safetensors"}
    code, value = exhume_json(*words, "--out", tmp_path / "cut", "--resume")
    assert (code, value["steps"]) == (0, 40)
    assert {entry.name for entry in (tmp_path / "cut").iterdir()} == PUBLIC_AND_SECRET
    whole, cut = (read_tensors(tmp_path / name / "victim.safetensors") for name in ("whole", "cut"))
    assert whole.keys() == cut.keys()
    assert all(bool((cut[key] == tensor).all()) for key, tensor in whole.items())


@pytest.mark.parametrize(
    ("name", "classes", "samples", "outputs", "words"),
    [
        ("two-layer", 10, 10, 10, "over the whole subset"),
        ("mlp", 2, 10, 1, "over the whole subset"),
        ("resnet", 2, 10, 1, "per channel"),
        ("vit", 5, 5, 10, "per channel"),
    ],
)
def test_cifar10_defaults_are_the_paper_s(
    exhume_json, tmp_path, real_data, monkeypatch, name, classes, samples, outputs, words
):
    monkeypatch.setenv("EXHUME_DATA", str(real_data))
    options = ("--data", "cifar10", "--width", 12, "--max-steps", 3, "--step-size", 1e-6)
    code, value = exhume_json("train", name, *options, "--out", tmp_path / "run")
    assert code == 0
    assert (value["num_samples"], value["num_outputs"], value["input_dim"]) == (samples, outputs, 3072)
    assert words in value["protocol"]
    labels = RunFolder(tmp_path / "run").load_secret().labels
    assert len(labels.unique(dim=0)) == classes


def test_a_recipe_trains_by_its_optimiser(exhume_command, exhume_json, tmp_path):
    path, out = tmp_path / "recipe.yaml", tmp_path / "run"
    path.write_text("optimiser: adam\nlearning_rate: 1e-3\nsteps: 5\nbatch_size: 2\norder_seed: 0\n")
    words = ("train", "conv", "--samples", 3, "--width", 4, "--recipe", path, "--out", out)
    code, value = exhume_json(*words)
    assert code == 0
    assert (value["network"], value["steps"], value["step_size"], value["num_features"]) == ("conv", 5, 1e-3, 256)
    assert (value["loss"], value["note"][:27]) == ("cross-entropy", "Recipe: learning rate 0.001")
    target = RunFolder(out).load_target()
    assert sorted(target.known_model.initial) == sorted(target.known_model.trained)
    assert target.known_model.trained[0] == "first.weight"
    for beside in (("--weight-decay", 0.1), ("--loss", "logistic"), ("--max-steps", 3)):
        code, _, err = exhume_command(*words, *beside)
        assert code == 2
        assert "a recipe says how to train; leave out --step-size" in err


@pytest.mark.parametrize("name", sorted(SMALL))
def test_help_has_an_example(exhume_command, name):
    code, out, _ = exhume_command("train", name, "--help")
    assert code == 0
    assert f"Example: exhume train {name}" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("two-layer", "--width", 4, "--ratio", 2), "either --width W or --ratio R"),
        (("two-layer", "--ratio", -1), "the ratio p / (d n) is -1.0; valid: a positive number"),
        (("two-layer", "--width", 0), "width is 0; valid: a whole number"),
        (("two-layer", "--option", "depth=3"), "two-layer has no setting depth; valid: "),
        (("two-layer", "--loss", "hinge"), "unknown loss 'hinge'; valid: cross-entropy, logistic, square"),
        (("two-layer", "--loss", "logistic"), "logistic loss takes one output"),
        (("two-layer", "--step-size", 1e4), "diverged with step size 10000"),
        (("resnet", "--data", "sphere"), "resnet takes images, and these data are not"),
        (("vit", "--data", "mnist"), "unknown data set 'mnist'"),
        (("vit", "--option", "patch=3"), "patch is 3; valid: a divisor of 8"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(exhume_command, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = exhume_command("train", *words, "--out", "x")
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_resnet18_is_trained_by_a_recipe_with_stored_statistics(exhume_json, tmp_path):
    path, out = tmp_path / "recipe.yaml", tmp_path / "run"
    path.write_text("learning_rate: 0.01\nsteps: 2\n")
    words = ("--samples", 3, "--width", 2, "--recipe", path, "--out", out)
    code, value = exhume_json("train", "resnet18", *words)
    assert (code, value["width"], value["num_features"]) == (0, 2, 16)
    model = RunFolder(out).load_target().known_model
    assert not model.module.training
    assert model.trained[0] == "stages.0.0.weight"
    moved = {name for name in model.trained if bool(model.displacement(name).any())}
    assert {"stages.0.0.weight", "stages.4.1.bn2.bias", "head.weight"} <= moved
