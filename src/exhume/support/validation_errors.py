"""What pydantic finds wrong, as sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from exhume.errors import InputError, brief

_SHORT = 80  # characters of a wrong value that a message shows


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
