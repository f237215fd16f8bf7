"""Settings of an audit: from Python, and from YAML."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from exhume import Recipe
from exhume.auditing import Refused, Settings, read_settings
from exhume.defences import DEFENCES
from exhume.errors import FileError, InputError


def test_settings_come_back_from_json():
    settings = Settings(
        model="m.py:build",
        weights=Path("w.safetensors"),
        input_shape="1,8,8",
        classes="cat,dog",
        columns="age,bmi",
        fail_on=["recovered=1", "verdict=exact"],
        defences="all",
        know={"norm": 3.0, "pixel_mean": "0.5,0.25"},
    )
    assert settings.known == {"norm": 3.0, "pixel_mean": (0.5, 0.25)}
    assert settings.input_shape == (1, 8, 8)
    assert settings.classes == ("cat", "dog")
    assert [column.name for column in settings.columns] == ["age", "bmi"]
    assert settings.defences == tuple(DEFENCES)
    assert Settings(run="a", defences="noise, rounding").defences == ("noise", "rounding")
    assert Settings(**json.loads(json.dumps(settings.to_json()))) == settings


def test_of_known_tensors_json_keeps_the_shape():
    settings = Settings(model="m.py:build", know={"samples": torch.ones(2, 3)})
    assert settings.to_json()["know"] == {"samples": [2, 3]}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"wieghts": "w.pt"}, "wieghts is unknown; valid: name, model"),
        ({"input_shape": "3,zero"}, "input_shape"),
        ({"num_samples": 0}, "num_samples"),
        ({"method": "magic"}, "unknown method 'magic'"),
        ({"defences": ["armour"]}, "unknown defence 'armour'"),
        ({"fail_on": "leaks=1"}, "unknown measure 'leaks'"),
        ({"budget_seconds": -1}, "budget_seconds"),
        ({"columns": [{"name": "age", "std": "wide"}]}, "columns"),
    ],
)
def test_bad_settings_are_named_with_what_is_valid(values, message):
    with pytest.raises(InputError, match=message):
        Settings(model="m.py:build", **values)


def write(path, text):
    path.write_text(text)
    return path


def test_yaml_of_one_model_takes_its_paths_from_its_own_folder(tmp_path):
    path = write(tmp_path / "a.yaml", "model: m.py:build\nweights: w.safetensors\ninitial: zero\ninput_shape: [4]\n")
    (settings,) = read_settings(path)
    assert settings.weights == tmp_path / "w.safetensors"
    assert settings.model == f"{tmp_path / 'm.py'}:build"
    assert settings.initial == "zero"


def test_files_of_knowledge_are_taken_from_the_folder_of_the_yaml_too(tmp_path):
    np.save(tmp_path / "k.npy", np.ones((2, 4)))
    (settings,) = read_settings(write(tmp_path / "a.yaml", "run: a\nknow: {samples: k.npy, norm: 2}\n"))
    assert settings.known["samples"].shape == (2, 4)
    settings.known.pop("norm")
    assert settings.known["norm"] == 2


def test_yaml_of_several_models_shares_what_stands_above_them(tmp_path):
    text = "seed: 7\nmodels:\n  - {run: a}\n  - {run: b, seed: 8}\n  - {run: c, sede: 9, name: third}\n"
    first, second, third = read_settings(write(tmp_path / "many.yaml", text))
    assert (first.seed, second.seed) == (7, 8)
    assert first.run == tmp_path / "a"
    assert isinstance(third, Refused)
    assert third.name == "third"
    assert "sede is unknown" in third.reason


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n- b\n", "holds a list; valid: fields and their values"),
        ("models: 3\n", "must be a list of settings"),
        ("models: []\n", "must be a list of settings"),
        ("a: [1, 2\n", "not readable YAML"),
        ("!!python/object/apply:os.system ['true']\n", "not readable YAML"),
        ("1: 2\n", "has a field 1; valid: names"),
    ],
)
def test_yaml_that_holds_no_settings_is_refused(tmp_path, text, message):
    with pytest.raises((InputError, FileError), match=message):
        read_settings(write(tmp_path / "bad.yaml", text))


def test_a_file_of_settings_that_is_missing_or_huge_is_refused(tmp_path):
    with pytest.raises(FileError, match="does not exist"):
        read_settings(tmp_path / "none.yaml")
    with pytest.raises(FileError, match="at most 1048576"):
        read_settings(write(tmp_path / "huge.yaml", "#" * (2 << 20)))


def test_a_recipe_is_knowledge_and_lifts_the_default_limit_of_passes(tmp_path):
    (tmp_path / "recipe.yaml").write_text("optimiser: adam\nsteps: 60\n")
    settings = Settings(model="m.py:build", recipe=tmp_path / "recipe.yaml")
    assert settings.known["recipe"] == Recipe(optimiser="adam", steps=60)
    assert settings.max_passes == float("inf")
    assert Settings(model="m.py:build", recipe=tmp_path / "recipe.yaml", budget_passes=50).max_passes == 50
    assert Settings(model="m.py:build").max_passes == Settings(model="m.py:build").budget_passes
