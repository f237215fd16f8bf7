"""The target of an attack: a feature map, how far the head moved in training, and what else is known."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from exhume import law
from exhume.errors import InputError, brief
from exhume.features import FeatureMap, ModuleFeatureMap, OneLayerFeatures, Saveable
from exhume.features.find_head import refuse_training_mode
from exhume.features.load import build_features, fastest
from exhume.features.pass_counter import PassCounter
from exhume.features.prepare import prepare
from exhume.features.sharded import sharded
from exhume.law import Forecast
from exhume.support.distributed import Processes
from exhume.support.validation import finite, finite_state
from exhume.target.displacement import Initial, InitialBias, move_of, state_of
from exhume.target.knowledge import Knowledge
from exhume.target.network_weights import NetworkWeights, initial_weights, trained_names
from exhume.target.target_files import SavedNetwork, SavedTarget, read_target, write_target

# For forecasts: an activation that shows norms, since `norms_known` covers features that hide them.
_SHOWS_NORMS = "gelu"
_PROBES = 32  # random inputs at which a body's features are tested for zeros


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
        parent_fingerprint: of the whole target, if this is a part of one; None if it is not.
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
    model: NetworkWeights | None = None
    parent_fingerprint: str | None = None
    features: FeatureMap = field(init=False)

    def __post_init__(self) -> None:
        features = self.feature_map
        if self.surviving is not None:
            features = features.subset(_checked_indices(self.surviving, features.num_features))
        object.__setattr__(self, "features", features)
        displacement = torch.atleast_2d(torch.as_tensor(self.displacement).detach())
        width = features.coordinates.width(features.num_features)
        if displacement.ndim != 2 or displacement.shape[1] != width:
            raise InputError(
                f"displacement of shape {tuple(self.displacement.shape)} does not fit {width} features; "
                f"expected (outputs, {width})"
            )
        if self.parent_fingerprint is None:  # a part of the weights may well be zero
            _check_weights(displacement)
        shape = tuple(self.input_shape) or (features.input_dim,)
        if math.prod(shape) != features.input_dim or min(shape) < 1:
            raise InputError(
                f"input shape {brief(shape, 80)} has {brief(math.prod(shape), 30)} numbers, "
                f"the model takes {features.input_dim}"
            )
        for name in ("samples", "subspace", "public"):
            rows = getattr(self.knowledge, name)
            if rows is not None and rows.shape[1] != features.input_dim:
                raise InputError(
                    f"known {name} have {rows.shape[1]} numbers a row, the model takes {features.input_dim}"
                )
        for name in ("column_mean", "column_std"):
            numbers = getattr(self.knowledge, name)
            if numbers is not None and len(numbers) != features.input_dim:
                raise InputError(f"{name} has {len(numbers)} numbers, the model takes {features.input_dim}")
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
        initial_head: Initial | nn.Module = "unknown",
        initial_bias: InitialBias = "unknown",
        input_shape: tuple[int, ...],
        knowledge: Knowledge | None = None,
        memory_budget: int | str = "4GB",
    ) -> Target:
        """The target that any trained nn.Module makes.

        Args:
            module: trained, in eval mode.
            head: name of a linear layer or 1 x 1 convolution; by default the last that a forward pass runs through.
            initial_head: its weights before training; "zero"; or "unknown", in which case the trained weights are
                taken for the displacement (what remains of the initial ones in them is noise). The untrained
                module or its whole state dict is accepted too, and gives the bias as well.
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
        module, initial_head = prepare(module, tuple(input_shape)), state_of(initial_head)
        finite_state("trained", dict(module.named_parameters()))
        move = move_of(module, head, tuple(input_shape), initial_head, initial_bias)
        before = initial_weights(module, move.head.name, initial_head, initial_bias)
        model = NetworkWeights(module, move.head.name, trained_names(module), before)
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

    @classmethod
    def network(
        cls,
        module: nn.Module,
        *,
        initial: Mapping[str, torch.Tensor] | nn.Module,
        input_shape: tuple[int, ...],
        knowledge: Knowledge | None = None,
        memory_budget: int | str = "4GB",
    ) -> Target:
        """The target of a whole network, all of whose layers are read.

        Args:
            module: trained, in eval mode. Its last linear layer or 1 x 1 convolution is the head, however few features
                it has.
            initial: the state dict before training, or the untrained module; it must hold every parameter that was
                trained.
            input_shape: shape of one input.
            knowledge: what else the attacker is assumed to know.
            memory_budget: for activations.
        """
        initial = state_of(initial)  # type: ignore[assignment]
        if not isinstance(initial, Mapping):
            raise InputError(f"initial is a {type(initial).__name__}; valid: the untrained module or its state dict")
        trained = trained_names(module) if isinstance(module, nn.Module) else ()
        missing = [name for name in trained if name not in initial]
        if missing:
            raise InputError(
                f"the initial state dict has no {', '.join(missing)}; it has: {', '.join(sorted(initial)) or 'nothing'}"
            )
        options = {"input_shape": input_shape, "knowledge": knowledge, "memory_budget": memory_budget}
        return cls.last_layer(module, initial_head=initial, **options)  # type: ignore[arg-type]

    @property
    def known_model(self) -> NetworkWeights | None:
        """The whole network, with as much of its initial weights as the knowledge allows."""
        if self.model is None:
            return None
        known = self.knowledge
        return self.model.knowing(head=known.initial_head != "unknown", body=known.initial_body == "known")

    @property
    def fingerprint(self) -> str:
        """A hash of the weights and the features: results of another target do not belong to this one."""
        if self.parent_fingerprint is not None:
            return self.parent_fingerprint
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
        return self.features.coordinates.sum(features @ head.to(features).T)

    def assuming(self, **known: Any) -> Target:
        """The same target with other knowledge."""
        return self.with_knowledge(self.knowledge.knowing(**known))

    def with_knowledge(self, knowledge: Knowledge) -> Target:
        """The same target with other knowledge; initial weights that it does not hold cannot become known.

        Where the head's initial weights become unknown or zero, the trained ones are taken for the displacement.
        """
        gained = knowledge.initial_body == "known" and self.knowledge.initial_body == "unknown"
        holds_initial = self.model is not None and any(not self.model.in_head(name) for name in self.model.initial)
        if gained and not holds_initial:
            raise InputError("initial_body cannot be known: of the initial weights this target holds only the head's")
        displacement = self.displacement
        if knowledge.initial_head != self.knowledge.initial_head and self.trained_head is not None:
            if knowledge.initial_head == "known":
                raise InputError("initial_head cannot be known: this target holds only the trained head")
            if self.parent_fingerprint is not None:
                raise InputError("knowledge of the head must be changed before the target is split among processes")
            displacement = self.trained_head
        return replace(self, knowledge=knowledge, displacement=displacement)

    def forecast(self, num_samples: int | None = None) -> Forecast:
        """Whether the law expects the samples to be determined by this target's weights and knowledge.

        The share of features that a sample is active on is that of the activation at Gaussian pre-activations; for
        other feature maps, the share that is not exactly zero at random inputs. Either way features are taken to be
        active on different samples independently.

        Args:
            num_samples: n, known ones included; by default that of the knowledge.
        """
        known, features = self.knowledge, self.features
        count = num_samples if num_samples is not None else known.count
        if count is None:
            raise InputError("a forecast needs the number of samples, which the target's knowledge does not give")
        result = law.forecast(
            num_parameters=self.num_parameters,
            input_dim=features.input_dim,
            num_samples=count,
            num_outputs=self.num_outputs,
            activation=_SHOWS_NORMS,
            known_samples=min(known.known_samples, count),
            subspace_dim=None if known.subspace is None else min(len(known.subspace), features.input_dim),
            norms_known=known.norm is not None or features.symmetry.homogeneous,
            active_share=_active_share(features),
        )
        name = features.activation.name if isinstance(features, OneLayerFeatures) else type(features).__name__
        return replace(result, activation=name, norms_known=known.norm is not None)

    def sharded(self, processes: Processes) -> Target:
        """This process's part of the target, for an attack on several processes.

        `exhume.support.distributed.initialise` returns the processes. For R of them, the part holds about p/R rows of V
        and columns of the weights, and no network. All processes call the attack, and each gets the same result.
        """
        if processes.ranks == 1:
            return self
        features = sharded(self.features, processes)
        return self._part(features, features.coordinates.local_indices, self.fingerprint)

    def subset(self, coordinates: slice | torch.Tensor) -> Target:
        """The target on some of its coordinates, of the feature map and of the weights."""
        here = self.features.coordinates.local(coordinates)
        # No fingerprint of its own: results are of the whole target.
        return self._part(self.features.subset(coordinates), here, self.parent_fingerprint or "")

    def _part(self, features: FeatureMap, columns: slice | torch.Tensor, fingerprint: str) -> Target:
        """The target of some columns of the weights, whose features are given."""
        return Target(
            features,
            self.displacement[:, columns],
            self.knowledge,
            self.input_shape,
            trained_head=None if self.trained_head is None else self.trained_head[:, columns],
            parent_fingerprint=fingerprint,
        )

    def save(self, folder: Path) -> None:
        """Writes the adversary's files: `victim.safetensors`, `victim.json` and a network's `initial.safetensors`."""
        body = self.feature_map
        if not isinstance(body, Saveable):
            raise InputError(f"a target with the features of a {type(body).__name__} cannot be saved")
        network = None if self.model is None else SavedNetwork(self.model.head, self.model.trained)
        saved = SavedTarget(
            body.to_json(),
            self.input_shape,
            self.knowledge,
            self.displacement,
            self.surviving,
            self.trained_head,
            network,
        )
        write_target(Path(folder), saved, body.tensors(), self.model.initial if self.model else None)

    @classmethod
    def load(cls, folder: Path, *, memory_budget: int | str = "4GB", device: torch.device | str = "cpu") -> Target:
        """Reads `save`'s files."""
        saved, body, initial = read_target(Path(folder))
        shape = saved.input_shape
        feature_map = build_features(saved.features, body, shape, memory_budget=memory_budget, device=device)
        model, module = None, getattr(feature_map, "module", None)
        if saved.model is not None and module is not None:
            model = NetworkWeights(module, saved.model.head, saved.model.trained, initial)
        return cls(feature_map, saved.displacement, saved.knowledge, shape, saved.surviving, saved.trained_head, model)


def _active_share(features: FeatureMap) -> float:
    """Share of the features that a sample is active on: 1/2 for ReLU, 1 where features are never exactly zero."""
    if isinstance(features, OneLayerFeatures):
        return features.activation.active_share
    probes = torch.randn((_PROBES, features.input_dim), generator=torch.Generator().manual_seed(0))
    values = features.with_counter(PassCounter()).forward(probes)  # not a pass of the attack
    return max(float((values != 0).double().mean()), 1 / features.num_features)


def _check_weights(displacement: torch.Tensor) -> None:
    if not displacement.is_floating_point():
        raise InputError(f"weights must be floating-point numbers, not {displacement.dtype}")
    finite("the weights", displacement)
    if not bool(displacement.any()):
        raise InputError("the head did not move: trained and initial weights are the same; is one the wrong file?")


def _checked_indices(indices: torch.Tensor, num_features: int) -> torch.Tensor:
    """The indices, if they are different features."""
    if indices.ndim != 1 or indices.is_floating_point() or indices.numel() == 0:
        raise InputError(f"surviving features are a list of indices, not a {indices.dtype} of {tuple(indices.shape)}")
    if int(indices.min()) < 0 or int(indices.max()) >= num_features or indices.unique().numel() < indices.numel():
        raise InputError(f"surviving features must be different numbers from 0 to {num_features - 1}")
    return indices
