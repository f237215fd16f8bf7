"""One update of every optimiser, equal to `torch.optim` to rounding, and its derivative in closed form.

A state is the weights and what the optimiser keeps beside them: velocity, mean gradient, mean square; one vector (P,)
each. All is elementwise. A derivative is a linear map from changes of (state, gradient, log rate, log decay) to that of
the next state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from exhume.training.recipe import Recipe

State = tuple[Tensor, ...]

_EPS = 1e-8  # of torch.optim's Adam, AdamW and RMSprop
_SQUARES = 0.99  # smoothing of squared gradients by RMSprop
# Added to a mean square, so that the derivative of its root is finite where a gradient is exactly zero.
_UNDER_ROOT = 1e-30


@dataclass(frozen=True)
class Change:
    """A change of what an update depends on, or its adjoint: state, gradient, and (log rate, log decay) (2,)."""

    state: State
    gradient: Tensor
    scalars: Tensor


class Step(ABC):
    """An update that was made.

    Attributes:
        after: the state after it.
    """

    after: State

    @abstractmethod
    def jvp(self, change: Change) -> State:
        """The change of the next state."""

    @abstractmethod
    def vjp(self, change: State) -> Change:
        """The adjoint."""


@dataclass(frozen=True)
class Setting:
    """What an update depends on besides state and gradient: its number from 1 on, learning rate and weight decay."""

    number: int
    rate: float
    decay: float


def first_state(recipe: Recipe, weights: Tensor) -> State:
    """The state before the first update."""
    kept = {"rmsprop": 1 + (recipe.momentum > 0), "adam": 2, "adamw": 2}.get(recipe.optimiser, int(recipe.momentum > 0))
    return (weights, *(torch.zeros_like(weights) for _ in range(kept)))


def update(recipe: Recipe, state: State, gradient: Tensor, setting: Setting) -> Step:
    """Makes an update with this gradient of the loss."""
    kinds: dict[str, type[_Sgd | _Adam | _Rmsprop]] = {"adam": _Adam, "adamw": _Adam, "rmsprop": _Rmsprop}
    return kinds.get(recipe.optimiser, _Sgd)(recipe, state, gradient, setting)


def gradient_size(recipe: Recipe, state: State, number: int) -> Tensor | None:
    """The root mean square of every weight's gradients so far, (P,); None for optimisers that do not divide by it."""
    if not recipe.adaptive:
        return None
    return (
        state[-2 if recipe.optimiser == "rmsprop" and recipe.momentum else -1]
        .div(1 if recipe.optimiser == "rmsprop" else 1 - recipe.betas[1] ** number)
        .sqrt()
    )


class _Sgd(Step):
    def __init__(self, recipe: Recipe, state: State, gradient: Tensor, setting: Setting) -> None:
        self._weights, self._at, self._momentum = state[0], setting, recipe.momentum
        self._ahead = recipe.optimiser == "nesterov"
        decayed = gradient + setting.decay * state[0] if setting.decay else gradient
        self._move = decayed
        self.after = (state[0] - setting.rate * decayed,)
        if self._momentum:
            velocity = self._momentum * state[1] + decayed
            self._move = decayed + self._momentum * velocity if self._ahead else velocity
            self.after = (state[0] - setting.rate * self._move, velocity)

    def jvp(self, change: Change) -> State:
        at, momentum = self._at, self._momentum
        decayed = _decayed(self._weights, change, at.decay)
        kept: State = (momentum * change.state[1] + decayed,) if momentum else ()
        move = decayed + momentum * kept[0] if self._ahead else (kept or (decayed,))[0]
        return change.state[0] - at.rate * (move + change.scalars[0] * self._move), *kept

    def vjp(self, change: State) -> Change:
        at, momentum = self._at, self._momentum
        move = -at.rate * change[0]
        velocity = change[1] + (momentum * move if self._ahead else move) if momentum else move
        decayed = velocity + move if self._ahead else velocity
        kept = (momentum * velocity,) if momentum else ()
        return _undecayed(self._weights, change[0], decayed, at.decay, kept, move @ self._move)


class _Adam(Step):
    def __init__(self, recipe: Recipe, state: State, gradient: Tensor, setting: Setting) -> None:
        weights, mean, square = state
        self._weights, self._at, self._betas = weights, setting, recipe.betas
        self._decoupled = recipe.optimiser == "adamw"
        (first, second), rate = recipe.betas, setting.rate
        coupled = setting.decay and not self._decoupled
        self._gradient = gradient + setting.decay * weights if coupled else gradient
        mean = torch.lerp(mean, self._gradient, 1 - first)
        square = second * square + (1 - second) * self._gradient * self._gradient
        root, correction = (square + _UNDER_ROOT).sqrt(), (1 - second**setting.number) ** 0.5
        self._by_mean = rate / (1 - first**setting.number) / (root / correction + _EPS)
        self._move = self._by_mean * mean  # without decay
        # d move / d square, by d root / d square = 1 / (2 root)
        self._by_square = self._move / ((root + correction * _EPS) * (2 * root))
        moved = weights - rate * setting.decay * weights if self._decoupled and setting.decay else weights
        self.after = (moved - self._move, mean, square)

    def jvp(self, change: Change) -> State:
        (first, second), at = self._betas, self._at
        decay = 0.0 if self._decoupled else at.decay
        gradient = _decayed(self._weights, change, decay)
        mean = torch.lerp(change.state[1], gradient, 1 - first)
        square = second * change.state[2] + (2 * (1 - second)) * self._gradient * gradient
        weights = change.state[0] - change.scalars[0] * self._move - self._by_mean * mean + self._by_square * square
        if self._decoupled and at.decay:
            weights = weights - at.rate * at.decay * (change.state[0] + change.scalars.sum() * self._weights)
        return weights, mean, square

    def vjp(self, change: State) -> Change:
        (first, second), at = self._betas, self._at
        mean = change[1] - self._by_mean * change[0]
        square = change[2] + self._by_square * change[0]
        gradient = (1 - first) * mean + (2 * (1 - second)) * self._gradient * square
        kept, of_rate = (first * mean, second * square), -(change[0] @ self._move)
        if not (self._decoupled and at.decay):
            return _undecayed(self._weights, change[0], gradient, 0.0 if self._decoupled else at.decay, kept, of_rate)
        lost = at.rate * at.decay
        of_decay = -lost * (change[0] @ self._weights)
        return Change(((1 - lost) * change[0], *kept), gradient, torch.stack([of_rate + of_decay, of_decay]))


class _Rmsprop(Step):
    def __init__(self, recipe: Recipe, state: State, gradient: Tensor, setting: Setting) -> None:
        self._weights, self._at, self._momentum = state[0], setting, recipe.momentum
        self._gradient = gradient + setting.decay * state[0] if setting.decay else gradient
        square = _SQUARES * state[1] + (1 - _SQUARES) * self._gradient * self._gradient
        root = (square + _UNDER_ROOT).sqrt()
        self._by_gradient = 1 / (root + _EPS)
        self._move = self._by_gradient * self._gradient
        self._by_square = self._move * self._by_gradient / (2 * root)
        kept: State = (square,)
        if self._momentum:
            self._move = self._momentum * state[2] + self._move
            kept = (square, self._move)
        self.after = (state[0] - setting.rate * self._move, *kept)

    def jvp(self, change: Change) -> State:
        gradient = _decayed(self._weights, change, self._at.decay)
        square = _SQUARES * change.state[1] + (2 * (1 - _SQUARES)) * self._gradient * gradient
        move = self._by_gradient * gradient - self._by_square * square
        kept: State = (square,)
        if self._momentum:
            move = self._momentum * change.state[2] + move
            kept = (square, move)
        return change.state[0] - self._at.rate * (move + change.scalars[0] * self._move), *kept

    def vjp(self, change: State) -> Change:
        to_weights = -self._at.rate * change[0]
        move = to_weights + change[2] if self._momentum else to_weights
        square = change[1] - self._by_square * move
        gradient = self._by_gradient * move + (2 * (1 - _SQUARES)) * self._gradient * square
        kept = (_SQUARES * square, *((self._momentum * move,) if self._momentum else ()))
        return _undecayed(self._weights, change[0], gradient, self._at.decay, kept, to_weights @ self._move)


def _decayed(weights: Tensor, change: Change, decay: float) -> Tensor:
    """The change of gradient + decay * weights."""
    if not decay:
        return change.gradient
    return change.gradient + decay * (change.state[0] + change.scalars[1] * weights)


def _undecayed(
    weights: Tensor, to_weights: Tensor, decayed: Tensor, decay: float, kept: State, of_rate: Tensor
) -> Change:
    """The adjoint of an update's inputs, from that of gradient + decay * weights and of the weights themselves."""
    if not decay:
        return Change((to_weights, *kept), decayed, torch.stack([of_rate, torch.zeros_like(of_rate)]))
    of_decay = decay * (decayed @ weights)
    return Change((to_weights + decay * decayed, *kept), decayed, torch.stack([of_rate, of_decay]))
