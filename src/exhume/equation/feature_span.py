"""Feature spans: the patches that training samples show to a layer lie in the row space of its displacement.

    Delta W_l = sum over steps, samples and positions of (error of an output unit) x (patch of inputs)

for every linear layer and convolution, whatever lies above it. So a candidate can be tested alone: the share of its
patches' energy outside the row space is small for a training sample, up to drift. The test means something only if
samples x positions do not fill the layer: the last stages of convolutional networks have few positions. Features are
those at the middle of the straight line from the initial to the trained weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from exhume.equation.trained_network import TrainedNetwork

Patches = Mapping[str, torch.Tensor]  # of every layer, (m, positions, inputs)

# Singular value, over the largest, below which drift and rounding dominate: the filter is s^2 / (s^2 + FILTER^2).
_FILTER = 1e-3
# Added to the Gram matrix of patches of mean square 1.
_RIDGE = 1e-3
_TINY = 1e-30  # for rows that activate no unit below a layer
# Energy of a direction of explained patches, over the largest, that counts half as explained.
_EXPLAINED = 1e-4


@dataclass(frozen=True)
class RowSpace:
    """The row space of a layer's displacement.

    Attributes:
        basis: (r, inputs), orthonormal.
        kept: (r,), how far each direction counts as inside, between 0 and 1.
        weighted: (r,), square roots of singular values, of square sum 1. Their squares would show only the samples
            with the largest errors.
    """

    basis: torch.Tensor
    kept: torch.Tensor
    weighted: torch.Tensor


class FeatureSpans:
    """The row spaces of all layers that can tell training samples from others.

    Args:
        network: at both ends of training.
        names: parameters whose initial values are known.
        num_samples: training samples in all.
        count: called with the number of rows whenever they pass through the network.

    Attributes:
        layers: row spaces by the name of the layer; empty if none qualifies.
    """

    def __init__(
        self,
        network: TrainedNetwork,
        names: Iterable[str],
        num_samples: int,
        count: Callable[[float], None] = lambda rows: None,
    ) -> None:
        self._network, self._count = network, count
        self._weights = network.straight((0.5,))[0]
        modules = {name: module for name, module in network.module.named_modules() if f"{name}.weight" in set(names)}
        self._read = {name: module for name, module in modules.items() if is_read(module)}
        self.layers: dict[str, RowSpace] = {}
        like = next(iter(network.after.values()))
        for name, patches in self.patches(like.new_zeros((1, math.prod(network.input_shape))))[0].items():
            change = (network.after[f"{name}.weight"] - network.before[f"{name}.weight"]).flatten(1)
            # Errors of cross-entropy sum to zero: a head with as many outputs as samples lacks a direction.
            if num_samples * patches.shape[1] < min(change.shape) and bool(change.any()):
                _, values, basis = torch.linalg.svd(change, full_matrices=False)
                values = values / values[0]
                if int((values > _FILTER).sum()) < change.shape[1]:
                    kept = values.square() / (values.square() + _FILTER**2)
                    self.layers[name] = RowSpace(basis, kept, (values / values.sum()).sqrt())
        self._read = {name: self._read[name] for name in self.layers}

    def patches(self, rows: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """What flat rows (m, d) show to every layer, and the outputs (m, k), differentiable in the rows."""
        found: dict[str, torch.Tensor] = {}

        def hook(name: str) -> Callable[[nn.Module, tuple[torch.Tensor, ...]], None]:
            def keep(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
                found[name] = patches_of(module, inputs[0])

            return keep

        handles = [module.register_forward_pre_hook(hook(name)) for name, module in self._read.items()]
        try:
            outputs = self._network.outputs(self._weights, rows)
        finally:
            for handle in handles:
                handle.remove()
        self._count(len(rows))
        return found, outputs

    def explained(self, patches: Patches) -> dict[str, torch.Tensor]:
        """For every layer the projector (r, r) on what these patches span of its row space; every row weighs alike."""
        found = {}
        for name, layer in self.layers.items():
            inside = patches[name] @ layer.basis.T
            inside = (inside / inside.flatten(1).norm(dim=1).clamp_min(_TINY)[:, None, None]).flatten(0, 1)
            values, vectors = torch.linalg.eigh(inside.T @ inside)
            values = values.clamp_min(0)
            found[name] = (vectors * (values / (values + _EXPLAINED * values[-1]))) @ vectors.T
        return found

    def outside(self, patches: Patches, explained: Patches) -> torch.Tensor:
        """The share of each row's energy outside the row space, (layers, m); what is explained already is not counted.

        A row that was found before has nothing new inside, so that its share is large.
        """
        shares = []
        for name, layer in self.layers.items():
            inside = patches[name] @ layer.basis.T
            out = (patches[name] - (inside * layer.kept) @ layer.basis).square().sum((1, 2))
            inside = inside * layer.kept.sqrt()
            new = (inside - inside @ explained[name]).square().sum((1, 2))
            shares.append(out / (out + new).clamp_min(_TINY))
        return torch.stack(shares)

    def coverage(self, patches: Patches) -> torch.Tensor:
        """The share of each layer's row space that the patches of all rows together leave unexplained, (layers,)."""
        shares = []
        for name, layer in self.layers.items():
            flat = patches[name].flatten(0, 1)
            flat = flat / (flat.detach().norm() / math.sqrt(len(flat)))
            factor = torch.linalg.cholesky(flat @ flat.T + _RIDGE * torch.eye(len(flat)).to(flat))
            seen = (flat @ layer.basis.T) * layer.weighted
            shares.append(1 - (seen * torch.cholesky_solve(seen, factor)).sum())
        return torch.stack(shares).clamp_min(0)


def is_read(module: nn.Module) -> bool:
    """Whether the layer's displacement is a sum of errors times patches."""
    if isinstance(module, nn.Conv2d):
        return module.groups == 1 and module.padding_mode == "zeros" and not isinstance(module.padding, str)
    return isinstance(module, nn.Linear)


def patches_of(module: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """What a layer multiplies its weights with, (m, positions, inputs)."""
    if isinstance(module, nn.Conv2d):
        geometry = (module.kernel_size, module.dilation, module.padding, module.stride)
        return functional.unfold(inputs, *geometry).transpose(1, 2)  # type: ignore[arg-type]
    return inputs.reshape(len(inputs), -1, inputs.shape[-1])
