"""An attack of one's own, read from one Python file."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path

from exhume.attacks import ATTACKS, Attack
from exhume.errors import FileError, InputError, brief

_EXAMPLE = "myattack.py:MyAttack"


def load_attack(place: str) -> Attack:
    """The attack that FILE.py:CLASS names, with its default settings. The file is run: only load code that you trust.

    Args:
        place: a Python file and the name of a subclass of `exhume.attacks.Attack` in it, such as myattack.py:MyAttack.
    """
    file, colon, name = place.rpartition(":")
    path = Path(file)
    if not colon or not name.isidentifier() or path.suffix != ".py":
        raise InputError(f"attack {place!r} is not of the form FILE.py:CLASS; valid: for instance {_EXAMPLE}")
    if not path.is_file():
        raise FileError(f"{path} does not exist; valid: a Python file with a subclass of exhume.attacks.Attack")
    kind = getattr(_module(path), name, None)
    if not (isinstance(kind, type) and issubclass(kind, Attack)):
        raise InputError(f"{path} has no subclass of exhume.attacks.Attack with the name {name}; valid: {_EXAMPLE}")
    own = getattr(kind, "name", None)
    if not isinstance(own, str) or not own.isidentifier():
        raise InputError(f"{name}.name is {own!r}; valid: a word that names the attack in the table")
    if own in ATTACKS:
        raise InputError(f"{name}.name is {own!r}, which is an attack of exhume; valid: another name")
    try:
        return kind()
    except Exception as error:
        raise InputError(f"{place} cannot be made with its default settings: {brief(error)}") from error


def source_hash(attack: Attack) -> str:
    """Hash of the file that an attack of one's own is in; empty for an attack of exhume, which has a version."""
    if type(attack).__module__.startswith("exhume."):
        return ""
    file = getattr(sys.modules[type(attack).__module__], "__file__", None)
    return hashlib.sha256(Path(str(file)).read_bytes()).hexdigest()[:16]


def _module(path: Path) -> object:
    """Runs the file under a name of its own; dataclasses look their module up by it."""
    name = f"exhume_foreign_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise FileError(f"{path} cannot be run: {type(error).__name__}: {brief(error)}") from error
    return module
