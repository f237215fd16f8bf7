"""Writes the API reference, docs/reference/api.md, from the docstrings of the public names: `python docs/build_api.py`.

It parses the source without importing it. `tests/test_api_reference.py` fails if the page is out of date.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "api.md"

# The names that `exhume` exports, by subject. Names in no list appear under "More", so that none is left out.
SUBJECTS = {
    "The law": ("forecast", "Forecast"),
    "Planning": (
        "planning.plan",
        "planning.Plan",
        "planning.Cost",
        "planning.Seconds",
        "planning.Hardware",
        "planning.outlook",
        "planning.Outlook",
    ),
    "Victims and targets": ("RandomFeatures", "Target", "Knowledge", "Recipe", "FeatureMap", "Activation"),
    "Initial weights": ("find_seed", "find_checkpoint", "InitialWeights"),
    "Attacks": (
        "reconstruct",
        "Exact",
        "Descent",
        "Subspace",
        "Unmix",
        "Layers",
        "Replay",
        "Greedy",
        "KKT",
        "NTK",
        "attacks.Attack",
        "attacks.ProgressEvent",
    ),
    "Results": ("Reconstruction", "Stop", "Certificate"),
    "Scores": ("score", "Score", "scoring.score_samples", "scoring.Match"),
    "Audits": ("audit", "Audit"),
    "Errors": ("ExhumeError", "InputError", "DataError", "FileError"),
}
# Packages whose own lists of exports are part of the reference.
PACKAGES = {"Data": "data", "Defences": "defences", "Reports": "report"}

_HEAD = """# API reference

Generated from the docstrings by `make docs`; the test suite runs every example on this page.
"""
_WIDTH = 100  # of a signature on one line
_MANY_FIELDS = 10  # of a dataclass that users do not construct: the page lists its fields, not its signature
_SPECIAL = ("__call__",)
_TITLES = {"parameters": "Parameters", "attributes": "Attributes", "returns": "Returns", "raises": "Raises"}


def reference() -> str:
    """The whole page as Markdown."""
    logging.getLogger("griffe").setLevel(logging.ERROR)
    package = griffe.load("exhume", search_paths=[ROOT / "src"], docstring_parser="google", resolve_aliases=True)
    sections = {title: [f"exhume.{name}" for name in names] for title, names in subjects(package).items()}
    for title, name in PACKAGES.items():
        sections[title] = [f"exhume.{name}.{export}" for export in exports(package[name])]
    parts = [_HEAD]
    for title, paths in sections.items():
        parts.append(f"**[{title}](#{anchor(title)})**\n\n| name | |\n|---|---|")
        parts[-1] += "".join(f"\n| {link(path, find(package, path))} | {cell(find(package, path))} |" for path in paths)
    for title, paths in sections.items():
        parts.append(f"## {title}")
        parts += [part for path in paths for part in described(path, find(package, path))]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def subjects(package: Any) -> dict[str, list[str]]:
    """The names that `exhume` exports, each under one subject."""
    public = set(exports(package))
    sections = {title: [name for name in names if "." in name or name in public] for title, names in SUBJECTS.items()}
    rest = sorted(public - {name for names in sections.values() for name in names})
    return {title: names for title, names in {**sections, "More": rest}.items() if names}


def exports(module: Any) -> list[str]:
    """The names in a module's `__all__`."""
    return [str(name) for name in module.exports]


def find(package: Any, path: str) -> Any:
    """The object at a public path. An imported name takes precedence over a module of the same name."""
    owner, _, name = path.rpartition(".")
    parent = package if owner == "exhume" else package[owner.removeprefix("exhume.")]
    found = parent.members[name]
    if found.is_module and name in parent.imports:
        return find(package, parent.imports[name])
    return found.final_target if found.is_alias else found


def heading(path: str, found: Any) -> str:
    """The heading of a public name; the prefix "class" also distinguishes the links of `Score` and `score`."""
    return f"class {path}" if found.is_class else path


def anchor(text: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def link(path: str, found: Any) -> str:
    """A link to the place where a name is described."""
    return f"[`{path.removeprefix('exhume.')}`](#{anchor(heading(path, found))})"


def cell(found: Any) -> str:
    """The first line of a docstring, escaped for a table."""
    return summary(found).replace("|", "\\|")


def summary(found: Any) -> str:
    """The first line of a docstring."""
    return plain(found.docstring.value.strip().splitlines()[0]) if found.docstring else ""


def plain(text: str) -> str:
    """The text with all Markdown markup except code escaped."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(piece if piece.startswith("`") else re.sub(r"([*<$])", r"\\\1", piece) for piece in pieces)


def described(path: str, found: Any) -> Iterator[str]:
    """One public name: heading, signature, docstring and members."""
    yield f"### {heading(path, found)}"
    if found.is_function or found.is_class:
        if shows_signature(found):
            yield signature(path, found)
    elif found.annotation is not None:
        yield f"`{path.rpartition('.')[2]}: {found.annotation}`"
    bases = [str(base) for base in found.bases] if found.is_class else []
    if bases:
        yield f"Bases: {', '.join(f'`{base}`' for base in bases)}."
    yield from documented(found)
    if found.is_class:
        yield from members(path.rpartition(".")[2], found, bases)


def shows_signature(found: Any) -> bool:
    """Whether users call it: functions, and classes that users construct."""
    if not found.is_class:
        return True
    own = [parameter for parameter in found.parameters if parameter.name != "self"]
    return bool(own) and not ("dataclass" in found.labels and len(own) > _MANY_FIELDS)


def signature(path: str, found: Any) -> str:
    """A call in a block of its own, on several lines if it is long."""
    line = call(path, found)
    if len(line) > _WIDTH:
        inner = "".join(f"    {word},\n" for word in parameters(found))
        line = f"{path}(\n{inner}){returned(found)}"
    return f"```py\n{line}\n```"


def call(path: str, found: Any) -> str:
    """A call with every parameter, its type and its default, and what it returns."""
    return f"{path}({', '.join(parameters(found))}){returned(found)}"


def returned(found: Any) -> str:
    """The annotated return type of a function."""
    return f" -> {found.returns}" if found.is_function and found.returns is not None else ""


def parameters(found: Any) -> Iterator[str]:
    """The parameters as written in a signature, without `self` and `cls`."""
    starred = False
    for parameter in found.parameters:
        kind = parameter.kind.value if parameter.kind else ""
        if parameter.name in ("self", "cls"):
            continue
        if kind == "keyword-only" and not starred:
            starred = True
            yield "*"
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        starred = starred or stars == "*"
        word = f"{stars}{parameter.name}"
        if parameter.annotation is not None:
            word += f": {parameter.annotation}"
        if parameter.default is not None and not stars:
            word += f" = {parameter.default}" if parameter.annotation is not None else f"={parameter.default}"
        yield word


def documented(found: Any) -> Iterator[str]:
    """The sections of a docstring."""
    if not found.docstring:
        return
    for section in found.docstring.parsed:
        kind = section.kind.value
        if kind == "text":
            for paragraph in section.value.split("\n\n"):
                yield f"```pycon\n{paragraph}\n```" if paragraph.startswith(">>> ") else plain(paragraph)
        elif kind == "examples":
            yield from (f"```pycon\n{text}\n```" if is_code else plain(text) for is_code, text in shown(section))
        elif kind in _TITLES:
            yield f"**{_TITLES[kind]}**\n\n" + "\n".join(entry(each) for each in section.value)
        else:
            raise ValueError(f"{found.path} has a section of kind {kind}, which this page cannot show")


def shown(section: Any) -> Iterator[tuple[bool, str]]:
    """The parts of an Examples section: whether each is code, and its text."""
    for kind, text in section.value:
        yield kind.value == "examples", text


def entry(item: Any) -> str:
    """One line of a list of parameters, attributes, results or errors."""
    annotation = getattr(item, "annotation", None)
    name = getattr(item, "name", "")
    words = [f"`{part.strip()}`" for part in name.split(",") if part.strip()] if name else []
    typed = f"`{annotation}`" if annotation is not None else ""
    if words and str(annotation) != name and typed:
        typed = f" ({typed})"
    elif words:
        typed = ""
    text = re.sub(r"\s+", " ", plain(item.description)).strip()
    return f"- {', '.join(words)}{typed}: {text}" if words or typed else f"- {text}"


def members(owner: str, found: Any, bases: Iterable[str]) -> Iterator[str]:
    """The members of a class: enumeration values, fields with a docstring, properties and methods."""
    public = {name: each for name, each in found.members.items() if not name.startswith("_") or name in _SPECIAL}
    public = {name: each for name, each in public.items() if not each.is_alias}
    fields = {name: each for name, each in public.items() if each.is_attribute and "property" not in each.labels}
    if any(base.endswith("Enum") for base in bases):
        yield "**Values**\n\n" + "\n".join(f"- `{owner}.{name}`: `{each.value}`" for name, each in fields.items())
    documented_fields = {name: each for name, each in fields.items() if each.docstring}
    if documented_fields:
        yield "**Attributes**\n\n" + "\n".join(field(name, each) for name, each in documented_fields.items())
    properties = {name: each for name, each in public.items() if "property" in each.labels}
    if properties:
        yield "**Properties**\n\n" + "\n".join(
            f"- `{name}` (`{each.annotation}`): {summary(each)}" for name, each in properties.items()
        )
    methods = {name: each for name, each in public.items() if each.is_function}
    short = {name: each for name, each in methods.items() if is_short(each)}
    if short:
        yield "**Methods**\n\n" + "\n".join(f"- `{call(name, each)}`: {summary(each)}" for name, each in short.items())
    for name, each in methods.items():
        if name not in short:
            called = f"{owner}.{name}" if name not in _SPECIAL else f"{owner}(...)"
            yield f"#### {called}"
            yield signature(called, each)
            yield from documented(each)


def is_short(method: Any) -> bool:
    """Whether the docstring of a method is a single line."""
    sections = method.docstring.parsed if method.docstring else []
    return all(section.kind.value == "text" and "\n" not in section.value.strip() for section in sections)


def field(name: str, each: Any) -> str:
    """A field with its type, its default and its docstring on one line."""
    default = f", default `{each.value}`" if each.value is not None else ""
    text = re.sub(r"\s+", " ", plain(each.docstring.value)).strip()
    return f"- `{name}` (`{each.annotation}`{default}): {text}"


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
