"""YAML files of plain values, read strictly."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from exhume.errors import FileError, InputError, brief
from exhume.support.files import regular_size

_SHORT = 80  # characters of a wrong value that a message shows
_MAX_DEPTH = 10  # deeper than any grid or settings; it also ends a value that holds itself
_LARGEST = 2**20  # bytes


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
    regular_size(path, most=_LARGEST)
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
