"""The target of an attack: a feature map and a head's displacement."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import ValidationError
from torch import nn

from exhume import files, networks
from exhume.displacement import HeadMove, move_of
from exhume.errors import FileError, InputError, unknown_name
from exhume.features import FeatureMap, ModuleFeatureMap, RandomFeatureMap, as_first_layer
from exhume.features.gaussian import usable
from exhume.features.module import KIND as MODULE
from exhume.features.module import probe_inputs
from exhume.features.random import KIND as RANDOM_FEATURES
from exhume.knowledge import Knowledge

_DESCRIPTION = "victim.json"
_WEIGHTS = "victim.safetensors"
_MODEL = "model."


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
        trained_head: (k, p) as trained, which makes the outputs; None if it started at zero and is the displacement.
        features: the map that is attacked: `feature_map`, or its surviving part.
    """

    feature_map: FeatureMap
    displacement: torch.Tensor
    knowledge: Knowledge = field(default_factory=Knowledge)
    input_shape: tuple[int, ...] = ()
    surviving: torch.Tensor | None = None
    trained_head: torch.Tensor | None = None
    features: FeatureMap = field(init=False)

    def __post_init__(self) -> None:
        features = self.feature_map
        if self.surviving is not None:
            features = features.subset(_checked_indices(self.surviving, features.num_features))
        object.__setattr__(self, "features", features)
        displacement = torch.atleast_2d(torch.as_tensor(self.displacement).detach())
        width = features.num_features
        if displacement.ndim != 2 or displacement.shape[1] != width:
            raise InputError(
                f"displacement of shape {tuple(self.displacement.shape)} does not fit {width} features; "
                f"expected (outputs, {width})"
            )
        _check_weights(displacement)
        shape = tuple(self.input_shape) or (features.input_dim,)
        if torch.Size(shape).numel() != features.input_dim:
            raise InputError(
                f"input shape {shape} has {torch.Size(shape).numel()} numbers, the model takes {features.input_dim}"
            )
        if self.trained_head is not None and self.trained_head.shape != displacement.shape:
            raise InputError(
                f"trained head of shape {tuple(self.trained_head.shape)} beside a displacement of "
                f"{tuple(displacement.shape)}"
            )
        object.__setattr__(self, "displacement", displacement.to(device=features.device, dtype=features.dtype))
        object.__setattr__(self, "input_shape", shape)

    @classmethod
    def last_layer(
        cls,
        module: nn.Module,
        head: str | None = None,
        *,
        initial_head: torch.Tensor | Mapping[str, torch.Tensor] | Literal["zero", "unknown"] = "unknown",
        initial_bias: torch.Tensor | Literal["zero", "unknown"] = "unknown",
        input_shape: tuple[int, ...],
        knowledge: Knowledge | None = None,
        memory_budget: int | str = "4GB",
    ) -> Target:
        """The target that any trained nn.Module makes.

        Args:
            module: trained, in eval mode.
            head: name of a linear layer or 1 x 1 convolution; by default the last that a forward pass runs through.
            initial_head: its weights before training; "zero"; or "unknown", in which case the trained weights stand
                for their displacement (what weight decay has left of the initial ones is noise). A whole state dict
                of the untrained module will do too, and gives the bias as well.
            initial_bias: likewise for its bias, if it has one. A known displacement of the bias is one more equation
                for every output; an unknown one is left out. If the features are homogeneous, these equations fix the
                samples' norms and nothing else, and are left out too unless there are as many as samples.
            input_shape: shape of one input.
            knowledge: what else the attacker is assumed to know.
            memory_budget: for activations.
        """
        if not isinstance(module, nn.Module):
            raise InputError(f"a target needs a torch.nn.Module, not a {type(module).__name__}")
        sides = input_shape if isinstance(input_shape, Sequence) else ()
        if not sides or any(not isinstance(side, int) or side < 1 for side in sides):
            raise InputError(f"input_shape {input_shape!r}; valid: a tuple of whole numbers above 0, as (3, 32, 32)")
        move = move_of(module, head, tuple(input_shape), initial_head, initial_bias)
        known = (knowledge or Knowledge()).model_copy(update={"initial_head": move.initial})
        body = ModuleFeatureMap(module, move.head.name, tuple(input_shape), memory_budget=memory_budget)
        enough = (known.num_samples or math.inf) <= move.head.num_outputs
        if body.symmetry.homogeneous and not enough:
            move = move.without_bias()
        if move.uses_bias:
            body = body.with_bias()
        return cls._of_move(body, move, known, tuple(input_shape))

    @classmethod
    def _of_move(
        cls, body: ModuleFeatureMap, move: HeadMove, knowledge: Knowledge, input_shape: tuple[int, ...]
    ) -> Target:
        kept = slice(None) if move.surviving is None else move.surviving
        return cls(
            fastest(body),
            move.displacement[:, kept],
            knowledge,
            input_shape,
            surviving=move.surviving,
            trained_head=move.trained[:, kept],
        )

    @property
    def fingerprint(self) -> str:
        """A hash of the weights and the features: results of another target do not belong to this one."""
        digest = hashlib.sha256(self.feature_map.identity().encode())
        digest.update(self.displacement.cpu().contiguous().view(torch.uint8).numpy().tobytes())
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

    def outputs(self, features: torch.Tensor) -> torch.Tensor:
        """The trained model's outputs (m, k) for features (m, p)."""
        head = self.displacement if self.trained_head is None else self.trained_head
        return features @ head.to(features).T

    def assuming(self, **known: Any) -> Target:
        """The same target with other knowledge."""
        return replace(self, knowledge=self.knowledge.model_copy(update=known))

    def save(self, folder: Path) -> None:
        """Writes what a thief would hold: `victim.safetensors` and `victim.json`."""
        description = {
            "features": self.feature_map.to_json(),
            "input_shape": list(self.input_shape),
            "knowledge": self.knowledge.model_dump(),
        }
        tensors = {"displacement": self.displacement}
        tensors |= {f"{_MODEL}{name}": tensor for name, tensor in self.feature_map.tensors().items()}
        for name, tensor in (("surviving", self.surviving), ("trained_head", self.trained_head)):
            if tensor is not None:
                tensors[name] = tensor.clone()
        files.write_tensors(Path(folder) / _WEIGHTS, tensors)
        files.write_json(Path(folder) / _DESCRIPTION, description)

    @classmethod
    def load(cls, folder: Path, *, memory_budget: int | str = "4GB", device: torch.device | str = "cpu") -> Target:
        """Reads `save`'s files."""
        description = files.read_json(Path(folder) / _DESCRIPTION)
        tensors = files.read_tensors(Path(folder) / _WEIGHTS)
        try:
            features, shape = description["features"], tuple(int(side) for side in description["input_shape"])
            knowledge = Knowledge.model_validate(description["knowledge"])
            displacement = tensors.pop("displacement")
        except (KeyError, TypeError, ValueError, ValidationError) as error:
            raise FileError(f"{folder} does not hold a whole victim: {error}") from error
        surviving, trained = tensors.pop("surviving", None), tensors.pop("trained_head", None)
        weights = {name.removeprefix(_MODEL): tensor for name, tensor in tensors.items()}
        feature_map = _build_features(features, weights, shape, memory_budget=memory_budget, device=device)
        return cls(feature_map, displacement, knowledge, shape, surviving, trained)


def fastest(body: ModuleFeatureMap) -> FeatureMap:
    """The module's features as act(W x + b) if they are, with all that is fast for random features; else as given."""
    if body.bias:
        return body
    probes = probe_inputs(body.module, body.input_shape)
    probes = torch.cat([probes, 20 * probes])  # some activations differ from others only far out
    features = body.forward(probes.reshape(len(probes), -1))
    return as_first_layer(body.module, body.layer, probes, features, origin=body) or body


def _build_features(
    value: dict[str, Any], weights: dict[str, torch.Tensor], shape: tuple[int, ...], **options: Any
) -> FeatureMap:
    kind = value.get("kind") if isinstance(value, dict) else value
    if kind == RANDOM_FEATURES:
        return RandomFeatureMap.from_json(value, **options)
    if kind != MODULE:
        raise unknown_name("kind of features", kind, (RANDOM_FEATURES, MODULE))
    try:
        network = networks.build(value["architecture"], value["config"])
        network.to(next((weight.dtype for weight in weights.values()), torch.float32)).load_state_dict(weights)
        head, bias = str(value["head"]), bool(value["bias"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise FileError(f"the description of the network does not fit its weights: {error}") from error
    network = network.to(usable(options["device"])).eval()
    return fastest(ModuleFeatureMap(network, head, shape, bias=bias, memory_budget=options["memory_budget"]))


def _check_weights(displacement: torch.Tensor) -> None:
    if not displacement.is_floating_point():
        raise InputError(f"weights must be floating-point numbers, not {displacement.dtype}")
    bad = int((~torch.isfinite(displacement)).sum())
    if bad:
        raise InputError(f"{bad} of {displacement.numel()} weights are NaN or infinite; nothing can be recovered")
    if not bool(displacement.any()):
        raise InputError("the head did not move: its displacement is zero, so it carries no training data")


def _checked_indices(indices: torch.Tensor, num_features: int) -> torch.Tensor:
    """The indices of surviving features, if they are some."""
    if indices.ndim != 1 or indices.is_floating_point() or indices.numel() == 0:
        raise InputError(f"surviving features are a list of indices, not a {indices.dtype} of {tuple(indices.shape)}")
    if int(indices.min()) < 0 or int(indices.max()) >= num_features or indices.unique().numel() < indices.numel():
        raise InputError(f"surviving features must be different numbers from 0 to {num_features - 1}")
    return indices
