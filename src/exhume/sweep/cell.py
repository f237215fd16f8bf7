"""One cell of a sweep: data, a victim, an attack and a seed, checked before anything runs; its key is a hash."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable
from dataclasses import fields
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from exhume import attacks, data, networks
from exhume.activations import get as activation_named

# Part of every key: a change of what a cell means makes new keys.
_SCHEMA = 1


def _number(value: Any) -> Any:
    # pydantic accepts True and "3" as numbers; in a grid they are mistakes.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PydanticCustomError("number", "Input should be a number")
    return value


Number = BeforeValidator(_number)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), Number]
Count = Annotated[int, Field(ge=1), Number]


class Spec(BaseModel):
    """A part of a cell: frozen, and strict about names."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DataSpec(Spec):
    """A data set by its name, and the options of its loader: {name: sphere, dim: 30, samples: 20}."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str

    @model_validator(mode="after")
    def _known(self) -> DataSpec:
        _only(f"data set {self.name} has no option", self.options, data.options_of(self.name))
        return self

    @property
    def options(self) -> dict[str, Any]:
        """The loader's options."""
        return dict(self.model_extra or {})

    def load(self, seed: int) -> data.Dataset:
        """Loads the data set; random data are drawn with the cell's seed."""
        drawn = {"seed": seed} if "seed" in data.options_of(self.name) else {}
        return data.load(self.name, **(drawn | self.options))


class RandomFeaturesSpec(Spec):
    """Random features: options of `RandomFeatures`, pruning after training, and the precision of the released head."""

    kind: Literal["rf"] = "rf"
    activation: str = "relu"
    loss: Literal["square", "logistic"] = "square"
    ridge: Annotated[float, Field(ge=0), Number] = 0.0
    max_steps: Count = 1_000_000
    dtype: Literal["float32", "float64"] = "float32"
    prune: Annotated[float, Field(gt=0, le=1), Number] | None = None
    prune_method: Literal["obs", "magnitude"] = "obs"
    released: Literal["as trained", "bfloat16", "float16", "int8"] = "as trained"

    @field_validator("activation")
    @classmethod
    def _known(cls, name: str) -> str:
        activation_named(name)
        return name


class NetworkSpec(Spec):
    """A network trained by gradient descent, with the settings of its architecture in `settings`."""

    kind: Literal["two-layer", "mlp", "resnet", "vit"]
    loss: Literal["square", "logistic", "cross-entropy"] = "square"
    step_size: Positive | None = None
    stable: bool = True
    weight_decay: Annotated[float, Field(ge=0), Number] = 0.0
    max_steps: Count = 1_000_000
    settings: dict[str, Any] = {}

    @model_validator(mode="after")
    def _known(self) -> NetworkSpec:
        valid = set(inspect.signature(networks.NETWORKS[self.kind]).parameters) - {"seed"}
        _only(f"{self.kind} has no setting", self.settings, valid, within="settings.")
        return self


VictimSpec = Annotated[RandomFeaturesSpec | NetworkSpec, Field(discriminator="kind")]


class AttackSpec(Spec):
    """An attack by its name, and its own options: {method: descent, max_steps: 5000}.

    Attributes:
        method: of `exhume.attacks`.
        num_samples: how many to look for: a number, "true" for n, or "estimate" to let the attack find it.
        max_passes: budget of feature passes for the search; None sets no limit.
        knows: what the adversary knows besides the weights.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    method: str
    num_samples: Count | Literal["true", "estimate"] = "true"
    max_passes: Positive | None = None
    knows: tuple[Literal["subspace"], ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return {"method": value} if isinstance(value, str) else value

    @field_validator("num_samples", mode="before")
    @classmethod
    def _true(cls, value: Any) -> Any:
        # YAML reads the unquoted word as a Boolean.
        return "true" if value is True else value

    @field_validator("knows", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _known(self) -> AttackSpec:
        if self.method in attacks.ATTACKS:
            valid = [field.name for field in fields(attacks.ATTACKS[self.method])]
            _only(f"{self.method} has no option", self.options, valid)
        built = attacks.build(self.method, self.options)
        for name, value in self.options.items():
            if isinstance(value, bool) and not isinstance(getattr(built, name), bool):
                raise ValueError(f"{name} is {value}; valid: a number")
        return self

    @property
    def options(self) -> dict[str, Any]:
        """The attack's own options."""
        return dict(self.model_extra or {})


class Cell(Spec):
    """One experiment: load the data, train the victim, attack it, score the result.

    Attributes:
        features: p; or
        ratio: the weights of the last layer as a multiple of d n (of r n for data in a subspace of dimension r).
        seed: of drawn data, of the victim and of the attack.
    """

    data: DataSpec
    victim: VictimSpec = RandomFeaturesSpec()
    features: Count | None = None
    ratio: Positive | None = None
    attack: AttackSpec
    seed: Annotated[int, Field(ge=0), Number] = 0

    @model_validator(mode="after")
    def _one_width(self) -> Cell:
        if (self.features is None) == (self.ratio is None):
            raise ValueError("give either features (p) or ratio (p / (d n)), and not both")
        return self

    @cached_property
    def key(self) -> str:
        """The hash of the whole configuration."""
        canonical = json.dumps({"schema": _SCHEMA, **self.to_json()}, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:20]

    def to_json(self) -> dict[str, Any]:
        """The configuration as plain JSON; `Cell.model_validate` reads it back."""
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def title(self) -> str:
        """A few words that distinguish the cells of a sweep."""
        width = f"p = {self.features}" if self.ratio is None else f"p = {self.ratio:g}dn"
        return f"{self.attack.method} on {self.victim.kind}, {self.data.name}, {width}, seed {self.seed}"


def _only(complaint: str, given: Iterable[str], valid: Iterable[str], within: str = "") -> None:
    unknown = sorted(set(given) - set(valid))
    if unknown:
        message = f"{complaint} {', '.join(map(repr, unknown))}; valid: {', '.join(sorted(valid)) or 'none'}"
        raise PydanticCustomError("unknown_option", "{message}", {"message": message, "name": within + unknown[0]})
