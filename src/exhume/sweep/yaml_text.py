"""YAML as grids are written in it: one mapping of plain values, nothing twice, and 1e-3 is a number."""

from __future__ import annotations

import re
from typing import Any

import yaml

from exhume.errors import InputError, brief

# Deeper than any grid; also what ends a value that holds itself.
_MAX_DEPTH = 10


class _Loader(yaml.SafeLoader):
    """The safe loader, which knows no objects, made strict about repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping, if it has every key once."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value} is given twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


# YAML 1.1 wants a point in 1.0e-3 and takes 1e-3 for a word; YAML 1.2 and people do not.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def parse(content: bytes) -> dict[str, Any]:
    """The mapping that the text holds; `yaml.YAMLError` if it is not YAML."""
    try:
        value = yaml.load(content, Loader=_Loader)  # a SafeLoader
    except RecursionError as error:
        raise InputError("nested too deeply") from error
    except ValueError as error:  # a date or a number that cannot be
        raise InputError(f"it holds a value that cannot be read: {brief(error)}") from error
    if not isinstance(value, dict):
        raise InputError(f"it holds {_kind(value)}; valid: fields and their values, as in `ratio: [1, 2, 4]`")
    _check_plain(value, "", _MAX_DEPTH)
    return value


def _check_plain(value: Any, path: str, depth: int) -> None:
    if depth == 0:
        raise InputError(f"{path} is nested too deeply")
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, str):
                raise InputError(f"{path or 'the grid'} has a field {key!r}; valid: names")
            _check_plain(each, f"{path}.{key}" if path else key, depth - 1)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _check_plain(each, f"{path}[{index}]", depth - 1)
    elif not isinstance(value, (str, int, float, bool, type(None))):
        raise InputError(f"{path} is {value!r}; valid: numbers, words, true, false, lists and fields")


def _kind(value: Any) -> str:
    return {type(None): "nothing", list: "a list", str: "a text"}.get(type(value), f"{value!r}")
