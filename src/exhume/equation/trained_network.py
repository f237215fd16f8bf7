"""A network at any weights between the initial and the trained ones, as equations over its training path read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from exhume.target.network_weights import NetworkWeights

Weights = Mapping[str, torch.Tensor]

# Share of the head's displacement in the sum over outputs below which errors sum to zero, as those of cross-entropy do.
_SUMS_TO_ZERO = 1e-3


class TrainedNetwork:
    """A network with its weights at both ends of training.

    Args:
        model: its module and its weights.
        input_shape: shape of one input.
        dtype: of the weights that are held.
        share: of the initial weights that decay has left in the trained ones.

    Attributes:
        before, after: all weights by name; those whose initial values are unknown count as not moved.
        errors_sum_to_zero: whether the errors at the outputs do, as those of cross-entropy.
        readout: an orthonormal basis (k', k) of the errors: k' is k, or k - 1 if they sum to zero.
    """

    def __init__(
        self,
        model: NetworkWeights,
        input_shape: tuple[int, ...],
        dtype: torch.dtype = torch.float64,
        share: float = 1.0,
    ) -> None:
        self.module, self.input_shape, self.share = model.module, input_shape, share
        self.after = {name: weight.to(dtype) for name, weight in model.weights().items()}
        self.before = {name: model.initial.get(name, weight).to(weight) for name, weight in self.after.items()}
        head = f"{model.head}.weight" if model.head else "weight"
        change = (self.after[head] - share * self.before[head]).flatten(1).double()
        outputs = len(change)
        self.errors_sum_to_zero = outputs > 1 and float(change.sum(0).norm()) < _SUMS_TO_ZERO * float(change.norm())
        readout = torch.eye(outputs, dtype=torch.float64).to(change.device)
        if self.errors_sum_to_zero:
            readout = torch.linalg.svd(readout - 1 / outputs)[0][:, : outputs - 1].T.contiguous()
        self.readout = readout

    def straight(self, nodes: Sequence[float]) -> list[Weights]:
        """Weights on the line from the initial to the trained ones."""
        return [{name: (1 - at) * self.before[name] + at * self.after[name] for name in self.after} for at in nodes]

    def outputs(self, weights: Weights, samples: torch.Tensor) -> torch.Tensor:
        """Outputs (m, k) at flat samples (m, d), in the precision of the samples."""
        every = dict(self.module.named_buffers()) | dict(weights)
        cast = {name: each.to(samples.dtype) if each.is_floating_point() else each for name, each in every.items()}
        inputs = samples.reshape(-1, *self.input_shape).clone()  # a forward may change it in place
        with sdpa_kernel(SDPBackend.MATH):  # the only one with second derivatives
            outputs: torch.Tensor = torch.func.functional_call(self.module, cast, (inputs,))
        return outputs.flatten(1)
