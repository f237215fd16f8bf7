"""What pydantic found wrong, in our words: the field, the value given, and what is valid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from exhume.sweep.cell import NetworkSpec, RandomFeaturesSpec

_LONGEST = 80


def complain(error: ValidationError, given: Mapping[str, Any], model: type[BaseModel]) -> list[str]:
    """One line a field: `attack[1].num_samples is 0; valid: greater than or equal to 1 or 'true' or 'estimate'`."""
    lines: dict[str, list[str]] = {}
    for each in error.errors(include_url=False):
        path = _path(each["loc"], given)
        start, valid = _words(each, path, model)
        lines.setdefault(start, []).append(valid)
    return [start + " or ".join(dict.fromkeys(filter(None, valid))) for start, valid in lines.items()]


def _path(location: Iterable[int | str], given: Mapping[str, Any]) -> str:
    """The place as it would be written, without the steps that only pydantic sees."""
    value: Any = given
    path = ""
    for step in location:
        if isinstance(step, int):
            # One value stands for a list of one.
            if isinstance(value, (list, tuple)) and step < len(value):
                path, value = f"{path}[{step}]", value[step]
        elif isinstance(value, Mapping) and (step in value or step not in _TAGS):
            path, value = f"{path}.{step}" if path else step, value.get(step)
        elif isinstance(value, BaseModel):
            path, value = f"{path}.{step}" if path else step, getattr(value, step, None)
    return path


def _words(each: ErrorDetails, path: str, model: type[BaseModel]) -> tuple[str, str]:
    """The complaint up to the valid values, and these."""
    kind, context = each["type"], each.get("ctx", {})
    if kind == "missing":
        return f"{path} is missing", ""
    if kind == "extra_forbidden":
        return f"{path} is no field; valid: ", ", ".join(_fields(each["loc"], model))
    if kind == "union_tag_invalid":
        return f"{path}.kind is {context['tag']!r}; valid: ", context["expected_tags"]
    if kind == "unknown_option":
        return f"{path}.{context['name']}: ", each["msg"]
    if kind == "value_error":
        message = str(context["error"])
        if message.startswith("valid: "):
            return f"{path} is {_short(each['input'])}; valid: ", message.removeprefix("valid: ")
        return f"{path}: " if path else "", message
    if kind in ("model_type", "model_attributes_type"):
        return f"{path} is {_short(each['input'])}; valid: ", "a name, or fields and their values"
    valid = each["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return f"{path} is {_short(each['input'])}; valid: ", valid


def _fields(location: Sequence[int | str], model: type[BaseModel]) -> list[str]:
    """The fields of the part in which an unknown one was found."""
    if len(location) == 1:
        return list(model.model_fields)
    tag = next((step for step in location[1:] if step in _TAGS), None)
    return list((RandomFeaturesSpec if tag == "rf" else NetworkSpec).model_fields)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


# Kinds of victims: pydantic puts them into the path, although no one writes them there.
_TAGS = tuple(
    tag for spec in (RandomFeaturesSpec, NetworkSpec) for tag in get_args(spec.model_fields["kind"].annotation)
)
