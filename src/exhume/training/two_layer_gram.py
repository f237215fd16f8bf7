"""The trajectory of a two-layer network in Gram form: the same steps at a cost that does not grow with d.

Gradient descent moves the first layer inside the span of the data: W1(t) = s(t) W1(0) + C(t)^T X. With the Gram matrix
K = X X^T, preactivations are Z^T = s Z(0)^T + K C, and with G = dL/dZ^T a step is

    C <- (1 - step decay) C - step G,    W2 <- (1 - step decay) W2 - step dL/df^T act(Z)^T,

O(h n (n + k)) multiplications instead of O(h n (d + k)). W1 itself is formed once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor

from exhume import activations
from exhume.networks import TwoLayer
from exhume.training.losses import Loss

# Neurons are processed in blocks of about so many preactivations: half a megabyte each in float32, so that the five
# or so arrays that a step touches stay in a core's cache. At h = 122,880 and n = 100 this is 1.7 times as fast as
# whole arrays.
_BLOCK = 2**17


class _Block:
    """Some of the neurons: their part of every array, neurons along the columns.

    Attributes:
        coefficients: C (n, r).
        movement: of the head, (k, r).
        features: act(Z)^T (n, r).
    """

    def __init__(self, first: Tensor, head: Tensor, inputs: Tensor, activation: str) -> None:
        self.initial_preactivations = inputs @ first.T  # (n, r)
        self.initial_head = head.clone()  # (k, r)
        self.coefficients = torch.zeros_like(self.initial_preactivations)
        self.movement = torch.zeros_like(self.initial_head)
        self.head = torch.empty_like(self.initial_head)
        self.features, self.slopes, self._buffer = (torch.empty_like(self.coefficients) for _ in range(3))
        self._activation = activations.get(activation)

    def refresh(self, gram: Tensor, decay: float) -> Tensor:
        """Features, slopes and head at the current coefficients; returns this block's share of the outputs (n, k)."""
        torch.addmm(self.initial_preactivations, gram, self.coefficients, beta=decay, out=self.features)
        self._activate()
        torch.add(self.movement, self.initial_head, alpha=decay, out=self.head)
        return (self.head @ self.features.T).T  # twice as fast as features @ head.T

    def update(self, slope: Tensor, step_size: float, shrink: float) -> None:
        """One step, given dL/df (n, k)."""
        torch.mm(slope, self.head, out=self._buffer).mul_(self.slopes)  # G
        if shrink != 1.0:
            self.coefficients.mul_(shrink)
            self.movement.mul_(shrink)
        self.coefficients.sub_(self._buffer, alpha=step_size)
        self.movement.addmm_(slope.T, self.features, alpha=-step_size)

    def kernel_times(self, directions: Tensor, gram: Tensor) -> Tensor:
        """This block's share of the tangent kernel times directions (n, k): of the head and of the first layer."""
        of_head = self.features @ (directions.T @ self.features).T
        moved = gram @ ((directions @ self.head) * self.slopes)
        return of_head + (moved * self.slopes) @ self.head.T

    def drift(self) -> tuple[float, float]:
        """Squared norms of the features' change and of the features."""
        change = self.features - self._activation.value(self.initial_preactivations)
        return float(change.norm().double().square()), float(self.features.norm().double().square())

    def _activate(self) -> None:
        """Replaces the preactivations in `features` by the features, and sets the slopes."""
        if self._activation.name == "relu":  # without a temporary
            self.features.relu_()
            torch.sign(self.features, out=self.slopes)
        else:
            self.slopes.copy_(self._activation.slope(self.features))
            self.features.copy_(self._activation.value(self.features))


class GramTrajectory:
    """Gradient descent on a `TwoLayer` network in Gram form; equal to the plain one up to rounding."""

    check_every = 10
    outputs: Tensor
    decay: float

    def __init__(
        self, network: TwoLayer, inputs: Tensor, targets: Tensor, loss: Loss, weight_decay: float = 0.0
    ) -> None:
        self._network, self._inputs, self._targets = network, inputs, targets
        self._loss, self._weight_decay = loss, weight_decay
        self._gram = inputs @ inputs.T  # (n, n)
        n, k, h = len(inputs), network.num_outputs, network.num_features
        self._rows = max(1, _BLOCK // n)
        first, head = network.first.weight.detach(), network.head.weight.detach()
        self._blocks = [
            _Block(part, columns, inputs, network.activation)
            for part, columns in zip(first.split(self._rows), head.split(self._rows, dim=1), strict=True)
        ]
        self.multiplications = h * n * (n + 3 * k)
        self.restore(None, 1.0)

    def advance(self, steps: int, step_size: float) -> None:
        """Takes that many steps."""
        shrink = 1.0 - step_size * self._weight_decay
        with self._workers() as share_out:
            for _ in range(steps):
                slope = self._loss.gradient(self.outputs, self._targets)
                decay = self.decay = self.decay * shrink

                def step(block: _Block, slope: Tensor = slope, decay: float = decay) -> Tensor:
                    block.update(slope, step_size, shrink)
                    return block.refresh(self._gram, decay)

                self.outputs = torch.stack(list(share_out(step, self._blocks))).sum(0)

    def head(self) -> Tensor:
        """The current head (k, h), in float64."""
        parts = [self.decay * block.initial_head.double() + block.movement.double() for block in self._blocks]
        return torch.cat(parts, dim=1)

    def kernel_times(self, directions: Tensor) -> Tensor:
        """J J^T directions, (n, k)."""
        return torch.stack([block.kernel_times(directions, self._gram) for block in self._blocks]).sum(0)

    def drift(self) -> float:
        """||Phi(t) - Phi(0)||_F / ||Phi(t)||_F."""
        changes, sizes = zip(*(block.drift() for block in self._blocks), strict=True)
        return float((sum(changes) / sum(sizes)) ** 0.5)

    def state(self) -> dict[str, Tensor]:
        """C (n, h) and the head's movement (k, h)."""
        return {
            "coefficients": torch.cat([block.coefficients for block in self._blocks], dim=1),
            "movement": torch.cat([block.movement for block in self._blocks], dim=1),
        }

    def restore(self, state: Mapping[str, Tensor] | None, decay: float) -> None:
        """Sets the weights to a saved state, or to the start."""
        for index, block in enumerate(self._blocks):
            columns = slice(index * self._rows, (index + 1) * self._rows)
            for name in ("coefficients", "movement"):
                part: Tensor = getattr(block, name)
                part.zero_() if state is None else part.copy_(state[name][:, columns])
        self.decay = decay
        with self._workers() as share_out:
            parts = list(share_out(lambda block: block.refresh(self._gram, decay), self._blocks))
        self.outputs = torch.stack(parts).sum(0)

    def finish(self) -> None:
        """W1 = s W1(0) + C^T X and W2, into the network."""
        with torch.no_grad():
            for part, block in zip(self._network.first.weight.split(self._rows), self._blocks, strict=True):
                part.addmm_(block.coefficients.T, self._inputs, beta=self.decay)
            self._network.head.weight.copy_(torch.cat([block.head for block in self._blocks], dim=1))

    @contextmanager
    def _workers(self) -> Iterator[Callable[[Callable[[_Block], Tensor], list[_Block]], Iterable[Tensor]]]:
        """`map`, over as many threads as torch may use if there are several blocks.

        Threads over blocks wait for each other once a step, torch's own in every operation. Every block is computed
        by one thread, so that the numbers do not depend on how many threads there are.
        """
        workers = min(torch.get_num_threads(), len(self._blocks))
        if workers == 1:
            yield map
            return
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool.map
