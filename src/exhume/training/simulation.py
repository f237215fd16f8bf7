"""A training as a differentiable function of its samples: theta_T(X), and products with its Jacobian and the adjoint.

A step takes the gradient g = dL/dtheta at (theta_t, X) and updates the state elementwise. The update's derivative is in
closed form. That of g is a part of the Hessian of L in (theta, X), which is symmetric: products with it and with its
transpose are one backward pass each through the graph of the gradients dL/dtheta and dL/dX. If the graphs of all steps
fit into the memory budget they are kept; otherwise only some states are, and each product builds the graphs between
them again, one segment after the other.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from exhume.errors import InputError
from exhume.features.smooth_relu import scaled_gelu
from exhume.training import losses
from exhume.training.optimisers import Change, Setting, State, Step, first_state, gradient_size, update
from exhume.training.recipe import Recipe

# Vectors of the size of the weights, and of the activations, that a step keeps: about twice those of Adam and a
# convolutional network.
_VECTORS_A_STEP, _ACTIVATIONS_A_STEP = 16, 16
# Logarithm of a factor of learning rate or decay beyond which it is not raised: exp of more overflows.
_LARGEST_LOG = 50.0


@dataclass(frozen=True)
class Unknowns:
    """What a simulated training depends on.

    Attributes:
        samples: X (n, d).
        scalars: logarithms of the factors by which learning rate and weight decay differ from the recipe's, (2,).
    """

    samples: Tensor
    scalars: Tensor

    @classmethod
    def of(cls, samples: Tensor) -> Unknowns:
        """Samples alone, at the recipe's own numbers."""
        return cls(samples, samples.new_zeros(2))


@dataclass(frozen=True)
class End:
    """Where a training ends: its weights theta_T (P,), and the size of every weight's gradients under Adam."""

    weights: Tensor
    gradient_size: Tensor | None


class NetworkLoss:
    """The loss of a module as a function of one vector (P,) of its trained weights.

    Args:
        module: any; frozen weights and buffers are taken from it.
        initial: weights before training of all that were trained, by name.
        recipe: its loss, and the mode of BatchNorm.
        input_shape: of one sample.
        dtype: what is computed in.
    """

    def __init__(
        self,
        module: nn.Module,
        initial: Mapping[str, Tensor],
        recipe: Recipe,
        input_shape: tuple[int, ...],
        dtype: torch.dtype,
    ) -> None:
        self._module = copy.deepcopy(module).to(dtype).requires_grad_(False).eval()
        for layer in self._module.modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                layer.train(recipe.batch_norm == "train")
        self._buffers = {name: each.clone() for name, each in self._module.named_buffers()}
        self._names, self._shapes = tuple(initial), [each.shape for each in initial.values()]
        self.sizes = [each.numel() for each in initial.values()]
        self.rows = [max(len(each), 1) if each.ndim > 1 else each.numel() for each in initial.values()]
        self._loss, self._input_shape = losses.get(recipe.loss), input_shape

    def outputs(self, weights: Tensor, samples: Tensor) -> Tensor:
        """f(x) (n, k) at these weights."""
        parts = zip(self._names, weights.split(self.sizes), self._shapes, strict=True)
        named = {name: part.view(shape) for name, part, shape in parts}
        # BatchNorm writes its statistics in training mode, and a forward may change its input in place.
        buffers = {name: each.clone() for name, each in self._buffers.items()}
        inputs = samples.reshape(-1, *self._input_shape).clone()
        with sdpa_kernel(SDPBackend.MATH):  # the only one with second derivatives
            return torch.func.functional_call(self._module, {**named, **buffers}, (inputs,)).flatten(1)

    def gradients(
        self, weights: Tensor, samples: Tensor, targets: Tensor, sharpness: float | None, keep_graph: bool
    ) -> tuple[Tensor, ...]:
        """Of the loss in the weights, (P,), and in the samples if they require it; with a graph if that is kept."""
        with torch.enable_grad(), scaled_gelu(sharpness) if sharpness else nullcontext():
            value = self._loss.value(self.outputs(weights, samples), targets)
        leaves = (weights, samples) if samples.requires_grad else (weights,)
        return torch.autograd.grad(value, leaves, create_graph=keep_graph)

    def activations(self, samples: Tensor, weights: Tensor) -> int:
        """Numbers that all layers pass on for the samples."""
        counts: list[int] = []
        hooks = [
            layer.register_forward_hook(lambda _layer, _given, made: counts.append(made.numel()))
            for layer in self._module.modules()
            if not list(layer.children())
        ]
        with torch.no_grad():
            self.outputs(weights, samples)
        for hook in hooks:
            hook.remove()
        return sum(counts)


class Simulation:
    """Training from theta_0 by a recipe, as a function of the samples.

    Args:
        module: the network; see `NetworkLoss`.
        initial: weights before training of all that were trained, by name.
        recipe: with a learning rate, steps and decay.
        input_shape: of one sample.
        targets: Y (n, k): one-hot rows for cross-entropy, numbers for the square loss, signs for the logistic loss.
        memory_budget: bytes that graphs may take.

    Attributes:
        start: theta_0 (P,).
        recipe: as given.
    """

    def __init__(
        self,
        module: nn.Module,
        initial: Mapping[str, Tensor],
        recipe: Recipe,
        input_shape: tuple[int, ...],
        targets: Tensor,
        memory_budget: float = 2**31,
    ) -> None:
        if recipe.unknown:
            raise InputError(f"a training can be simulated only with all numbers; unknown: {', '.join(recipe.unknown)}")
        dtype, self.recipe, self._budget = targets.dtype, recipe, memory_budget
        self.loss = NetworkLoss(module, initial, recipe, input_shape, dtype)
        self.start = torch.cat([each.detach().to(targets).flatten() for each in initial.values()])
        smoothing = recipe.label_smoothing
        self._targets = (1 - smoothing) * targets + smoothing / targets.shape[1]
        self._batches, self._factors = recipe.batches(len(targets)), recipe.factors()
        self._in_dtype: Callable[[torch.dtype], Simulation] = lambda dtype: Simulation(
            module, initial, recipe, input_shape, targets.to(dtype), memory_budget
        )

    @property
    def num_steps(self) -> int:
        """T."""
        return len(self._factors)

    @property
    def num_rows(self) -> int:
        """Samples that all steps are given, together."""
        return sum(len(batch) for batch in self._batches)

    def with_dtype(self, dtype: torch.dtype) -> Simulation:
        """The same in another precision."""
        return self._in_dtype(dtype)

    def run(self, unknowns: Unknowns, sharpness: float | None = None) -> End:
        """theta_T, without a graph; with a sharpness, of the network whose ReLUs are gelu(sharpness z) / sharpness."""
        state = first_state(self.recipe, self.start)
        for number in range(self.num_steps):
            state = self._step(state, unknowns, number, sharpness).after
        return End(state[0], gradient_size(self.recipe, state, self.num_steps))

    def linearise(self, unknowns: Unknowns, sharpness: float | None = None) -> Linearisation:
        """The Jacobian of theta_T at these unknowns."""
        return Linearisation(self, unknowns, sharpness)

    def segments(self, unknowns: Unknowns) -> tuple[list[range], bool]:
        """Steps of each segment, and whether the graphs of all fit into the memory budget."""
        activations = self.loss.activations(unknowns.samples, self.start)
        numbers = _VECTORS_A_STEP * self.start.numel() + _ACTIVATIONS_A_STEP * activations
        fitting = int(self._budget / (numbers * self.start.element_size()))
        if fitting >= self.num_steps:
            return [range(self.num_steps)], True
        length = max(1, fitting)
        return [range(first, min(first + length, self.num_steps)) for first in range(0, self.num_steps, length)], False

    def linearised_step(self, state: State, unknowns: Unknowns, number: int, sharpness: float | None) -> LinearisedStep:
        """A step with the graph of its gradient."""
        samples, targets, batch = self._batch(unknowns, number)
        weights, leaf = state[0].detach().requires_grad_(), samples.detach().requires_grad_()
        graph = self.loss.gradients(weights, leaf, targets, sharpness, keep_graph=True)
        made = update(self.recipe, state, graph[0].detach(), self._setting(unknowns, number))
        return LinearisedStep(made, (weights, leaf), graph, batch)

    def _step(self, state: State, unknowns: Unknowns, number: int, sharpness: float | None) -> Step:
        samples, targets, _ = self._batch(unknowns, number)
        weights = state[0].detach().requires_grad_()
        (gradient,) = self.loss.gradients(weights, samples, targets, sharpness, keep_graph=False)
        return update(self.recipe, state, gradient, self._setting(unknowns, number))

    def _batch(self, unknowns: Unknowns, number: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Samples and targets of a step, and their places; None for all."""
        batch = self._batches[number]
        if len(batch) == len(self._targets):
            return unknowns.samples.to(self._targets), self._targets, None
        return unknowns.samples[batch].to(self._targets), self._targets[batch], batch

    def _setting(self, unknowns: Unknowns, number: int) -> Setting:
        rate, decay = (math.exp(min(value, _LARGEST_LOG)) for value in unknowns.scalars.tolist())
        recipe = self.recipe
        rate *= (recipe.learning_rate or 0.0) * self._factors[number]
        return Setting(number + 1, rate, (recipe.weight_decay or 0.0) * decay)


@dataclass(frozen=True)
class LinearisedStep:
    """A step, and the graph of its gradient.

    Attributes:
        made: the update.
        leaves: weights (P,) and samples (b, d) of the graph.
        gradients: of the loss in both.
        batch: places of the samples; None for all.
    """

    made: Step
    leaves: tuple[Tensor, Tensor]
    gradients: tuple[Tensor, ...]
    batch: Tensor | None

    def jvp(self, state: State, along: Unknowns) -> State:
        """The change of the next state along one of this state, and of samples and scalars."""
        samples = along.samples if self.batch is None else along.samples[self.batch]
        (gradient,) = torch.autograd.grad(self.gradients, self.leaves[:1], (state[0], samples), retain_graph=True)
        return self.made.jvp(Change(state, gradient, along.scalars))

    def vjp(self, change: State, into: Unknowns) -> State:
        """The adjoint: adds what concerns samples and scalars to `into`, and returns what concerns the state."""
        back = self.made.vjp(change)
        of_weights, of_samples = torch.autograd.grad(self.gradients[0], self.leaves, back.gradient, retain_graph=True)
        places = slice(None) if self.batch is None else self.batch
        into.samples[places] += of_samples
        into.scalars.add_(back.scalars)
        return back.state[0] + of_weights, *back.state[1:]


class Linearisation:
    """d theta_T / d (samples, scalars) at some unknowns; a product costs about two simulations."""

    def __init__(self, simulation: Simulation, unknowns: Unknowns, sharpness: float | None) -> None:
        self._simulation, self._unknowns, self._sharpness = simulation, unknowns, sharpness
        self._segments, kept = simulation.segments(unknowns)
        self._states = [first_state(simulation.recipe, simulation.start)]
        self._kept: list[list[LinearisedStep]] | None = [] if kept else None
        for place in range(len(self._segments)):
            steps = self._steps(place)
            self._states.append(steps[-1].made.after)
            if kept:
                self._kept = [steps]

    @property
    def weights(self) -> Tensor:
        """theta_T (P,), of the smooth network if there is a sharpness."""
        return self._states[-1][0]

    def jvp(self, along: Unknowns) -> Tensor:
        """J D (P,)."""
        change: State = tuple(torch.zeros_like(each) for each in self._states[0])
        for place in range(len(self._segments)):
            for step in self._steps(place):
                change = step.jvp(change, along)
        return change[0]

    def vjp(self, change: Tensor) -> Unknowns:
        """J^T u."""
        state: State = (change, *(torch.zeros_like(each) for each in self._states[0][1:]))
        found = Unknowns(torch.zeros_like(self._unknowns.samples), torch.zeros_like(self._unknowns.scalars))
        for place in reversed(range(len(self._segments))):
            for step in reversed(self._steps(place)):
                state = step.vjp(state, found)
        return found

    def _steps(self, place: int) -> list[LinearisedStep]:
        """The steps of a segment, kept or built again."""
        if self._kept:
            return self._kept[place]
        state, found = self._states[place], list[LinearisedStep]()
        for number in self._segments[place]:
            found.append(self._simulation.linearised_step(state, self._unknowns, number, self._sharpness))
            state = found[-1].made.after
        return found
