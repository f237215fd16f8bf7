"""A dataclass with tensors, written as named tensors and plain JSON, and built again from both.

`dump` takes a value apart, `load` builds it again after its type's annotations. A tensor or a generator is stored under
its place in the value ("minima.0.1"), and is left out of the JSON (in a list it is null there). Infinite floats become
words, since JSON has none. Everything else is the JSON that one would write by hand, so that people can read and edit
it: `load` checks every value against its annotation, and its error names the value that does not fit.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

import torch
from pydantic import BaseModel

from exhume.errors import InputError, brief

Tensors = dict[str, torch.Tensor]
Value = TypeVar("Value")

_PLAIN = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_NO_JSON_NUMBERS = ("inf", "-inf", "nan")
_SHORT = 60  # characters of a wrong value that a message shows


def dump(value: object) -> tuple[Tensors, Any]:
    """The tensors of a value by name, and the rest as JSON.

    A dataclass field with the metadata {"saved": False} is left out; it needs a default.

    Args:
        value: a dataclass or pydantic model of numbers, texts, enums, tensors, generators (on the CPU), lists, tuples,
            mappings with text keys, and other such dataclasses.
    """
    tensors: Tensors = {}
    return tensors, _encode(value, "", tensors)


def load(
    kind: type[Value], tensors: Mapping[str, torch.Tensor], value: Any, *, device: torch.device | str | None = None
) -> Value:
    """The value of type `kind` that `dump` took apart; `InputError` if the parts do not make one.

    Fields that are missing take their defaults; fields that the type does not have are refused.

    Args:
        kind: the dataclass or pydantic model.
        tensors: by name; others than those of the value may be among them.
        value: the JSON.
        device: where tensors are put; by default they stay where they are.
    """
    return cast(Value, _Decoder(tensors, device).decode(kind, value, ""))


def _encode(value: Any, path: str, tensors: Tensors) -> Any:
    if isinstance(value, torch.Tensor):
        tensors[path] = value.detach().clone()  # two fields may share memory, which safetensors refuses
        return None
    if isinstance(value, torch.Generator):
        tensors[path] = value.get_state()
        return None
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {name: _encode(each, _join(path, name), tensors) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encode(each, _join(path, index), tensors) for index, each in enumerate(value)]
    plain = {}
    for name in _field_names(type(value)):
        each = getattr(value, name)
        encoded = _encode(each, _join(path, name), tensors)
        if not isinstance(each, (torch.Tensor, torch.Generator)):
            plain[name] = encoded
    return plain


class _Decoder:
    """Builds values of annotated types from JSON and tensors."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], device: torch.device | str | None) -> None:
        self._tensors, self._device = tensors, device

    def decode(self, kind: Any, value: Any, path: str) -> Any:
        """The value at `path`, as an instance of `kind`."""
        origin = get_origin(kind)
        if origin in (Union, types.UnionType):
            return self._alternative(get_args(kind), value, path)
        if origin is Literal:
            if value not in get_args(kind):
                raise _wrong(path, value, " or ".join(map(repr, get_args(kind))))
            return value
        if kind is torch.Tensor:
            return self._tensor(path)
        if kind is torch.Generator:
            return self._generator(path)
        if origin is tuple:
            return self._tuple(get_args(kind), value, path)
        if origin in (list, Sequence):
            return [self.decode(get_args(kind)[0], each, _join(path, i)) for i, each in enumerate(_list(value, path))]
        if origin in (dict, Mapping):
            items = _mapping(value, path).items()
            return {name: self.decode(get_args(kind)[1], each, _join(path, name)) for name, each in items}
        if is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, BaseModel)):
            return self._fields(cast(type, kind), value, path)
        return _plain(kind, value, path)

    def _alternative(self, kinds: tuple[Any, ...], value: Any, path: str) -> Any:
        """The first type of a union that the value fits."""
        if type(None) in kinds and value is None and not self._holds(path):
            return None
        problems = []
        for kind in kinds:
            if kind is not type(None):
                try:
                    return self.decode(kind, value, path)
                except InputError as error:
                    problems.append(str(error))
        raise InputError(" or ".join(dict.fromkeys(problems)))

    def _fields(self, kind: type, value: Any, path: str) -> Any:
        given, hints, names = _mapping(value, path), _hints(kind), _field_names(kind)
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise InputError(
                f"{_join(path, brief(unknown[0], _SHORT))} is no field of {kind.__name__}; valid: {', '.join(names)}"
            )
        found = {}
        for name in names:
            place = _join(path, name)
            if name in given or self._holds(place):
                found[name] = self.decode(hints[name], given.get(name), place)
            elif _is_required(kind, name):
                raise InputError(f"{place} is missing")
        return kind(**found)

    def _tuple(self, kinds: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
        given = _list(value, path)
        if len(kinds) == 2 and kinds[1] is Ellipsis:
            kinds = (kinds[0],) * len(given)
        if len(kinds) != len(given):
            raise _wrong(path, value, f"a list of {len(kinds)}")
        pairs = zip(kinds, given, strict=True)
        return tuple(self.decode(kind, each, _join(path, index)) for index, (kind, each) in enumerate(pairs))

    def _tensor(self, path: str) -> torch.Tensor:
        if path not in self._tensors:
            raise InputError(f"the tensor {path} is missing")
        tensor = self._tensors[path]
        return tensor if self._device is None else tensor.to(self._device)

    def _generator(self, path: str) -> torch.Generator:
        generator, state = torch.Generator(), self._tensor(path)
        try:
            generator.set_state(state.cpu())
        except (RuntimeError, TypeError) as error:
            raise InputError(f"{path} is not the state of a random generator: {brief(error)}") from error
        return generator

    def _holds(self, path: str) -> bool:
        """Whether tensors are stored for this place or inside it."""
        return path in self._tensors or any(name.startswith(f"{path}.") for name in self._tensors)


def _plain(kind: Any, value: Any, path: str) -> Any:
    """Numbers, texts and enums; for `Any` the value as it is."""
    if kind in (Any, object):
        return value
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError as error:
            raise _wrong(path, value, f"one of {', '.join(str(each.value) for each in kind)}") from error
    if kind not in _PLAIN:
        raise TypeError(f"{path or 'the value'} has the type {kind}, which cannot be read from a file")
    if kind is float and isinstance(value, str) and value in _NO_JSON_NUMBERS:
        return float(value)
    mistaken = isinstance(value, bool) and kind is not bool  # bool is an int to Python
    if mistaken or not isinstance(value, (int, float) if kind is float else kind):
        raise _wrong(path, value, _PLAIN[kind])
    try:
        return kind(value)
    except OverflowError as error:
        raise _wrong(path, value, "a number that fits a float") from error


def _list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise _wrong(path, value, "a list")
    return list(value)


def _mapping(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise _wrong(path, value, "fields and their values")
    return value


def _wrong(path: str, value: Any, valid: str) -> InputError:
    return InputError(f"{path or 'the value'} is {brief(repr(value), _SHORT)}; it must be {valid}")


def _join(path: str, step: object) -> str:
    return f"{path}.{step}" if path else str(step)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _field_names(kind: type) -> list[str]:
    """The fields that the constructor takes, but for those with the metadata {"saved": False}."""
    if is_dataclass(kind):
        return [each.name for each in fields(kind) if each.init and each.metadata.get("saved", True)]
    if issubclass(kind, BaseModel):
        return list(kind.model_fields)
    raise TypeError(f"a {kind.__name__} cannot be written to a file; only dataclasses of plain values and tensors can")


def _is_required(kind: type, name: str) -> bool:
    if not is_dataclass(kind):
        return cast(type[BaseModel], kind).model_fields[name].is_required()
    found: Field[Any] = next(each for each in fields(kind) if each.name == name)
    return found.default is MISSING and found.default_factory is MISSING
