"""Weight files of any origin are loaded without executing code, or refused with a clear message."""

import json
import os
import pickle
import struct
import zipfile
from collections import OrderedDict

import pytest
import safetensors.torch
import torch
from torch import nn

from exhume.auditing import weight_files as weights
from exhume.auditing.weight_files import read_weights
from exhume.errors import FileError, InputError


def _safetensors(path, header, body=b"", length=None):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw) if length is None else length) + raw + body)
    return path


def _same(one, other):
    return list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)


def test_both_formats_give_the_same_tensors(tmp_path, state):
    safetensors.torch.save_file(state, tmp_path / "a.safetensors")
    torch.save(state, tmp_path / "a.pt")
    (tmp_path / "link.pt").symlink_to(tmp_path / "a.pt")
    assert _same(read_weights(tmp_path / "a.safetensors").tensors, state)
    assert _same(read_weights(tmp_path / "a.pt").tensors, state)
    assert _same(read_weights(str(tmp_path / "link.pt")).tensors, state)


@pytest.mark.parametrize("wrapping", weights.WRAPPINGS)
def test_the_state_dict_of_a_checkpoint_is_found_and_told(tmp_path, state, wrapping):
    torch.save({"epoch": 3, wrapping: OrderedDict(state), "optimizer": {"lr": 0.1}}, tmp_path / "a.pt")
    read = read_weights(tmp_path / "a.pt")
    assert _same(read.tensors, state)
    assert read.notes == (f"The state dict was taken from '{wrapping}'; left out: epoch, optimizer.",)


def test_prefixes_of_wrappers_are_taken_off_and_told(tmp_path, state):
    torch.save({f"module._orig_mod.{name}": each for name, each in state.items()}, tmp_path / "a.pt")
    read = read_weights(tmp_path / "a.pt")
    assert _same(read.tensors, state)
    assert read.notes == tuple(f"The prefix {prefix!r} was taken off every name." for prefix in weights.PREFIXES)


def test_a_prefix_of_some_names_only_stays(tmp_path, state):
    torch.save({**state, "module.extra": torch.ones(1)}, tmp_path / "a.pt")
    assert list(read_weights(tmp_path / "a.pt").tensors) == [*state, "module.extra"]


def test_two_state_dicts_in_one_file_are_not_chosen_between(tmp_path, state):
    torch.save({"model": state, "state_dict": state}, tmp_path / "a.pt")
    with pytest.raises(FileError, match=r"several state dicts \(under state_dict, model\); save only the one"):
        read_weights(tmp_path / "a.pt")


def test_parameters_integers_complex_and_strided_tensors_are_taken(tmp_path):
    layer = nn.BatchNorm2d(3)
    complex_numbers, transposed = torch.randn(3, dtype=torch.complex64), torch.randn(3, 4).T
    torch.save({**dict(layer.named_parameters()), **layer.state_dict(), "c": complex_numbers, "t": transposed},
               tmp_path / "a.pt")  # fmt: skip
    read = read_weights(tmp_path / "a.pt").tensors
    assert read["num_batches_tracked"].dtype == torch.int64
    assert torch.equal(read["c"], complex_numbers)
    assert torch.equal(read["t"], transposed)
    assert not any(tensor.requires_grad for tensor in read.values())


@pytest.mark.parametrize("where", ["bare", "legacy", "archive", "in a state dict", "in a wrapping", "beside"])
def test_a_pickle_with_a_payload_is_refused_and_not_executed(tmp_path, payload, pickled_archive, where):
    path = tmp_path / "hostile.pt"
    if where == "bare":
        path.write_bytes(pickle.dumps(payload))
    elif where == "legacy":
        torch.save({"weight": payload}, path, _use_new_zipfile_serialization=False)
    elif where == "archive":
        pickled_archive(payload)
    elif where == "in a state dict":
        torch.save({"weight": torch.ones(2), "bias": payload}, path)
    elif where == "in a wrapping":
        torch.save({"state_dict": {"weight": payload}}, path)
    else:
        torch.save({"state_dict": {"weight": torch.ones(2)}, "callbacks": payload}, path)
    with pytest.raises(FileError, match="can run code|could run code") as caught:
        read_weights(path)
    message = str(caught.value)
    assert "weights_only" not in message
    assert message.isprintable()
    assert len(message) < 500


def test_a_payload_would_run_if_it_were_unpickled_carelessly(tmp_path, payload):
    other = type(payload)(tmp_path / "another-payload-ran")
    pickle.loads(pickle.dumps(other))
    assert other.marker.is_dir()  # so the other tests would fail


def test_a_payload_behind_a_safetensors_name_is_not_executed(tmp_path, payload):
    path = tmp_path / "model.safetensors"
    path.write_bytes(pickle.dumps(payload))
    with pytest.raises(FileError):
        read_weights(path)


def test_a_legacy_file_of_tensors_is_refused_with_advice(tmp_path, state):
    torch.save(state, tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(FileError, match=r"bare pickle.*torch.save\(model.state_dict"):
        read_weights(tmp_path / "a.pt")


def test_torchscript_is_refused_with_advice(tmp_path):
    torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2)).save(str(tmp_path / "a.pt"))
    with pytest.raises(FileError, match="TorchScript archive.*save the weights alone"):
        read_weights(tmp_path / "a.pt")


def test_whole_modules_are_refused(tmp_path):
    torch.save(nn.Linear(2, 2), tmp_path / "a.pt")
    with pytest.raises(FileError, match=r"asks for torch.nn.modules.linear.Linear"):
        read_weights(tmp_path / "a.pt")


@pytest.mark.parametrize("claimed", [10 * 2**30, 2**63, 2**64 - 1, 1000])
def test_a_header_that_claims_more_than_the_file_is_refused_before_reading(tmp_path, claimed):
    path = _safetensors(tmp_path / "a.safetensors", b'{"a":', length=claimed)
    with pytest.raises(FileError, match=f"header claims {claimed} bytes; valid: at most the 5 "):
        read_weights(path)


def test_a_sparse_file_with_a_header_of_ten_gigabytes_is_refused(tmp_path):
    path = _safetensors(tmp_path / "a.safetensors", b"{", length=10 * 2**30)
    os.truncate(path, 11 * 2**30)
    with pytest.raises(FileError, match="header claims 10737418240 bytes"):
        read_weights(path, max_bytes="20GiB")


def test_a_file_above_the_limit_is_refused_with_both_sizes(tmp_path, state):
    safetensors.torch.save_file(state, tmp_path / "a.safetensors")
    size = (tmp_path / "a.safetensors").stat().st_size
    with pytest.raises(FileError, match=rf"{size} bytes.*limit of 100 bytes.*--max-size"):
        read_weights(tmp_path / "a.safetensors", max_bytes=100)


@pytest.mark.parametrize("limit", ["lots", 0, -3, "", "1e400GB", "9" * 400])
def test_limits_that_are_no_sizes_are_named(tmp_path, limit):
    with pytest.raises(InputError, match="--max-size"):
        read_weights(tmp_path / "a.pt", max_bytes=limit)


def test_a_zip_bomb_is_refused_by_its_directory(tmp_path, rezip):
    torch.save({"weight": torch.zeros(2**20)}, tmp_path / "a.pt")
    bomb = rezip(tmp_path / "a.pt", tmp_path / "b.pt", lambda *record: record, zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 2**16
    with pytest.raises(FileError, match=r"unpacks to 4.19 MB.*limit of 1.05 MB"):
        read_weights(bomb, max_bytes="1MiB")
    with pytest.raises(FileError, match="compressed records"):
        read_weights(bomb)


def test_an_archive_with_a_comment_behind_its_directory_is_refused(tmp_path, state):
    torch.save(state, tmp_path / "a.pt")
    whole = (tmp_path / "a.pt").read_bytes()
    (tmp_path / "comment.pt").write_bytes(whole[:-2] + b"\x04\x00abcd")
    with pytest.raises(FileError, match="a comment"):
        read_weights(tmp_path / "comment.pt")


def test_a_tensor_that_repeats_few_bytes_to_a_huge_size_is_refused(tmp_path):
    torch.save({"weight": torch.ones(1).expand(2**20, 2**20)}, tmp_path / "a.pt")
    assert (tmp_path / "a.pt").stat().st_size < 2**12
    with pytest.raises(FileError, match=r"unpacks to 4.4 TB"):
        read_weights(tmp_path / "a.pt")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2, torch.complex64])
def test_weights_that_are_not_finite_are_counted_by_name(tmp_path, bad, dtype):
    tensor = torch.zeros(7)
    tensor[[2, 5]] = bad
    torch.save({"fine": torch.ones(3), "head.weight": tensor.to(dtype)}, tmp_path / "a.pt")
    with pytest.raises(FileError, match="NaN or infinite: 2 of (7|14) in 'head.weight'; nothing"):
        read_weights(tmp_path / "a.pt")


def test_non_finite_numbers_are_found_in_every_piece_of_a_large_tensor(monkeypatch):
    monkeypatch.setattr(weights, "_PIECE", 10)
    tensor = torch.zeros(6, 7)
    assert weights.count_non_finite(tensor) == 0
    tensor[0, 0] = tensor[5, 6] = tensor[3, 3] = float("nan")
    for view in (tensor, tensor.T, tensor.double(), tensor[:, None].expand(6, 2, 7)[:, 1]):
        assert weights.count_non_finite(view) == 3


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.eye(3).to_sparse(), "sparse coo tensor"),
        (torch.eye(3).to_sparse_csr(), "sparse csr tensor"),
        (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "quantised"),
        (torch.empty(3, device="meta"), "without its numbers"),
        ("a text", "holds a str under 'weight'"),
        ([torch.ones(2)], "holds a list under 'weight'"),
        ({"deeper": torch.ones(2)}, "holds a dict under 'weight'"),
        (None, "holds a NoneType under 'weight'"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_no_plain_tensor_is_refused_by_name(tmp_path, value, words):
    torch.save({"weight": value}, tmp_path / "a.pt")
    with pytest.raises(FileError, match=words):
        read_weights(tmp_path / "a.pt")


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[31mred", "x" * 5000, "\ud800", 7, "\u202eright"])
def test_hostile_names_are_refused_and_not_repeated(tmp_path, name):
    torch.save({"fine": torch.ones(1), name: torch.ones(1)}, tmp_path / "a.pt")
    with pytest.raises(FileError) as caught:
        read_weights(tmp_path / "a.pt")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


def test_hostile_names_in_safetensors_are_refused(tmp_path):
    entry = {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}
    with pytest.raises(FileError, match="names a tensor"):
        read_weights(_safetensors(tmp_path / "a.safetensors", {"a\x1b[2J": entry}, b"\0"))


def test_a_name_that_stands_twice_is_refused_or_read_once(tmp_path):
    entry = b'{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}'
    header = b'{"a":' + entry % (0, 1) + b',"a":' + entry % (1, 2) + b"}"
    with pytest.raises(FileError):
        read_weights(_safetensors(tmp_path / "a.safetensors", header, b"\0\1"))


@pytest.mark.parametrize("content", [[torch.ones(2)], torch.ones(2), "text", {}, {"state_dict": {}}])
def test_files_without_a_state_dict_are_refused(tmp_path, content):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(FileError, match="not a state dict|holds no tensors"):
        read_weights(tmp_path / "a.pt")


def test_what_is_no_file_of_weights_is_refused_without_hanging(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("these are not weights")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("readme", "hello")
    problems = {
        "pipe": "pipe or a device", "empty": "is empty", "text": "neither safetensors", "zip": "did not write it",
        "loop": "cannot be read", "gone": "does not exist", ".": "is a folder", "/dev/zero": "pipe or a device",
        "nul\0": "cannot be read",
    }  # fmt: skip
    for name, words in problems.items():
        with pytest.raises(FileError, match=words):
            read_weights(tmp_path / name)


def test_truncated_files_of_any_length_are_refused(tmp_path, state):
    safetensors.torch.save_file(state, tmp_path / "a.safetensors")
    torch.save(state, tmp_path / "a.pt")
    for name in ("a.safetensors", "a.pt"):
        whole = (tmp_path / name).read_bytes()
        for length in range(0, len(whole), max(1, len(whole) // 40)):
            (tmp_path / "cut").write_bytes(whole[:length])
            with pytest.raises(FileError):
                read_weights(tmp_path / "cut")
