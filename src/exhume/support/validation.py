"""Checks of what people hand in: numbers, words, rows, YAML; and pydantic's findings as sentences."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from exhume.errors import FileError, InputError, brief, unknown_name

if TYPE_CHECKING:  # a forecast checks its numbers here, and needs no torch
    import torch

_SHORT = 80  # characters of a wrong value that a message shows
_MAX_DEPTH = 10  # of YAML: deeper than any grid or settings; it also ends a value that holds itself
_LARGEST_YAML = 2**20  # bytes


def whole_number(name: str, value: object, least: int = 1) -> int:
    """The value, if it is a whole number of at least `least`."""
    # To Python, True is the number 1; `samples=True` is a mistake all the same. NumPy's whole numbers are accepted.
    number = operator.index(value) if isinstance(value, SupportsIndex) and not isinstance(value, bool) else least - 1
    if number < least:
        raise InputError(f"{name} is {value!r}; valid: a whole number of at least {least}")
    return number


def positive_number(name: str, value: object) -> float:
    """The value, if it is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise InputError(f"{name} is {value!r}; valid: a positive number")
    return float(value)


def one_of(name: str, value: object, valid: Iterable[str]) -> str:
    """The value, if it is one of the `valid` words."""
    words = tuple(valid)
    if not isinstance(value, str) or value not in words:
        raise unknown_name(name, value, words)
    return value


def flag(name: str, value: object) -> bool:
    """The value, if it is true or false."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}; valid: true or false")
    return value


def finite(name: str, values: torch.Tensor) -> torch.Tensor:
    """The numbers, if none is NaN or infinite."""
    wrong = int((~values.isfinite()).sum())
    if wrong:
        raise InputError(f"{wrong} of {values.numel()} numbers in {name} are NaN or infinite; valid: finite numbers")
    return values


def finite_rows(name: str, rows: torch.Tensor, width: int) -> torch.Tensor:
    """Rows (n, width) from (n, *shape) of as many numbers a row, if there is one at least and all are finite."""
    if rows.ndim < 2 or len(rows) == 0 or rows.shape[1:].numel() != width:
        raise InputError(f"{name} of shape {tuple(rows.shape)}; valid: (n, {width}), n at least 1")
    return finite(name, rows.detach().reshape(len(rows), width))


def invalid(what: str, error: ValidationError, given: Mapping[str, Any]) -> InputError:
    """What pydantic found as one sentence: `invalid Knowledge: norm is -1.0; it must be greater than 0`."""
    return InputError(f"invalid {what}: {'; '.join(problems(error, given))}")


def problems(
    error: ValidationError,
    given: Mapping[str, Any],
    fields_at: Callable[[Sequence[int | str]], Iterable[str]] | None = None,
) -> list[str]:
    """What pydantic found wrong, a clause for each field: where, the value, and what it must be.

    Args:
        error: pydantic's.
        given: what was validated, as people wrote it.
        fields_at: the valid fields at a place (pydantic's `loc`), to list them where an unknown one was found.
    """
    clauses: dict[str, list[str]] = {}
    for each in error.errors(include_url=False):
        found, valid = _clause(each, _path(each, given), fields_at)
        clauses.setdefault(found, []).append(valid)
    # A union reports one problem for each of its alternatives.
    return [found + " or ".join(dict.fromkeys(filter(None, valid))) for found, valid in clauses.items()]


def _path(error: ErrorDetails, given: Mapping[str, Any]) -> str:
    """The place as people would write it, `attack[1].norm`, without steps that name a type or an alternative."""
    value: Any = given
    path, location = "", error["loc"]
    for index, step in enumerate(location):
        if isinstance(step, int):
            if isinstance(value, (list, tuple)) and step < len(value):  # a single value may stand for a list of one
                path, value = f"{path}[{step}]", value[step]
        elif isinstance(value, Mapping):
            missing = error["type"] == "missing" and index == len(location) - 1
            if step in value or missing:
                path, value = f"{path}.{step}" if path else step, value.get(step)
        elif isinstance(value, BaseModel):
            path, value = f"{path}.{step}" if path else step, getattr(value, step, None)
    return path


def _clause(
    error: ErrorDetails, path: str, fields_at: Callable[[Sequence[int | str]], Iterable[str]] | None
) -> tuple[str, str]:
    """A clause up to what is valid, and that."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return f"{path} is missing", ""
    if kind == "extra_forbidden":
        valid = ", ".join(fields_at(error["loc"])) if fields_at else ""
        return f"{path} is unknown{'; valid: ' if valid else ''}", valid
    if kind == "union_tag_invalid":
        return f"{path}.kind is {context['tag']!r}; valid: ", context["expected_tags"]
    if kind == "unknown_option":  # raised by validators that know which options a name takes
        return f"{path}.{context['name']}: ", error["msg"]
    shown = brief(repr(error["input"]), _SHORT)
    if kind == "value_error":
        message = str(context["error"])
        if message.startswith("valid: "):
            return f"{path} is {shown}; valid: ", message.removeprefix("valid: ")
        return f"{path}: " if path else "", message
    if kind in ("model_type", "model_attributes_type"):
        return f"{path} is {shown}; it must be ", "a name, or fields and their values"
    if not error["msg"].startswith("Input should be "):
        return f"{path} is {shown}: ", error["msg"]
    rule = (
        error["msg"].removeprefix("Input should be ").replace("a valid ", "a ").replace("a integer", "a whole number")
    )
    return f"{path} is {shown}; it must be ", re.sub(r", (unable to parse|got) .*", "", rule)


class _StrictLoader(yaml.SafeLoader):
    """PyYAML's safe loader, which builds no objects, made strict about repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping, if it has every key once."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value} is given twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


# YAML 1.1 reads 1e-3 as a word, since it has no point; YAML 1.2 and people read a number.
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds; `FileError` if it cannot be read, `InputError` if it holds anything else."""
    from exhume.support.files import regular_size

    regular_size(path, most=_LARGEST_YAML)
    try:
        return parse_yaml(path.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise FileError(f"{path} is not readable YAML: {brief(error)}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def parse_yaml(content: bytes | str) -> dict[str, Any]:
    """The mapping of plain values that a YAML text holds; `yaml.YAMLError` if it is no YAML."""
    try:
        value = yaml.load(content, Loader=_StrictLoader)  # a SafeLoader
    except RecursionError as error:
        raise InputError("it is nested too deeply") from error
    except ValueError as error:  # a date or a number that does not exist
        raise InputError(f"it holds a value that cannot be read: {brief(error)}") from error
    if not isinstance(value, dict):
        found = {type(None): "nothing", list: "a list", str: "a text"}.get(type(value), brief(repr(value), _SHORT))
        raise InputError(f"it holds {found}; valid: fields and their values, as in `ratio: [1, 2, 4]`")
    _check_plain(value, "", _MAX_DEPTH)
    return value


def _check_plain(value: Any, path: str, depth: int) -> None:
    if depth == 0:
        raise InputError(f"{path} is nested too deeply")
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, str):
                raise InputError(f"{path or 'it'} has a field {key!r}; valid: names")
            _check_plain(each, f"{path}.{key}" if path else key, depth - 1)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _check_plain(each, f"{path}[{index}]", depth - 1)
    elif not isinstance(value, (str, int, float, bool, type(None))):
        raise InputError(f"{path} is {value!r}; valid: numbers, words, true, false, lists and fields")
