"""The examples run, and recover what their docstrings say."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name, *arguments):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main(*arguments)


def test_a_model_of_ones_own(tmp_path, capsys):
    score = run("own_model", tmp_path / "gallery.png")
    assert score.recovered == 6
    assert score.error < 0.02
    assert (tmp_path / "gallery.png").stat().st_size > 1000
    assert "verdict approximate" in capsys.readouterr().out


def test_a_linear_probe_on_a_frozen_backbone(capsys):
    score = run("linear_probe")
    assert score.recovered == 10
    assert score.error < 1e-5
    assert "verdict exact" in capsys.readouterr().out


def test_an_attack_of_ones_own(capsys):
    score = run("own_attack", "law-gelu")
    assert score.num_samples == 5
    assert score.recovered < 5  # a baseline: the exact attack recovers all of them
    assert "verdict failed" in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_is_tested_and_says_how_to_run_it(path):
    assert f'run("{path.stem}"' in Path(__file__).read_text()
    assert f"python examples/{path.name}" in path.read_text()
