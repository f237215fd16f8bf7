"""What an audit is asked to do: the settings of one model, from Python, the command line or a YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
)

from exhume import attacks
from exhume.auditing.thresholds import Threshold
from exhume.data import Column
from exhume.defences import DEFENCES
from exhume.errors import ExhumeError, InputError
from exhume.support.text import parse_bytes
from exhume.support.validation import one_of
from exhume.support.validation_errors import problems
from exhume.support.yaml_files import read_yaml
from exhume.target.knowledge_text import FROM_FILES, known_name, known_value

ALL = "all"
# What stands before the seeds among which that of the initial weights is searched for.
SEEDS = "seed:"


def _seed_range(value: Any) -> Any:
    """ "seed:0-99" names seeds from the first to the last; without a last one it is one seed."""
    if isinstance(value, str) and value.startswith(SEEDS):
        first, _, last = value.removeprefix(SEEDS).partition("-")
        if not (first.isdecimal() and (last or first).isdecimal() and int(first) <= int(last or first)):
            raise ValueError("valid: seed:FIRST-LAST, as seed:0-99999")
    return value


SeedRange = Annotated[str, Field(pattern=f"^{SEEDS}")]


def seeds_of(initial: str) -> range:
    """The seeds that "seed:0-99" names."""
    first, _, last = initial.removeprefix(SEEDS).partition("-")
    return range(int(first), int(last or first) + 1)


def _column(value: Any) -> Any:
    """A name alone will do for a column."""
    return Column(value) if isinstance(value, str) else value


def _threshold(value: Any) -> Any:
    return Threshold.parse(value) if isinstance(value, str) else value


class Settings(BaseModel):
    """One model to audit. Exactly one of `model`, `run` and `estimator` says what it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    """What the report calls it; by default the file that it comes from."""
    model: str | None = None
    """A file and a factory in it, as `mymodel.py:build`: your own code, run only because it is named here."""
    run: Path | None = None
    """A run folder made by `exhume train`."""
    estimator: Path | None = None
    """A fitted scikit-learn estimator or pipeline, written by `skops.io.dump`."""
    weights: Path | None = None
    """Trained weights, safetensors or a torch state dict; without them the factory returns a trained model."""
    initial: Literal["zero", "unknown"] | SeedRange | Path = "unknown"
    """Weights before training: a file, "zero" if the head started at zero, or "unknown"; "seed:0-99999" finds the seed
    under which `model` gives them, a folder of checkpoints the one from which the model was fine-tuned."""
    workers: PositiveInt = 1
    """Processes of the search for a seed."""
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
    reference: Path | None = None
    """A pool of samples of the same kind, such as a public data set: a baseline, beside `held_out`, without labels."""
    standardise: Literal["none", "subset"] = "none"
    """How columns of a table were standardised for training: not at all, or by the statistics of `truth` itself."""
    label_column: str | None = None
    """Which column of a table is the label."""
    columns: tuple[Annotated[Column, BeforeValidator(_column)], ...] = ()
    """Names of the inputs of a table, with unit, mean and std if there are any; a table in `truth` has its own."""
    classes: tuple[str, ...] = ()
    """Names of the outputs."""
    know: dict[str, Any] = Field(default_factory=dict)
    """What else the attacker is assumed to know: fields of `exhume.Knowledge`, tensors as files."""
    recipe: Path | None = None
    """How the model was trained: a YAML file of `exhume.Recipe`, for `replay`."""
    method: str = attacks.AUTO
    """An attack, or "auto": those that fit the model, until one result is certified."""
    seed: int = 0
    budget_passes: PositiveFloat = Field(20_000.0, allow_inf_nan=False)
    """Feature passes for all attacks on the model together."""
    budget_seconds: PositiveFloat = Field(1800.0, allow_inf_nan=False)
    """Seconds, likewise."""
    defences: tuple[str, ...] = ()
    """Families of alterations to measure; "all" for every one."""
    fail_on: tuple[Annotated[Threshold, BeforeValidator(_threshold)], ...] = ()
    """What makes the audit fail, such as "recovered=1"."""
    allow_inconclusive: bool = False
    """Exit with 0 instead of 3 where nothing is decided."""
    show_truth: bool = False
    """Show true samples in the report also where nothing was recovered."""
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
            clauses = problems(error, values, fields_at=lambda _: [*Settings.model_fields, "models"])
            raise InputError(f"invalid settings of an audit: {'; '.join(clauses)}") from error

    @field_validator("input_shape", "columns", "classes", "defences", "fail_on", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """A text is a list with commas between its entries; nothing is an empty list."""
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value or ()

    @field_validator("defences")
    @classmethod
    def _families(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """ "all" stands for every family."""
        for name in value:
            one_of("defence", name, (*DEFENCES, ALL))
        return tuple(DEFENCES) if ALL in value else value

    @field_validator("initial", mode="before")
    @classmethod
    def _seeds(cls, value: Any) -> Any:
        return _seed_range(value)

    @field_validator("memory_budget", "max_size")
    @classmethod
    def _size(cls, value: str) -> str:
        parse_bytes(value)
        return value

    @field_validator("method")
    @classmethod
    def _attack(cls, value: str) -> str:
        return one_of("method", value, (*attacks.ATTACKS, attacks.AUTO))

    @property
    def max_passes(self) -> float:
        """`budget_passes`; without a limit by default if there is a recipe, as a simulated training is many passes."""
        unlimited = self.recipe is not None and "budget_passes" not in self.model_fields_set
        return float("inf") if unlimited else self.budget_passes

    @property
    def title(self) -> str:
        """The model's name, or where it comes from."""
        source = self.run or self.estimator or self.weights
        return self.name or (source.stem if source else "") or str(self.model)

    @property
    def known(self) -> dict[str, Any]:
        """`know` by the names of knowledge, texts read as on the command line."""
        values = {}
        given = {} if self.recipe is None else {"recipe": str(self.recipe)}
        for name, value in (self.know | given).items():
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
    value = read_yaml(Path(path))
    if "models" not in value:
        return [_within(Path(path).parent, value)]
    models = value.pop("models")
    if not isinstance(models, list) or not models or not all(isinstance(each, dict) for each in models):
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
    settings = Settings(**value)
    placed: dict[str, Any] = {name: folder / each for name, each in settings if isinstance(each, Path)}
    placed["know"] = {
        name: str(folder / each) if isinstance(each, str) and known_name(name) in FROM_FILES else each
        for name, each in settings.know.items()
    }
    if settings.model is not None and settings.model.partition(":")[0].endswith(".py"):
        placed["model"] = str(folder / settings.model)
    return settings.model_copy(update=placed)
