"""Dataclasses with tensors survive a round trip through tensors and JSON; anything else in a file is refused."""

import json
import math
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from typing import Any, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from exhume.errors import InputError
from exhume.support import files, serialise


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    loss: float
    rows: torch.Tensor | None = None


@dataclass(frozen=True)
class Outer:
    rows: torch.Tensor
    inner: Inner
    count: int = 0
    loss: float = math.inf
    name: str = ""
    done: bool = False
    colour: Colour = Colour.RED
    way: Literal["up", "down"] = "up"
    maybe: int | None = None
    number_or_word: float | str = 0.0
    losses: list[float] = field(default_factory=list)
    pair: tuple[int, str] = (0, "")
    sides: tuple[int, ...] = ()
    minima: list[tuple[float, torch.Tensor]] = field(default_factory=list)
    best: tuple[float, torch.Tensor] | None = None
    inners: dict[str, Inner] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


def tensors():
    shapes = st.lists(st.integers(0, 3), max_size=3)
    kinds = st.sampled_from([torch.float32, torch.float64, torch.int64, torch.bool])
    return st.builds(lambda shape, kind: (7 * torch.rand(shape) - 3).to(kind), shapes, kinds)


floats = st.floats()
inners = st.builds(Inner, loss=floats, rows=st.none() | tensors())
outers = st.builds(
    Outer,
    rows=tensors(),
    inner=inners,
    count=st.integers(),
    loss=floats,
    name=st.text(),
    done=st.booleans(),
    colour=st.sampled_from(Colour),
    way=st.sampled_from(["up", "down"]),
    maybe=st.none() | st.integers(),
    number_or_word=floats | st.sampled_from(["unknown", ""]),
    losses=st.lists(floats, max_size=3),
    pair=st.tuples(st.integers(), st.text()),
    sides=st.lists(st.integers(), max_size=3).map(tuple),
    minima=st.lists(st.tuples(floats, tensors()), max_size=3),
    best=st.none() | st.tuples(floats, tensors()),
    inners=st.dictionaries(st.sampled_from("abc"), inners, max_size=2),
    options=st.dictionaries(st.text(), st.booleans() | st.text() | st.none() | st.lists(st.integers())),
)


def equal(left, right):
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and left.shape == right.shape and torch.equal(left, right)
    if is_dataclass(left):
        pairs = ((getattr(left, each.name), getattr(right, each.name)) for each in fields(left))
        return type(left) is type(right) and all(equal(*pair) for pair in pairs)
    if isinstance(left, (list, tuple)):
        return type(left) is type(right) and len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(each, right[name]) for name, each in left.items())
    if isinstance(left, float) and math.isnan(left):
        return math.isnan(right)
    return type(left) is type(right) and left == right


@given(outers)
def test_a_round_trip_changes_nothing(value):
    tensors, plain = serialise.dump(value)
    assert equal(serialise.load(Outer, tensors, json.loads(json.dumps(plain, allow_nan=False))), value)


def test_tensors_that_share_memory_are_written_to_a_file(tmp_path):
    rows = torch.ones(2, 3)
    tensors, plain = serialise.dump(Outer(rows, Inner(1.0, rows), minima=[(0.5, rows)]))
    files.write_tensors(tmp_path / "state", tensors)
    loaded = serialise.load(Outer, files.read_tensors(tmp_path / "state"), plain)
    assert set(tensors) == {"rows", "inner.rows", "minima.0.1"}
    assert torch.equal(loaded.minima[0][1], rows)


def test_a_dump_is_a_snapshot():
    value = Outer(torch.zeros(3), Inner(0.0))
    tensors, _ = serialise.dump(value)
    value.rows.add_(1)
    assert not tensors["rows"].any()


@dataclass(frozen=True)
class Seeded:
    generator: torch.Generator


def test_a_generator_goes_on_where_it_was():
    value = Seeded(torch.Generator().manual_seed(5))
    torch.rand(7, generator=value.generator)
    tensors, plain = serialise.dump(value)
    again = serialise.load(Seeded, tensors, plain)
    assert torch.equal(torch.rand(9, generator=again.generator), torch.rand(9, generator=value.generator))


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    rows: torch.Tensor | None = None
    norm: float | None = None


@pytest.mark.parametrize("rows", [None, torch.arange(3.0)])
def test_pydantic_models_are_read_too(rows):
    again = serialise.load(Model, *serialise.dump(Model(rows=rows, norm=2.0)))
    assert again.norm == 2.0
    assert equal(again.rows, rows)


def test_missing_fields_take_their_defaults():
    assert serialise.load(Outer, {"rows": torch.ones(2)}, {"inner": {"loss": 1}}).colour is Colour.RED


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inner": {}}, "inner.loss is missing"),
        ({"inner": 3}, "inner is 3; it must be fields and their values"),
        ({"count": 1.5}, "count is 1.5; it must be a whole number"),
        ({"count": True}, "count is True; it must be a whole number"),
        ({"loss": "much"}, "loss is 'much'; it must be a number"),
        ({"loss": 10**400}, "it must be a number that fits a float"),
        ({"losses": [1, None]}, "losses.1 is None; it must be a number"),
        ({"pair": [1]}, r"pair is \[1\]; it must be a list of 2"),
        ({"done": 1}, "done is 1; it must be true or false"),
        ({"name": []}, r"name is \[\]; it must be a text"),
        ({"colour": "green"}, "colour is 'green'; it must be one of red, blue"),
        ({"way": "left"}, "way is 'left'; it must be 'up' or 'down'"),
        ({"minima": [[1.0, None]]}, "the tensor minima.0.1 is missing"),
        ({"wings": 2}, "wings is no field of Outer; valid: rows, inner"),
        ({"number_or_word": None}, "number_or_word is None; it must be a number or"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(change, message):
    with pytest.raises(InputError, match=message):
        serialise.load(Outer, {"rows": torch.ones(2)}, {"inner": {"loss": 1}} | change)


def test_a_tensor_that_is_named_but_not_there_is_refused():
    with pytest.raises(InputError, match="the tensor rows is missing"):
        serialise.load(Outer, {}, {"inner": {"loss": 1}, "rows": None})
    with pytest.raises(InputError, match="the tensor inner.rows is missing"):
        serialise.load(Outer, {"rows": torch.ones(1)}, {"inner": {"loss": 1, "rows": {"shape": [2]}}})


def test_a_damaged_generator_is_refused():
    with pytest.raises(InputError, match="not the state of a random generator"):
        serialise.load(Seeded, {"generator": torch.ones(3)}, {})


def test_tensors_are_put_on_the_device():
    value = Outer(torch.ones(2), Inner(0.0))
    loaded = serialise.load(Outer, *serialise.dump(value), device="meta")
    assert loaded.rows.device.type == "meta"


def test_a_value_of_no_such_type_is_not_written():
    with pytest.raises(TypeError, match="cannot be written"):
        serialise.dump(replace(Outer(torch.ones(1), Inner(0.0)), options={"set": {1}}))


@dataclass(frozen=True)
class Evaluated:
    rows: torch.Tensor
    residual: torch.Tensor | None = field(default=None, metadata={"saved": False})


def test_fields_that_are_not_saved_take_their_default():
    tensors, value = serialise.dump(Evaluated(torch.ones(2), torch.zeros(3)))
    assert list(tensors) == ["rows"]
    assert serialise.load(Evaluated, tensors, value).residual is None
    with pytest.raises(InputError, match="residual is no field of Evaluated; valid: rows"):
        serialise.load(Evaluated, tensors, value | {"residual": None})
