"""Full-batch gradient descent as a trajectory of weights: the interface of the training loop, and one for any network.

Weights are kept as w(t) = s(t) w(0) + m(t), with s(t) = (1 - step * weight_decay)^t and the movement m starting at
zero. In exact arithmetic this is w <- w - step (gradient + weight_decay w). In float32 it is more exact: a step of 1e-5
times a small gradient is lost when added to a weight, but not when added to a movement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from exhume.networks import Network
from exhume.training.losses import Loss


class Trajectory(Protocol):
    """A network in training.

    Attributes:
        outputs: f (n, k) at the current weights.
        decay: s(t), the share of the initial weights that remains.
        check_every: steps between two checks of the loss; more than one where a check is not cheap.
        multiplications: of a step, approximately.
    """

    outputs: Tensor
    decay: float
    check_every: int
    multiplications: int

    def advance(self, steps: int, step_size: float) -> None:
        """Takes that many steps."""
        ...

    def head(self) -> Tensor:
        """The current head (k, p), in float64."""
        ...

    def kernel_times(self, directions: Tensor) -> Tensor:
        """J J^T directions, (n, k), with J the Jacobian of the outputs in all weights: the tangent kernel."""
        ...

    def drift(self) -> float:
        """||Phi(t) - Phi(0)||_F / ||Phi(t)||_F, the relative change of the features of the training data."""
        ...

    def state(self) -> dict[str, Tensor]:
        """The movement, all that `restore` needs besides the decay."""
        ...

    def restore(self, state: Mapping[str, Tensor] | None, decay: float) -> None:
        """Sets the weights to a saved state, or to the start if there is none."""
        ...

    def finish(self) -> None:
        """Writes the current weights into the network."""
        ...


class PlainTrajectory:
    """Gradient descent by reverse-mode differentiation, for any network."""

    check_every = 1

    def __init__(
        self, network: Network, inputs: Tensor, targets: Tensor, loss: Loss, weight_decay: float = 0.0
    ) -> None:
        self._network, self._inputs, self._targets = network, inputs, targets
        self._loss, self._weight_decay = loss, weight_decay
        self._weights = dict(network.named_parameters())
        self._initial = {name: weight.detach().clone() for name, weight in self._weights.items()}
        self._movement = {name: torch.zeros_like(weight) for name, weight in self._initial.items()}
        self._initial_features = network.features(inputs).detach()  # (n, p)
        self.decay = 1.0
        counter = FlopCounterMode(display=False)
        with counter:
            self._graph = network(inputs)
        self.outputs = self._graph.detach()
        self.multiplications = 3 * counter.get_total_flops() // 2  # forward and twice as much backward

    def advance(self, steps: int, step_size: float) -> None:
        """Takes that many steps."""
        shrink = 1.0 - step_size * self._weight_decay
        for _ in range(steps):
            slope = self._loss.gradient(self.outputs, self._targets)  # (n, k)
            gradients = torch.autograd.grad(self._graph, list(self._weights.values()), slope)
            for movement, gradient in zip(self._movement.values(), gradients, strict=True):
                if shrink != 1.0:
                    movement.mul_(shrink)
                movement.sub_(gradient, alpha=step_size)
            self.decay *= shrink
            self._move()

    def head(self) -> Tensor:
        """The current head (k, p), in float64."""
        return self.decay * self._initial["head.weight"].double() + self._movement["head.weight"].double()

    def kernel_times(self, directions: Tensor) -> Tensor:
        """J J^T directions: a vector-Jacobian product, then a Jacobian-vector product."""

        def outputs(weights: dict[str, Tensor]) -> Tensor:
            return torch.func.functional_call(self._network, weights, (self._inputs,))

        point = {name: weight.detach() for name, weight in self._weights.items()}
        pulled = torch.func.vjp(outputs, point)[1](directions)
        pushed: Tensor = torch.func.jvp(outputs, (point,), pulled)[1]
        return pushed.detach()

    def drift(self) -> float:
        """||Phi(t) - Phi(0)||_F / ||Phi(t)||_F."""
        with torch.no_grad():
            features = self._network.features(self._inputs)
        return float((features - self._initial_features).norm() / features.norm())

    def state(self) -> dict[str, Tensor]:
        """The movement of every parameter."""
        return dict(self._movement)

    def restore(self, state: Mapping[str, Tensor] | None, decay: float) -> None:
        """Sets the weights to a saved state, or to the start."""
        for name, movement in self._movement.items():
            movement.zero_() if state is None else movement.copy_(state[name])
        self.decay = decay
        self._move()

    def finish(self) -> None:
        """The weights are in the network already; releases the graph of the last forward pass."""
        self._graph = self.outputs

    def _move(self) -> None:
        with torch.no_grad():
            for name, weight in self._weights.items():
                torch.add(self._movement[name], self._initial[name], alpha=self.decay, out=weight)
        self._graph = self._network(self._inputs)
        self.outputs = self._graph.detach()
