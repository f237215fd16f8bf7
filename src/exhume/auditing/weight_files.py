"""Weights from untrusted files: state dicts from safetensors or torch.save archives; no code of theirs is run."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from exhume.errors import FileError, InputError, brief
from exhume.support import files
from exhume.support.text import parse_bytes, size

ADVICE = "save the weights alone, with torch.save(model.state_dict(), ...) or safetensors.torch.save_file"
DEFAULT_LIMIT = "4GB"
# Under these names checkpoints keep their state dict, beside optimisers, epochs and the like.
WRAPPINGS = ("state_dict", "model_state_dict", "model")
# What DataParallel and torch.compile put before every name.
PREFIXES = ("module.", "_orig_mod.")
# What transformers writes into a folder.
_CONFIG, _FILE = "config.json", "model.safetensors"
_ZIP_START = b"PK\x03\x04"
_LONGEST_NAME = 512
# Numbers that are checked at a time.
_PIECE = 2**22
_COUNTABLE = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Weights:
    """A state dict and where in the file it was found.

    Attributes:
        tensors: by name, on the CPU, without gradients; they may be views of the file.
        notes: what was taken from a wrapping, left out or renamed, in sentences.
    """

    tensors: dict[str, torch.Tensor]
    notes: tuple[str, ...] = ()


def read_weights(path: str | Path, *, max_bytes: int | str = DEFAULT_LIMIT) -> Weights:
    """Reads a state dict without running anything that the file says, and tells which part of the file it is.

    Args:
        path: a safetensors file, or a zip archive of torch.save that holds tensors and plain values only; a checkpoint
            may keep its state dict under one of `WRAPPINGS`, and all names may start with one of `PREFIXES`. Of a
            folder as transformers writes it, with config.json and model.safetensors, the latter is read.
        max_bytes: limit of the file's size, and of the tensors' when unpacked; a number or "500MB".
    """
    path, limit = _file_in(Path(path).expanduser()), parse_bytes(max_bytes, "--max-size")
    if limit == 0:
        raise InputError("--max-size 0 reads nothing; write for instance '500MB' or '4GiB'")
    bytes_on_disk = files.regular_size(path)
    if bytes_on_disk == 0:
        raise FileError(f"{path} is empty")
    _check_limit(path, "has", bytes_on_disk, limit)
    try:
        with path.open("rb") as file:
            start = file.read(9)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {brief(error)}") from error
    notes: tuple[str, ...] = ()
    if start[8:] == b"{":
        tensors = files.read_tensors(path)
    elif start.startswith(_ZIP_START):
        _check_archive(path, limit)
        tensors, notes = _unwrapped(_torch_load(path), path)
    else:
        pickled = start[:1] == b"\x80"
        what = "a bare pickle, which can run code" if pickled else "neither safetensors nor a torch.save archive"
        raise FileError(f"{path} is {what} (or it is damaged); {ADVICE}")
    _check_total(path, tensors, limit)
    _check_numbers(path, tensors)
    tensors, renamed = _without_prefixes(tensors)
    return Weights(tensors, notes + renamed)


def is_model_folder(path: Path) -> bool:
    """Whether this is a folder as transformers writes it: a description of one model, and its weights."""
    return (path / _CONFIG).is_file() and (path / _FILE).is_file()


def _file_in(path: Path) -> Path:
    """The file of weights: the path itself, or the one in a folder that transformers wrote."""
    if not path.is_dir():
        return path
    if is_model_folder(path):
        return path / _FILE
    parts = sorted(each.name for each in path.glob("*.safetensors"))
    several = f"; it holds {brief(', '.join(parts), 120)}: give one file, or merge them into {_FILE}" if parts else ""
    raise FileError(
        f"{path} is a folder without {_CONFIG} and {_FILE}; valid: a file of weights, or such a folder{several}"
    )


def _check_archive(path: Path, limit: int) -> None:
    """Refuses archives that torch.save did not write, or that would unpack to more than the limit."""
    try:
        with zipfile.ZipFile(path) as archive:
            records, comment = archive.infolist(), archive.comment
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError, MemoryError) as error:
        raise FileError(
            f"{path} is not a readable torch.save archive (truncated or damaged?): {brief(error)}"
        ) from error
    _check_limit(path, "unpacks to", sum(record.file_size for record in records), limit)
    names = [record.filename for record in records]
    inner = {name.partition("/")[2] for name in names}
    if "constants.pkl" in inner or any(name.startswith("code/") for name in inner):
        raise FileError(f"{path} is a TorchScript archive, which holds code; {ADVICE}")
    if "data.pkl" not in inner:
        raise FileError(f"{path} is a zip file, but torch.save did not write it; {ADVICE}")
    if comment or len(set(names)) < len(names) or any(record.compress_type for record in records):
        raise FileError(
            f"{path} has a comment, doubled or compressed records, which torch.save does not write; {ADVICE}"
        )


def _check_limit(path: Path, verb: str, count: int, limit: int) -> None:
    """Refuses a file that has, or unpacks to, more bytes than the limit."""
    if count > limit:
        raise FileError(
            f"{path} {verb} {size(count)} ({count} bytes), more than the limit of {size(limit)} ({limit} bytes); "
            "raise it with --max-size if the file is what it should be"
        )


def _torch_load(path: Path) -> Any:
    """Whatever tensors and plain values an archive holds; torch's restricted unpickler runs nothing."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        # torch's own message advises to switch the protection off, so only the name of the culprit is repeated.
        named = re.search(r"GLOBAL ([\w.]{1,100})", brief(error, 2000))
        asked = f" (it asks for {named[1]})" if named else ""
        raise FileError(
            f"{path} holds more than tensors and plain values{asked}, and loading it could run code; "
            f"nothing of it was run; {ADVICE}"
        ) from None
    except Exception as error:  # a damaged pickle makes torch raise anything
        raise FileError(
            f"{path} is not a readable torch.save archive (truncated or damaged?): "
            f"{type(error).__name__}: {brief(error)}"
        ) from None


def _unwrapped(content: Any, path: Path) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    """The state dict of a checkpoint, and what was left out."""
    if not isinstance(content, Mapping):
        raise FileError(f"{path} holds a {type(content).__name__}, not a state dict; {ADVICE}")
    found = [name for name in WRAPPINGS if isinstance(content.get(name), Mapping)]
    if len(found) > 1:
        raise FileError(f"{path} holds several state dicts (under {', '.join(found)}); save only the one to be audited")
    if not found:
        return _only_tensors(content, path), ()
    left_out = brief(", ".join(brief(name, 40) for name in content if name != found[0]))
    note = f"The state dict was taken from {found[0]!r}; left out: {left_out or 'nothing'}."
    return _only_tensors(content[found[0]], path), (note,)


def _only_tensors(values: Mapping[Any, Any], path: Path) -> dict[str, torch.Tensor]:
    """The mapping itself, detached, if every value is a tensor."""
    for name, value in values.items():
        if not isinstance(value, torch.Tensor):
            kind = type(value).__name__
            raise FileError(f"{path} holds a {kind} under {brief(name, 40)!r}, not a tensor; {ADVICE}")
    return {name: value.detach() for name, value in values.items()}


def _check_total(path: Path, tensors: Mapping[str, torch.Tensor], limit: int) -> None:
    """Refuses odd names, layouts that cannot be attacked, and tensors of few bytes that repeat to a huge size."""
    if not tensors:
        raise FileError(f"{path} holds no tensors")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _LONGEST_NAME:
            valid = f"a printable text of at most {_LONGEST_NAME} characters"
            raise FileError(f"{path} names a tensor {brief(name, 40)!r}; valid: {valid}")
        if tensor.layout != torch.strided or tensor.is_nested:
            kind = str(tensor.layout).removeprefix("torch.").replace("_", " ") if not tensor.is_nested else "nested"
            raise FileError(f"{path} holds {name!r} as a {kind} tensor; valid: dense ones (save tensor.to_dense())")
        if tensor.is_quantized:
            raise FileError(f"{path} holds {name!r} as a quantised tensor; valid: plain ones (save .dequantize())")
        if tensor.device.type != "cpu":
            raise FileError(f"{path} holds {name!r} without its numbers (device {tensor.device.type})")
    _check_limit(path, "unpacks to", sum(each.numel() * each.element_size() for each in tensors.values()), limit)


def _check_numbers(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Refuses NaN and infinite weights, by name."""
    wrong = {name: count for name, tensor in tensors.items() if (count := count_non_finite(tensor))}
    if wrong:
        shown = brief("; ".join(f"{count} of {tensors[name].numel()} in {name!r}" for name, count in wrong.items()))
        raise FileError(f"{path} holds numbers that are NaN or infinite: {shown}; nothing can be audited")


def count_non_finite(tensor: torch.Tensor) -> int:
    """How many entries are NaN or infinite; a slice at a time, so that no second copy of the weights is needed."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if not tensor.is_floating_point():
        return 0
    wide = torch.float32 if tensor.dtype not in _COUNTABLE else tensor.dtype  # 8-bit formats know few operations
    return sum(int((~torch.isfinite(part.to(wide))).sum()) for part in tensor.reshape(-1).split(_PIECE))


def _without_prefixes(tensors: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    """The tensors without what DataParallel or torch.compile put before all of their names."""
    notes: tuple[str, ...] = ()
    while prefix := next((each for each in PREFIXES if all(name.startswith(each) for name in tensors)), None):
        if any(name == prefix for name in tensors):
            break
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
        notes += (f"The prefix {prefix!r} was taken off every name.",)
    return tensors, notes
