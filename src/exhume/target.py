"""The target of an attack: a feature map and a head's displacement, and what the attacker is assumed to know."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError

from exhume import files
from exhume.errors import FileError, InputError, unknown_name
from exhume.features import FeatureMap, RandomFeatureMap
from exhume.features.random import KIND as RANDOM_FEATURES

_DESCRIPTION = "victim.json"
_WEIGHTS = "victim.safetensors"


class Knowledge(BaseModel):
    """What the attacker is assumed to know besides the weights. Every field is optional and stated in the result."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_samples: PositiveInt | None = None
    """How many samples the model was trained on."""
    label_alphabet: Literal["signs", "one-hot"] | None = None
    """That the model outputs -1 / +1, or one-hot vectors, on its training samples: it interpolates such labels.
    ReLU models then give up the norms of their samples too; if the model does not interpolate, wrong ones."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise InputError(f"this cannot be known: {problems}") from error

    @classmethod
    def about(cls, labels: torch.Tensor, *, interpolated: bool = True) -> Knowledge:
        """What somebody who knows the task would know of these labels: how many they are and their alphabet.

        Args:
            labels: (n,) or (n, k).
            interpolated: whether the model fits them exactly; if not, the alphabet tells nothing of its outputs.
        """
        alphabet: Literal["signs", "one-hot"] | None = None
        if not interpolated:
            pass
        elif labels.ndim == 1 and bool((labels.abs() == 1).all()):
            alphabet = "signs"
        elif labels.ndim == 2 and bool(((labels == 0) | (labels == 1)).all() and (labels.sum(1) == 1).all()):
            alphabet = "one-hot"
        return cls(num_samples=labels.shape[0], label_alphabet=alphabet)


@dataclass(frozen=True)
class Target:
    """Theta = A^T Phi(X): a head's displacement (k, p), in the span of the features of the unknown inputs X.

    Attributes:
        feature_map: phi, the body of the model under attack.
        displacement: trained minus initial head, (k, p); a vector (p,) is taken as one output.
        knowledge: what the attacker is assumed to know.
        input_shape: shape of one input, such as (3, 32, 32); (d,) for plain vectors.
        surviving: indices of the features that a pruned head still reads; `displacement` has a column for each, and
            `features` is the map onto them.
        features: the map that is attacked: `feature_map`, or its surviving part.
    """

    feature_map: FeatureMap
    displacement: torch.Tensor
    knowledge: Knowledge = field(default_factory=Knowledge)
    input_shape: tuple[int, ...] = ()
    surviving: torch.Tensor | None = None
    features: FeatureMap = field(init=False)

    def __post_init__(self) -> None:
        features = self.feature_map
        if self.surviving is not None:
            features = features.subset(_checked_indices(self.surviving, features.num_features))
        object.__setattr__(self, "features", features)
        displacement = torch.atleast_2d(torch.as_tensor(self.displacement).detach())
        if not displacement.is_floating_point():
            raise InputError(f"weights must be floating-point numbers, not {displacement.dtype}")
        num_features, input_dim = features.num_features, features.input_dim
        if displacement.ndim != 2 or displacement.shape[1] != num_features:
            raise InputError(
                f"displacement of shape {tuple(self.displacement.shape)} does not fit {num_features} features; "
                f"expected (outputs, {num_features})"
            )
        bad = int((~torch.isfinite(displacement)).sum())
        if bad:
            raise InputError(f"{bad} of {displacement.numel()} weights are NaN or infinite; nothing can be recovered")
        if not bool(displacement.any()):
            raise InputError("the head did not move: its displacement is zero, so it carries no training data")
        shape = tuple(self.input_shape) or (input_dim,)
        if torch.Size(shape).numel() != input_dim:
            raise InputError(
                f"input shape {shape} has {torch.Size(shape).numel()} numbers, the model takes {input_dim}"
            )
        object.__setattr__(
            self, "displacement", displacement.to(device=self.feature_map.device, dtype=self.feature_map.dtype)
        )
        object.__setattr__(self, "input_shape", shape)

    @property
    def fingerprint(self) -> str:
        """A hash of the weights and the features: results of another target do not belong to this one."""
        digest = hashlib.sha256(json.dumps(self.feature_map.to_json(), sort_keys=True).encode())
        digest.update(self.displacement.cpu().numpy().tobytes())
        if self.surviving is not None:
            digest.update(self.surviving.cpu().numpy().tobytes())
        return digest.hexdigest()

    @property
    def num_outputs(self) -> int:
        """k."""
        return int(self.displacement.shape[0])

    @property
    def num_parameters(self) -> int:
        """k p: the equations the attacker holds."""
        return self.displacement.numel()

    def save(self, folder: Path) -> None:
        """Writes what a thief would hold: `victim.safetensors` and `victim.json`."""
        tensors = {"displacement": self.displacement}
        if self.surviving is not None:
            tensors["surviving"] = self.surviving
        files.write_tensors(Path(folder) / _WEIGHTS, tensors)
        files.write_json(
            Path(folder) / _DESCRIPTION,
            {
                "features": self.feature_map.to_json(),
                "input_shape": list(self.input_shape),
                "knowledge": self.knowledge.model_dump(),
            },
        )

    @classmethod
    def load(cls, folder: Path, *, memory_budget: int | str = "4GB", device: torch.device | str = "cpu") -> Target:
        """Reads `save`'s files."""
        description = files.read_json(Path(folder) / _DESCRIPTION)
        tensors = files.read_tensors(Path(folder) / _WEIGHTS)
        try:
            features, shape = description["features"], tuple(int(side) for side in description["input_shape"])
            knowledge = Knowledge.model_validate(description["knowledge"])
            displacement = tensors["displacement"]
        except (KeyError, TypeError, ValueError, ValidationError) as error:
            raise FileError(f"{folder} does not hold a whole victim: {error}") from error
        feature_map = _build_features(features, memory_budget=memory_budget, device=device)
        return cls(feature_map, displacement, knowledge, shape, tensors.get("surviving"))


def _checked_indices(indices: torch.Tensor, num_features: int) -> torch.Tensor:
    """The indices of surviving features, if they are some."""
    if indices.ndim != 1 or indices.is_floating_point() or indices.numel() == 0:
        raise InputError(f"surviving features are a list of indices, not a {indices.dtype} of {tuple(indices.shape)}")
    if int(indices.min()) < 0 or int(indices.max()) >= num_features or indices.unique().numel() < indices.numel():
        raise InputError(f"surviving features must be different numbers from 0 to {num_features - 1}")
    return indices


def _build_features(value: dict[str, Any], **options: Any) -> FeatureMap:
    builders = {RANDOM_FEATURES: RandomFeatureMap.from_json}
    kind = value.get("kind") if isinstance(value, dict) else value
    if kind not in builders:
        raise unknown_name("kind of features", kind, builders)
    return builders[kind](value, **options)
