"""The door for weights: state dicts from safetensors or torch files that nobody vouches for; no code of theirs runs."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from exhume import files
from exhume.auditing.archives import ADVICE, check_archive
from exhume.auditing.limits import DEFAULT_LIMIT, check_limit, size_limit
from exhume.errors import FileError, brief

# Under these names checkpoints keep their state dict, beside optimisers, epochs and the like.
WRAPPINGS = ("state_dict", "model_state_dict", "model")
# What DataParallel and torch.compile put before every name.
PREFIXES = ("module.", "_orig_mod.")
_ZIP_START = b"PK\x03\x04"
_LONGEST_NAME = 512
_SHOWN = 5
# Numbers looked at in one go, so that checks need no memory beside that of the weights.
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


def load_weights(path: str | Path, *, max_bytes: int | str = DEFAULT_LIMIT) -> dict[str, torch.Tensor]:
    """Reads a state dict from safetensors or a torch.save archive without running anything that the file says."""
    return read_weights(path, max_bytes=max_bytes).tensors


def read_weights(path: str | Path, *, max_bytes: int | str = DEFAULT_LIMIT) -> Weights:
    """Reads a state dict as `load_weights` does, and says which part of the file it is.

    Args:
        path: a safetensors file, or a zip archive of torch.save that holds tensors and plain values only; a checkpoint
            may keep its state dict under one of `WRAPPINGS`, and all names may start with one of `PREFIXES`.
        max_bytes: limit of the file's size, and of the tensors' when unpacked; a number or "500MB".
    """
    path, limit = Path(path).expanduser(), size_limit(max_bytes)
    size = files.regular_size(path)
    if size == 0:
        raise FileError(f"{path} is empty")
    check_limit(path, "is", size, limit)
    try:
        with path.open("rb") as file:
            start = file.read(9)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {brief(error)}") from error
    notes: tuple[str, ...] = ()
    if start[8:] == b"{":
        tensors = files.read_tensors(path)
    elif start.startswith(_ZIP_START):
        check_archive(path, limit)
        tensors, notes = _unwrapped(_torch_load(path), path)
    else:
        pickled = start[:1] == b"\x80"
        what = "a bare pickle, which can run code" if pickled else "neither safetensors nor a torch.save archive"
        raise FileError(f"{path} is {what} (or it is damaged); {ADVICE}")
    _check_total(path, tensors, limit)
    _check_numbers(path, tensors)
    tensors, renamed = _without_prefixes(tensors)
    return Weights(tensors, notes + renamed)


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
        raise FileError(f"{path} holds a state dict under each of {', '.join(found)}; save the one that is meant")
    if not found:
        return _checked_names(content, path), ()
    left_out = [brief(name, 40) for name in content if name != found[0]]
    note = f"The state dict was taken from {found[0]!r}"
    if left_out:
        more = f" and {len(left_out) - _SHOWN} more" if len(left_out) > _SHOWN else ""
        note += f"; left out: {', '.join(left_out[:_SHOWN])}{more}"
    return _checked_names(content[found[0]], path), (f"{note}.",)


def _checked_names(values: Mapping[Any, Any], path: Path) -> dict[str, torch.Tensor]:
    """The mapping itself, if every name is a printable text and every value a tensor; detached."""
    if not values:
        raise FileError(f"{path} holds no tensors")
    tensors = {}
    for name, value in values.items():
        _check_name(name, path)
        if not isinstance(value, torch.Tensor):
            raise FileError(f"{path} holds a {type(value).__name__} under {name!r}, not a tensor; {ADVICE}")
        tensors[name] = value.detach()
    return tensors


def _check_name(name: object, path: Path) -> None:
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _LONGEST_NAME:
        raise FileError(
            f"{path} names a tensor {brief(name, 40)!r}; valid: a printable text of at most {_LONGEST_NAME} characters"
        )


def _check_total(path: Path, tensors: Mapping[str, torch.Tensor], limit: int) -> None:
    """Refuses layouts that cannot be attacked, and tensors of few bytes that repeat themselves to a huge size."""
    if not tensors:
        raise FileError(f"{path} holds no tensors")
    for name, tensor in tensors.items():
        _check_name(name, path)
        if tensor.layout != torch.strided or tensor.is_nested:
            kind = str(tensor.layout).removeprefix("torch.").replace("_", " ") if not tensor.is_nested else "nested"
            raise FileError(f"{path} holds {name!r} as a {kind} tensor; valid: dense ones (save tensor.to_dense())")
        if tensor.is_quantized:
            raise FileError(f"{path} holds {name!r} as a quantised tensor; valid: plain ones (save .dequantize())")
        if tensor.device.type != "cpu":
            raise FileError(f"{path} holds {name!r} without its numbers (device {tensor.device.type})")
    check_limit(path, "unpacks to", sum(each.numel() * each.element_size() for each in tensors.values()), limit)


def _check_numbers(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Refuses NaN and infinite weights, by name."""
    bad = [(name, count, tensor.numel()) for name, tensor in tensors.items() if (count := count_non_finite(tensor))]
    if bad:
        shown = "; ".join(f"{count} of {size} in {name!r}" for name, count, size in bad[:_SHOWN])
        more = f"; and {len(bad) - _SHOWN} more tensors" if len(bad) > _SHOWN else ""
        raise FileError(f"{path} holds numbers that are NaN or infinite: {shown}{more}; nothing can be audited")


def count_non_finite(tensor: torch.Tensor) -> int:
    """How many entries are NaN or infinite, found without a copy of the tensor."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return 0
    return sum(_non_finite(piece) for piece in _pieces(tensor))


def _non_finite(piece: torch.Tensor) -> int:
    if piece.dtype not in _COUNTABLE:
        piece = piece.to(torch.float32)  # the 8-bit formats know few operations
    low, high = torch.aminmax(piece)
    if bool(torch.isfinite(low) & torch.isfinite(high)):
        return 0
    return int((~torch.isfinite(piece)).sum())


def _pieces(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensor in views of bounded size."""
    if tensor.numel() <= _PIECE:
        yield tensor
    elif tensor.is_contiguous():
        yield from tensor.view(-1).split(_PIECE)
    else:
        for part in tensor.unbind(0):
            yield from _pieces(part)


def _without_prefixes(tensors: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    """The tensors without what DataParallel or torch.compile put before all of their names."""
    notes: tuple[str, ...] = ()
    while prefix := next((each for each in PREFIXES if all(name.startswith(each) for name in tensors)), None):
        if any(name == prefix for name in tensors):
            break
        tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
        notes += (f"The prefix {prefix!r} was taken off every name.",)
    return tensors, notes
