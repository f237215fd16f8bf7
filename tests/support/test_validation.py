"""User input is checked, and an error describes the problem in one sentence."""

from typing import Annotated, Literal

import pytest
import torch
import yaml
from pydantic import BaseModel, ConfigDict, Discriminator, Field, ValidationError, field_validator

from exhume.errors import FileError, InputError
from exhume.support.validation import finite, finite_rows, flag, one_of, positive_number, whole_number
from exhume.support.validation_errors import invalid, problems
from exhume.support.yaml_files import parse_yaml, read_yaml


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", True, None])
def test_whole_numbers(value):
    assert whole_number("width", 3) == 3
    assert whole_number("seed", 0, least=0) == 0
    with pytest.raises(InputError, match="width is .*; valid: a whole number of at least 1"):
        whole_number("width", value)


@pytest.mark.parametrize("value", [0, -1.0, float("inf"), float("nan"), "1", True, None])
def test_positive_numbers(value):
    assert positive_number("scale", 3) == 3.0
    with pytest.raises(InputError, match="scale is .*; valid: a positive number"):
        positive_number("scale", value)


@pytest.mark.parametrize("value", ["left", 3, None, ["up"]])
def test_words(value):
    assert one_of("way", "up", ("up", "down")) == "up"
    with pytest.raises(InputError, match="unknown way .*; valid: down, up"):
        one_of("way", value, ("up", "down"))


@pytest.mark.parametrize("value", [1, "true", None])
def test_flags(value):
    assert flag("bias", False) is False
    with pytest.raises(InputError, match="bias is .*; valid: true or false"):
        flag("bias", value)


def test_rows():
    images = torch.rand(2, 1, 3, 3)
    assert finite_rows("inputs", images, 9).shape == (2, 9)
    for wrong in (torch.rand(0, 9), torch.rand(9), torch.rand(2, 8)):
        with pytest.raises(InputError, match=r"inputs of shape .*; valid: \(n, 9\), n at least 1"):
            finite_rows("inputs", wrong, 9)
    with pytest.raises(InputError, match="1 of 3 numbers in labels are NaN or infinite"):
        finite("labels", torch.tensor([1.0, float("nan"), 2.0]))


class Wide(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["wide"]
    width: int = Field(ge=1)


class Deep(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["deep"]
    depth: int


class Plan(BaseModel):
    model_config = ConfigDict(extra="forbid")
    norm: float | None = Field(default=None, gt=0)
    samples: Annotated[int, Field(ge=1)] | Literal["true", "estimate"] = 1
    nets: list[Annotated[Wide | Deep, Discriminator("kind")]] = []
    word: str = "a"

    @field_validator("word")
    @classmethod
    def _check(cls, value):
        if value == "b":
            raise ValueError("valid: a, c")
        if value == "d":
            raise ValueError("d is the fourth letter")
        return value


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"norm": -1.0}, "norm is -1.0; it must be greater than 0"),
        ({"samples": 0}, "samples is 0; it must be greater than or equal to 1 or 'true' or 'estimate'"),
        ({"nets": [{"kind": "wide", "width": 0}]}, "nets[0].width is 0; it must be greater than or equal to 1"),
        ({"nets": [{"kind": "deep"}]}, "nets[0].depth is missing"),
        ({"nets": [{"kind": "round"}]}, "nets[0].kind is 'round'; valid: 'wide', 'deep'"),
        ({"nets": [{"kind": "deep", "depth": 2, "width": 1}]}, "nets[0].width is unknown; valid: x, y"),
        ({"word": "b"}, "word is 'b'; valid: a, c"),
        ({"word": "d"}, "word: d is the fourth letter"),
        ({"colour": 1}, "colour is unknown; valid: x, y"),
    ],
)
def test_what_pydantic_found_is_said_in_a_sentence(given, sentence):
    with pytest.raises(ValidationError) as error:
        Plan(**given)
    assert problems(error.value, given, fields_at=lambda location: ("x", "y")) == [sentence]


def test_several_problems_are_one_error():
    given = {"norm": -1.0, "colour": 1}
    with pytest.raises(ValidationError) as error:
        Plan(**given)
    assert str(invalid("Plan", error.value, given)) == (
        "invalid Plan: norm is -1.0; it must be greater than 0; colour is unknown"
    )


def test_yaml_of_plain_values_is_read():
    assert parse_yaml(b"ratio: [1, 1e-3]\nname: yes") == {"ratio": [1, 1e-3], "name": True}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it holds nothing"),
        ("[1]", "it holds a list"),
        ("word", "it holds a text"),
        ("3", "it holds 3"),
        ("a: 2020-01-01", "a is datetime.date"),
        ("a: 2020-99-99", "a value that cannot be read"),
        ("a: {1: 2}", "a has a field 1; valid: names"),
        ("a: &x [*x]", "nested too deeply"),
        ("a: " + "[" * 1000, "nested too deeply"),
    ],
)
def test_other_yaml_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_yaml(text)


@pytest.mark.parametrize("text", ["a: 1\na: 2", "a: [", "a: !!python/object:os.system {}"])
def test_yaml_with_repeated_keys_or_objects_is_no_yaml(text, tmp_path):
    with pytest.raises(yaml.YAMLError):
        parse_yaml(text)
    file = tmp_path / "a.yaml"
    file.write_text(text)
    with pytest.raises(FileError, match="not readable YAML"):
        read_yaml(file)


def test_files_of_yaml(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a: 1")
    assert read_yaml(file) == {"a": 1}
    file.write_text("#" * 2**21)
    with pytest.raises(FileError, match="bytes; at most"):
        read_yaml(file)
    with pytest.raises(FileError, match="does not exist"):
        read_yaml(tmp_path / "none")
