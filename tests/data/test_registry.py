"""Behaviour of `load`, `available` and the place where data live."""

from __future__ import annotations

from pathlib import Path

import pytest

import exhume.data
from exhume.data import available, data_home, load, options_of
from exhume.data.registry import SOURCES
from exhume.errors import DataError, InputError

NAMES = ["sphere", "digits", "cifar10", "tiny-imagenet", "folder", "arrays", "table", "diabetes", "breast-cancer"]


def test_every_name_is_its_source_and_has_a_documented_loader() -> None:
    assert [info.name for info in available()] == NAMES
    for name in NAMES:
        source = SOURCES[name]
        assert source.name == name
        for option in source.load.__code__.co_varnames[: source.load.__code__.co_argcount]:
            assert f"{option}:" in source.load.__doc__, f"{name}: {option} is not documented"


def test_unknown_name_lists_the_valid_ones() -> None:
    with pytest.raises(InputError, match="'mnist'") as caught:
        load("mnist")
    assert all(name in str(caught.value) for name in NAMES)


def test_unknown_option_lists_the_valid_ones() -> None:
    with pytest.raises(InputError, match=r"unexpected keyword argument 'n'.*dim, samples, labels, subspace_dim, seed"):
        load("sphere", n=3)
    assert options_of("sphere") == ("dim", "samples", "labels", "subspace_dim", "seed")


def test_available_tells_found_from_missing(
    small_cifar: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXHUME_DATA", str(small_cifar))
    infos = {info.name: info for info in available()}
    assert infos["cifar10"].found
    assert infos["cifar10"].location == str(small_cifar / "cifar-10-batches-bin")
    assert not infos["tiny-imagenet"].found
    assert "tiny-imagenet-200.zip" in infos["tiny-imagenet"].how_to_get
    assert infos["digits"].found
    monkeypatch.setenv("EXHUME_DATA", str(tmp_path_factory.mktemp("empty")))
    assert not {info.name: info.found for info in available()}["cifar10"]


def test_home_is_the_variable_then_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EXHUME_DATA", str(tmp_path / "a"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert data_home() == tmp_path / "a"
    monkeypatch.setenv("EXHUME_DATA", "")
    assert data_home() == tmp_path / "b" / "exhume"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert data_home() == Path.home() / ".cache" / "exhume"


def test_loaders_use_the_variable(monkeypatch: pytest.MonkeyPatch, small_cifar: Path) -> None:
    monkeypatch.setenv("EXHUME_DATA", str(small_cifar))
    assert load("cifar10", per_class=1).num_samples == 2
    monkeypatch.setenv("EXHUME_DATA", str(small_cifar / "nowhere"))
    with pytest.raises(DataError, match="nowhere"):
        load("cifar10", per_class=1)


def test_exported_names_exist() -> None:
    assert all(hasattr(exhume.data, name) for name in exhume.data.__all__)
