"""Random features phi(x) = act(V x), Eq. (1): one-layer features whose matrix is given by a seed."""

from __future__ import annotations

import json
from typing import Any

import torch

from exhume import activations
from exhume.errors import FileError, InputError
from exhume.features.matrix import GaussianMatrix
from exhume.features.one_layer import OneLayerMap
from exhume.features.protocol import Saveable
from exhume.support.distributed import WHOLE

KIND = "random_features"


class RandomFeatureMap(OneLayerMap, Saveable):
    """phi(x) = act(V x), Eq. (1), for a Gaussian V of variance 1/d that its seed defines."""

    def identity(self) -> str:
        """The description as one string."""
        return json.dumps(self.to_json(), sort_keys=True)

    def tensors(self) -> dict[str, torch.Tensor]:
        """None: V is its seed."""
        return {}

    def to_json(self) -> dict[str, Any]:
        """Sizes, seed, activation and precision: V is its seed."""
        seeded = self.matrix if isinstance(self.matrix, GaussianMatrix) else None
        if seeded is None or not seeded.is_defined_by_seed or self.coordinates is not WHOLE:
            raise InputError("only features of a complete seeded matrix can be described in words")
        if self.activation.name not in activations.names() or activations.get(self.activation.name) != self.activation:
            raise InputError(f"activation {self.activation.name!r} must be registered before it can be saved by name")
        return {
            "kind": KIND,
            "num_features": self.num_features,
            "input_dim": self.input_dim,
            "activation": self.activation.name,
            "seed": seeded.seed,
            "dtype": str(self.dtype).removeprefix("torch."),
        }

    @classmethod
    def from_json(
        cls, value: dict[str, Any], *, memory_budget: int | str = "4GB", device: torch.device | str = "cpu"
    ) -> RandomFeatureMap:
        """Builds the map from what `to_json` wrote."""
        try:
            sizes = int(value["num_features"]), int(value["input_dim"]), int(value["seed"])
            name, dtype = str(value["activation"]), {"float32": torch.float32, "float64": torch.float64}[value["dtype"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FileError(f"the description of the random features is incomplete or wrong: {error!r}") from error
        return cls(GaussianMatrix(*sizes, memory_budget=memory_budget, device=device), name, dtype)
