"""Options that several commands share: what the attacker is assumed to know, and the names in help texts."""

import inspect
import math

import numpy as np
import pytest
import torch

from exhume.attacks import ATTACKS
from exhume.cli.attack import attack
from exhume.cli.options import ATTACK_NAMES, KNOWLEDGE_NAMES, with_knowledge
from exhume.errors import ExhumeError
from exhume.features import GaussianMatrix, RandomFeatureMap
from exhume.run_folder import RunFolder
from exhume.support import distributed
from exhume.support.files import write_tensors
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target


def test_help_texts_name_every_attack_and_all_knowledge():
    assert set(ATTACK_NAMES) == set(ATTACKS)
    assert tuple(Knowledge.model_fields) == KNOWLEDGE_NAMES


def test_the_attack_command_runs_one_attack_whose_checkpoint_has_a_folder():
    defaults = {name: each.default for name, each in inspect.signature(attack).parameters.items()}
    assert defaults["method"] in ATTACKS
    assert defaults["rank_timeout"] == distributed.TIMEOUT


@pytest.fixture
def target():
    """Pictures of 3 x 2 x 2 pixels."""
    features = RandomFeatureMap(GaussianMatrix(50, 12, seed=0), "relu")
    return Target(features, torch.arange(50.0), Knowledge(num_samples=4, label_alphabet="signs"), (3, 2, 2))


def knowledge_of(target, *know, forget=None, num_samples=None):
    return with_knowledge(target, list(know), forget, num_samples).knowledge


def test_numbers_words_and_lists_are_taken_as_they_are(target):
    known = knowledge_of(
        target, "norm=2.5", "label-alphabet=one-hot", "pixel_range=0,1", "pixel_mean=0.49,0.48,0.45", "pixel_std=0.2"
    )
    assert (known.norm, known.label_alphabet, known.num_samples) == (2.5, "one-hot", 4)
    assert (known.pixel_range, known.pixel_mean, known.pixel_std) == ((0, 1), (0.49, 0.48, 0.45), 0.2)
    assert knowledge_of(target, "num_samples=1e1").num_samples == 10


def test_what_victim_json_says_can_be_forgotten(target):
    assert knowledge_of(target, forget=["num-samples", "label_alphabet"]) == Knowledge()
    assert knowledge_of(target, num_samples="auto") == knowledge_of(target, forget=["num_samples"])
    assert knowledge_of(target, num_samples="7") == knowledge_of(target, "num_samples=7")
    assert knowledge_of(target) == target.knowledge


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ">f4"])
def test_rows_are_read_from_numpy_files(target, tmp_path, dtype):
    rows = np.arange(24, dtype=np.float32).reshape(2, 12)
    np.save(tmp_path / "x.npy", rows.astype(dtype))
    np.save(tmp_path / "pictures.npy", rows.reshape(2, 3, 2, 2).astype(dtype))
    for name in ("x", "pictures"):
        known = knowledge_of(target, f"samples={tmp_path / name}.npy", f"subspace={tmp_path / name}.npy")
        assert np.array_equal(known.samples.numpy(), rows)
        assert np.array_equal(known.subspace.numpy(), rows)


def test_labels_may_be_whole_numbers(target, tmp_path):
    np.save(tmp_path / "y.npy", np.array([3, 1, 2, 0], dtype=np.uint8))
    assert knowledge_of(target, f"labels={tmp_path / 'y.npy'}").labels.tolist() == [3, 1, 2, 0]


def test_tensors_are_read_from_safetensors_alone_or_by_name(target, tmp_path):
    one, other = torch.ones(1, 12), torch.zeros(2, 12)
    write_tensors(tmp_path / "one.safetensors", {"inputs": one})
    write_tensors(tmp_path / "two.safetensors", {"samples": one, "other": other})
    for name in ("one", "two"):
        assert torch.equal(knowledge_of(target, f"samples={tmp_path / name}.safetensors").samples, one)
    with pytest.raises(ExhumeError, match="holds other, samples; valid: one tensor, or one named subspace"):
        knowledge_of(target, f"subspace={tmp_path / 'two.safetensors'}")


@pytest.mark.parametrize(
    ("know", "forget", "message"),
    [
        (
            ["colour=blue"],
            None,
            "unknown knowledge 'colour'; valid: column_mean, column_std, initial_body, initial_head",
        ),
        ([], ["colour"], "unknown knowledge 'colour'; valid: column_mean, column_std, initial_body, initial_head"),
        (["norm"], None, "'norm' is not of the form name=value"),
        (["norm=-1"], None, "norm is -1.0; it must be greater than 0"),
        (["norm=inf"], None, "norm is inf; it must be a finite number"),
        (["norm=round"], None, "norm is 'round'; it must be a number"),
        (["num_samples=0"], None, "num_samples is 0.0; it must be greater than 0"),
        (["num_samples=2.5"], None, "num_samples is 2.5; it must be a whole number"),
        (["label_alphabet=runes"], None, "label_alphabet is 'runes'; it must be 'signs' or 'one-hot'"),
        (["pixel_range=1,0"], None, "pixel_range .* must rise"),
        (["pixel_range=0,1", "pixel_mean=0.1,0.2"], None, "2 numbers for pixels do not fit inputs of shape"),
        (["norm=1", "norm=2"], None, "norm is given twice"),
        (["norm=1"], ["norm"], "norm is given twice"),
        (["initial_body=known"], None, "initial_body cannot be known"),
        (["samples=3"], None, "samples must be a .npy or .safetensors file, not '3'"),
        (["samples=none.npy"], None, "none.npy does not exist"),
        (["samples=none.safetensors"], None, "none.safetensors does not exist"),
    ],
)
def test_what_cannot_be_known_is_named(target, tmp_path, monkeypatch, know, forget, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExhumeError, match=message):
        with_knowledge(target, know, forget, None)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.eye(2, 10), "known samples have 10 numbers a row, the model takes 12"),
        (np.ones((2, 12), dtype=np.int64), "the same sample twice"),
        (np.eye(4, 12), "all 4 samples are known"),
        (np.full((1, 12), np.nan), "NaN or infinite"),
        (np.array(["a", "b"]), "not a readable numpy file of real numbers"),
        (np.array([{}], dtype=object), "not a readable numpy file of real numbers"),
    ],
)
def test_files_that_do_not_hold_samples_are_named(target, tmp_path, array, message):
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    with pytest.raises(ExhumeError, match=message):
        knowledge_of(target, f"samples={tmp_path / 'x.npy'}")


@pytest.mark.parametrize("suffix", ["npy", "safetensors"])
@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00", b"\x80\x04K\x01.", b"PK\x03\x04"])
def test_damaged_files_and_pickles_are_refused(target, tmp_path, content, suffix):
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(content)
    with pytest.raises(ExhumeError, match=str(path)):
        knowledge_of(target, f"samples={path}")


def test_a_result_states_what_was_known(small_run, exhume_json, exhume_command):
    words = ("--know", f"norm={math.sqrt(20)}", "--forget", "num_samples", "--budget-passes", 20)
    code, value = exhume_json("attack", small_run, *words)
    assert code == 1  # the budget is too small to find anything
    assert value["knowledge"]["norm"] == pytest.approx(math.sqrt(20))
    assert value["knowledge"]["num_samples"] is None
    _, out, _ = exhume_command("attack", small_run, *words)
    assert "norm 4.47" in out
    assert "num samples" not in out


def test_bad_knowledge_is_one_line_and_exit_code_2(small_run, exhume_command):
    code, out, err = exhume_command("attack", small_run, "--know", "norm=-1")
    assert (code, out) == (2, "")
    assert err.startswith("error: invalid Knowledge: norm")
    assert not (small_run / "exact").exists()


def test_a_forgotten_head_is_attacked_and_scored_as_such(exhume_command, exhume_json, tmp_path):
    run = tmp_path / "run"
    exhume_command("train", "two-layer", "--width", 160, "--samples", 3, "--max-steps", 200, "--out", run)
    _, value = exhume_json("attack", run, "--forget", "initial_head", "--budget-passes", 50)
    assert value["knowledge"]["initial_head"] == "unknown"
    assert any("Initial head: unknown" in note for note in value["notes"])
    assert value["target"] != RunFolder(run).load_target().fingerprint
    assert exhume_json("score", run)[0] == 0


def test_law_counts_by_what_is_known(exhume_json):
    words = ("law", "--parameters", 1000, "--dim", 64, "--samples", 5, "--activation", "tanh")
    _, plain = exhume_json(*words)
    _, told = exhume_json(*words, "--known-samples", 2, "--subspace-dim", 10, "--norms-known")
    assert (plain["equations"], plain["unknowns"]) == (1000, 5 * 65)
    assert (told["equations"], told["unknowns"]) == (998, 3 * 10)
