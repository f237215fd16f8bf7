"""What an audit is asked to do: the settings of one model, from Python, the command line or a YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError, field_validator

from exhume import attacks, files
from exhume.auditing.thresholds import Threshold
from exhume.data import Column
from exhume.defences import DEFENCES
from exhume.errors import ExhumeError, FileError, InputError, brief, unknown_name
from exhume.features import parse_bytes
from exhume.known_values import FROM_FILES, known_name, known_value

AUTO = "auto"
ALL = "all"
# A file of settings is written by hand; a larger one is something else.
_LARGEST = 1 << 20
_PATHS = ("run", "weights", "truth", "labels", "held_out", "held_out_labels")


class Settings(BaseModel):
    """One model to audit. Exactly one of `model`, `architecture` and `run` says what it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    """What the report calls it; by default the file that it comes from."""
    model: str | None = None
    """A file and a factory in it, as `mymodel.py:build`: your own code, run only because it is named here."""
    architecture: str | None = None
    """An architecture that exhume knows: two-layer, mlp, resnet or vit."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Settings of that architecture, as far as the shapes of the weights do not show them."""
    run: Path | None = None
    """A run folder made by `exhume train`."""
    weights: Path | None = None
    """Trained weights, safetensors or a torch state dict; without them the factory returns a trained model."""
    initial: Path | Literal["zero", "unknown"] = "unknown"
    """Weights before training: a file, "zero" if the head started at zero, or "unknown"."""
    head: str | None = None
    """The layer that is attacked; by default the last linear one."""
    input_shape: tuple[PositiveInt, ...] = ()
    """Shape of one input."""
    num_samples: PositiveInt | None = None
    """How many samples the attacker is assumed to look for; by default as many as `truth` has, else estimated."""
    truth: Path | None = None
    """The training inputs, for the score alone: .npy, .npz, .csv, .safetensors, or a folder of pictures."""
    labels: Path | None = None
    """Their labels, if `truth` does not hold them."""
    held_out: Path | None = None
    """Data of the same kind that were not trained on, for the utility of defences and a baseline."""
    held_out_labels: Path | None = None
    standardise: Literal["none", "subset"] = "none"
    """How columns of a table were standardised for training: not at all, or by the statistics of `truth` itself."""
    label_column: str | None = None
    """Which column of a table is the label."""
    columns: tuple[Column, ...] = ()
    """Names of the inputs of a table, with unit, mean and std if there are any; a table in `truth` has its own."""
    classes: tuple[str, ...] = ()
    """Names of the outputs."""
    know: dict[str, Any] = Field(default_factory=dict)
    """What else the attacker is assumed to know: fields of `exhume.Knowledge`, tensors as files."""
    method: str = AUTO
    """An attack, or "auto": those that fit the model, until one vouches for its result."""
    seed: int = 0
    budget_passes: PositiveFloat = Field(20_000.0, allow_inf_nan=False)
    """Feature passes for all attacks on the model together."""
    budget_seconds: PositiveFloat = Field(1800.0, allow_inf_nan=False)
    """Seconds, likewise."""
    defences: tuple[str, ...] = ()
    """Families of alterations to measure; "all" for every one."""
    fail_on: tuple[Threshold, ...] = ()
    """What makes the audit fail, such as "recovered=1"."""
    redact: bool = False
    """Blur pictures and withhold values in the report."""
    memory_budget: str = "4GB"
    max_size: str = "4GB"
    """Largest file of weights or data that is opened."""
    device: str = "cpu"

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise InputError(f"these settings of an audit cannot be used: {_problems(error)}") from error
        except TypeError as error:  # a number where a list of names belongs
            raise InputError(f"these settings of an audit cannot be used: {brief(error)}") from error

    @field_validator("fail_on", mode="before")
    @classmethod
    def _parsed(cls, value: Any) -> Any:
        """Texts become thresholds; one text may stand alone."""
        texts = [value] if isinstance(value, str | Threshold) else value
        return tuple(Threshold.parse(each) if isinstance(each, str) else each for each in texts or ())

    @field_validator("defences", mode="before")
    @classmethod
    def _families(cls, value: Any) -> Any:
        """ "all" or True stands for every family; unknown ones are named."""
        named = value.split(",") if isinstance(value, str) else (ALL,) if value is True else tuple(value or ())
        named = tuple(str(name).strip() for name in named)
        if ALL in named:
            return tuple(DEFENCES)
        for name in named:
            if name not in DEFENCES:
                raise unknown_name("defence", name, (*DEFENCES, ALL))
        return named

    @field_validator("memory_budget", "max_size")
    @classmethod
    def _size(cls, value: str) -> str:
        parse_bytes(value)
        return value

    @field_validator("method")
    @classmethod
    def _attack(cls, value: str) -> str:
        if value != AUTO and value not in attacks.ATTACKS:
            raise unknown_name("method", value, (*attacks.ATTACKS, AUTO))
        return value

    @field_validator("columns", mode="before")
    @classmethod
    def _columns(cls, value: Any) -> Any:
        """A name alone will do for a column."""
        named = value.split(",") if isinstance(value, str) else value or ()
        return tuple({"name": each} if isinstance(each, str) else each for each in named)

    @field_validator("classes", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        return tuple(value.split(",")) if isinstance(value, str) else value

    @field_validator("input_shape", mode="before")
    @classmethod
    def _sides(cls, value: Any) -> Any:
        sides = value.split(",") if isinstance(value, str) else value
        if isinstance(value, str) and not all(side.strip().isdigit() for side in sides):
            raise InputError(f"{value!r} is no shape; valid: whole numbers with commas between them, as 3,32,32")
        return tuple(sides) if isinstance(sides, list) else sides

    @property
    def title(self) -> str:
        """The model's name, or where it comes from."""
        source = self.run or self.weights
        return self.name or (source.stem if source else "") or self.model or str(self.architecture)

    @property
    def known(self) -> dict[str, Any]:
        """`know` by the names of knowledge, texts read as on the command line."""
        values = {}
        for name, value in self.know.items():
            plain = known_name(name)
            text = isinstance(value, str)
            values[plain] = known_value(plain, value) if text else tuple(value) if isinstance(value, list) else value
        return values

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values that `Settings(**value)` takes again; of known tensors their shape."""
        know = {name: list(value.shape) if hasattr(value, "shape") else value for name, value in self.know.items()}
        plain = self.model_copy(update={"know": know})
        return plain.model_dump(mode="json") | {"fail_on": [str(each) for each in self.fail_on]}


def read_settings(path: Path) -> list[Settings | Refused]:
    """The models of a YAML file: its settings are those of one model, or common to all under `models`.

    Paths in it are relative to the file's folder. Settings of one model that cannot be used do not keep the others
    from being read.
    """
    value = _read_yaml(Path(path))
    if "models" not in value:
        return [_within(Path(path).parent, value)]
    models = value.pop("models")
    if not isinstance(models, list) or not models or not all(_named(each) for each in models):
        raise InputError(f"models in {path} must be a list of settings, one entry a model")
    return [_read_one(Path(path).parent, value | each, place) for place, each in enumerate(models, start=1)]


class Refused(BaseModel):
    """Settings that could not be used, and why."""

    model_config = ConfigDict(frozen=True)

    name: str
    reason: str


def _read_one(folder: Path, value: dict[str, Any], place: int) -> Settings | Refused:
    try:
        return _within(folder, value)
    except ExhumeError as error:
        return Refused(name=str(value.get("name") or f"model {place}"), reason=str(error))


def _within(folder: Path, value: dict[str, Any]) -> Settings:
    """Settings with their paths taken from a folder."""
    placed = dict(value)
    for name in _PATHS:
        if isinstance(value.get(name), str):
            placed[name] = folder / value[name]
    initial, model = value.get("initial"), value.get("model")
    if isinstance(initial, str) and initial not in ("zero", "unknown"):
        placed["initial"] = folder / initial
    know = value.get("know")
    if isinstance(know, dict):
        files_of = {
            name: each for name, each in know.items() if isinstance(each, str) and known_name(name) in FROM_FILES
        }
        placed["know"] = know | {name: str(folder / each) for name, each in files_of.items()}
    if isinstance(model, str) and model.partition(":")[0].endswith(".py"):
        placed["model"] = str(folder / model)
    return Settings(**placed)


def _read_yaml(path: Path) -> dict[str, Any]:
    """One mapping from a YAML file, by the safe loader."""
    try:
        size = files.regular_size(path)
        if size > _LARGEST:
            raise FileError(f"{path} has {size} bytes; a file of settings has at most {_LARGEST}")
        value = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:  # ValueError: no such date, for one
        raise FileError(f"{path} is not readable YAML: {brief(error)}") from error
    if not _named(value):
        raise InputError(f"{path} must hold settings as name: value; valid names: {', '.join(_names())}")
    return value


def _named(value: Any) -> bool:
    """Whether it is a mapping whose keys are names."""
    return isinstance(value, dict) and all(isinstance(name, str) for name in value)


def _problems(error: ValidationError) -> str:
    """What is wrong, a clause for each problem; names that are not known are answered by those that are."""
    clauses = []
    for each in error.errors():
        where = ".".join(map(str, each["loc"]))
        if each["type"] == "extra_forbidden":
            clauses.append(f"there is no {where}; valid: {', '.join(_names())}")
        else:
            clauses.append(f"{where}: {each['msg']}" if where else each["msg"])
    return "; ".join(clauses)


def _names() -> list[str]:
    return [*Settings.model_fields, "models"]
