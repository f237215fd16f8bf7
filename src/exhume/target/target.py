"""The target of an attack: a feature map and a head's displacement."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from exhume import files
from exhume.displacement import HeadMove, Initial, InitialBias, move_of
from exhume.errors import FileError, InputError, brief
from exhume.features import FeatureMap, ModuleFeatureMap
from exhume.features.heads import refuse_training_mode
from exhume.features.sharded import sharded
from exhume.features.stored import build_features, fastest
from exhume.knowledge import Knowledge
from exhume.model import Model, trained_names
from exhume.sharding import Processes, coordinates_of

_DESCRIPTION = "victim.json"
_WEIGHTS = "victim.safetensors"
_INITIAL = "initial.safetensors"
_MODEL, _KNOWN = "model.", "known."


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
        model: the whole network, for attacks that read more than its head; None if there is only a feature map.
        whole: where this is a part of a target, the fingerprint of the whole, or nothing.
        features: the map that is attacked: `feature_map`, or its surviving part.

    Examples:
        >>> import exhume
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 50), torch.nn.GELU(), torch.nn.Linear(50, 3)).eval()
        >>> target = exhume.Target.last_layer(model, initial_head="zero", input_shape=(8,))
        >>> target.num_outputs, target.num_parameters
        (3, 150)
    """

    feature_map: FeatureMap
    displacement: torch.Tensor
    knowledge: Knowledge = field(default_factory=Knowledge)
    input_shape: tuple[int, ...] = ()
    surviving: torch.Tensor | None = None
    trained_head: torch.Tensor | None = None
    model: Model | None = None
    whole: str | None = None
    features: FeatureMap = field(init=False)

    def __post_init__(self) -> None:
        features = self.feature_map
        if self.surviving is not None:
            features = features.subset(_checked_indices(self.surviving, features.num_features))
        object.__setattr__(self, "features", features)
        displacement = torch.atleast_2d(torch.as_tensor(self.displacement).detach())
        width = coordinates_of(features).width(features.num_features)
        if displacement.ndim != 2 or displacement.shape[1] != width:
            raise InputError(
                f"displacement of shape {tuple(self.displacement.shape)} does not fit {width} features; "
                f"expected (outputs, {width})"
            )
        if self.whole is None:  # a part of the weights may well be zero
            _check_weights(displacement)
        shape = tuple(self.input_shape) or (features.input_dim,)
        if math.prod(shape) != features.input_dim or min(shape) < 1:
            raise InputError(
                f"input shape {brief(shape, 80)} has {brief(math.prod(shape), 30)} numbers, "
                f"the model takes {features.input_dim}"
            )
        for name in ("samples", "subspace"):
            rows = getattr(self.knowledge, name)
            if rows is not None and rows.shape[1] != features.input_dim:
                raise InputError(
                    f"known {name} have {rows.shape[1]} numbers a row, the model takes {features.input_dim}"
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
        initial_head: Initial = "unknown",
        initial_bias: InitialBias = "unknown",
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
        refuse_training_mode(module)
        move = move_of(module, head, tuple(input_shape), initial_head, initial_bias)
        before = _initial_weights(module, move, initial_head, initial_bias)
        model = Model(module, move.head.name, trained_names(module), before)
        body_known = any(not model.in_head(name) for name in before)
        known = (knowledge or Knowledge()).knowing(
            initial_head=move.initial, initial_body="known" if body_known else "unknown"
        )
        body = ModuleFeatureMap(module, move.head.name, tuple(input_shape), memory_budget=memory_budget)
        enough = (known.num_samples or math.inf) <= move.head.num_outputs
        if body.symmetry.homogeneous and not enough:
            move = move.without_bias()
        if move.uses_bias:
            body = body.with_bias()
        kept = slice(None) if move.surviving is None else move.surviving
        return cls(
            fastest(body),
            move.displacement[:, kept],
            known,
            tuple(input_shape),
            surviving=move.surviving,
            trained_head=move.trained[:, kept],
            model=replace(model, module=body.module),  # a copy
        )

    @property
    def known_model(self) -> Model | None:
        """The whole network, with as much of its initial weights as the knowledge allows."""
        if self.model is None:
            return None
        known = self.knowledge
        return self.model.knowing(head=known.initial_head != "unknown", body=known.initial_body == "known")

    @property
    def fingerprint(self) -> str:
        """A hash of the weights and the features: results of another target do not belong to this one."""
        if self.whole is not None:
            return self.whole
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
        return self.num_outputs * self.features.num_features

    def outputs(self, features: torch.Tensor) -> torch.Tensor:
        """The trained model's outputs (m, k) for features (m, p)."""
        head = self.displacement if self.trained_head is None else self.trained_head
        return coordinates_of(self.features).sum(features @ head.to(features).T)

    def assuming(self, **known: Any) -> Target:
        """The same target with other knowledge."""
        return self.with_knowledge(self.knowledge.knowing(**known))

    def with_knowledge(self, knowledge: Knowledge) -> Target:
        """The same target under other knowledge, of initial weights no more than it holds.

        Where the head's initial weights are forgotten, or taken for zero, the trained ones stand for the displacement.
        """
        gained = knowledge.initial_body == "known" and self.knowledge.initial_body == "unknown"
        if gained and not self._holds_initial_body:
            raise InputError("initial_body cannot be known: this target holds no initial weights but the head's")
        displacement = self.displacement
        if knowledge.initial_head != self.knowledge.initial_head and self.trained_head is not None:
            if knowledge.initial_head == "known":
                raise InputError("initial_head cannot be known: this target holds the trained head alone")
            if self.whole is not None:
                raise InputError("what is known of the head must be said of the whole target, before it is shared out")
            displacement = self.trained_head
        return replace(self, knowledge=knowledge, displacement=displacement)

    def sharded(self, processes: Processes) -> Target:
        """This process's part of the target, for an attack that several make together (`exhume.sharding.initialise`).

        It holds about p/R rows of V and columns of the weights, and no network. The attack is called in all processes
        alike, and returns the same result in each.
        """
        if processes.ranks == 1:
            return self
        features = sharded(self.features, processes)
        here = features.coordinates.held
        return Target(
            features,
            self.displacement[:, here],
            self.knowledge,
            self.input_shape,
            trained_head=None if self.trained_head is None else self.trained_head[:, here],
            whole=self.fingerprint,
        )

    def subset(self, rows: slice | torch.Tensor) -> Target:
        """The target on some of its coordinates: of the map and of the weights alike."""
        here = coordinates_of(self.features).local(rows)
        return Target(
            self.features.subset(rows),
            self.displacement[:, here],
            self.knowledge,
            self.input_shape,
            trained_head=None if self.trained_head is None else self.trained_head[:, here],
            whole=self.whole or "",  # an attack's own; results are of the whole target
        )

    @property
    def _holds_initial_body(self) -> bool:
        return self.model is not None and any(not self.model.in_head(name) for name in self.model.initial)

    def save(self, folder: Path) -> None:
        """Writes what a thief would hold: `victim.safetensors`, `victim.json` and a network's `initial.safetensors`."""
        description: dict[str, Any] = {
            "features": self.feature_map.to_json(),
            "input_shape": list(self.input_shape),
            "knowledge": self.knowledge.to_json(),
        }
        tensors = {"displacement": self.displacement}
        tensors |= {f"{_KNOWN}{name}": tensor for name, tensor in self.knowledge.tensors().items()}
        tensors |= {f"{_MODEL}{name}": tensor for name, tensor in self.feature_map.tensors().items()}
        for name, tensor in (("surviving", self.surviving), ("trained_head", self.trained_head)):
            if tensor is not None:
                tensors[name] = tensor.clone()
        if self.model is not None:
            description["model"] = {"head": self.model.head, "trained": list(self.model.trained)}
            files.write_tensors(Path(folder) / _INITIAL, self.model.initial)
        files.write_tensors(Path(folder) / _WEIGHTS, tensors)
        files.write_json(Path(folder) / _DESCRIPTION, description)

    @classmethod
    def load(cls, folder: Path, *, memory_budget: int | str = "4GB", device: torch.device | str = "cpu") -> Target:
        """Reads `save`'s files."""
        description = files.read_json(Path(folder) / _DESCRIPTION)
        tensors = files.read_tensors(Path(folder) / _WEIGHTS)
        try:
            features, shape = description["features"], tuple(int(side) for side in description["input_shape"])
            known = {name: tensors.pop(name) for name in list(tensors) if name.startswith(_KNOWN)}
            known = {name.removeprefix(_KNOWN): tensor for name, tensor in known.items()}
            knowledge = Knowledge.from_json(description["knowledge"], known)
            displacement = tensors.pop("displacement")
        except (KeyError, TypeError, ValueError, OverflowError, InputError) as error:
            raise FileError(f"{folder} does not hold a whole victim: {brief(error)}") from error
        surviving, trained = tensors.pop("surviving", None), tensors.pop("trained_head", None)
        weights = {name.removeprefix(_MODEL): tensor for name, tensor in tensors.items()}
        feature_map = build_features(features, weights, shape, memory_budget=memory_budget, device=device)
        model = _read_model(description.get("model"), feature_map, Path(folder) / _INITIAL)
        return cls(feature_map, displacement, knowledge, shape, surviving, trained, model)


def _initial_weights(
    module: nn.Module, move: HeadMove, initial: Initial, initial_bias: InitialBias
) -> dict[str, torch.Tensor]:
    """What is known of the weights before training, by name: of all that a state dict holds, else of the head."""
    weights = dict(module.named_parameters())
    if isinstance(initial, Mapping):
        return {name: initial[name].detach() for name in weights if name in initial}
    own = f"{move.head.name}." if move.head.name else ""
    known = {}
    for name, given in ((f"{own}weight", initial), (f"{own}bias", initial_bias)):
        if name in weights and not (isinstance(given, str) and given == "unknown"):
            weight = weights[name].detach()
            zero = torch.zeros_like(weight)
            known[name] = zero if isinstance(given, str) else torch.as_tensor(given).reshape(weight.shape).to(weight)
    return known


def _read_model(value: Any, feature_map: FeatureMap, initial: Path) -> Model | None:
    """The network behind a feature map that was read from a file."""
    module = getattr(feature_map, "module", None)
    if value is None or module is None:
        return None
    try:
        names = tuple(str(name) for name in value["trained"])
        return Model(module, str(value["head"]), names, files.LazyTensors(initial) if initial.exists() else {})
    except (KeyError, TypeError) as error:
        raise FileError(f"{initial.parent} does not hold a whole victim: {error!r}") from error


def _check_weights(displacement: torch.Tensor) -> None:
    if not displacement.is_floating_point():
        raise InputError(f"weights must be floating-point numbers, not {displacement.dtype}")
    bad = int((~torch.isfinite(displacement)).sum())
    if bad:
        raise InputError(f"{bad} of {displacement.numel()} weights are NaN or infinite; nothing can be recovered")
    if not bool(displacement.any()):
        raise InputError("the head did not move: trained and initial weights are the same; is one the wrong file?")


def _checked_indices(indices: torch.Tensor, num_features: int) -> torch.Tensor:
    """The indices of surviving features, if they are some."""
    if indices.ndim != 1 or indices.is_floating_point() or indices.numel() == 0:
        raise InputError(f"surviving features are a list of indices, not a {indices.dtype} of {tuple(indices.shape)}")
    if int(indices.min()) < 0 or int(indices.max()) >= num_features or indices.unique().numel() < indices.numel():
        raise InputError(f"surviving features must be different numbers from 0 to {num_features - 1}")
    return indices
