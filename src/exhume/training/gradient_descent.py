"""Trains networks by full-batch gradient descent, with the paper's step or a larger one that is still stable."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from exhume.errors import InputError
from exhume.networks import Network, TwoLayer
from exhume.support.checkpoint import Checkpoint, fingerprint
from exhume.support.threads import threads_for
from exhume.support.validation import finite, finite_rows
from exhume.training import losses
from exhume.training.loop import DivergedError, Place, Plan, Progress, follow, stable_step
from exhume.training.losses import Loss
from exhume.training.trajectory import PlainTrajectory, Trajectory
from exhume.training.two_layer_gram import GramTrajectory

# Default tolerances: of the loss (that of the paper authors' public code), and of the change of weights under decay.
_FITTED = 1e-7
_STILL = 1e-2
# Weight decay must shrink a weight by so many units of rounding a step, or rounding cancels it.
_RESOLVED = 16
# Square loss below which the outputs are the labels, as far as an attack is concerned.
_INTERPOLATED = 1e-6


@dataclass(frozen=True)
class Training:
    """A trained network and how it was trained. The trainer knows drift and loss, the adversary does not.

    Attributes:
        network: trained, in eval mode.
        initial: all weights before training, by name.
        steps: of gradient descent.
        loss: on the training set at the end, without the penalty of weight decay.
        converged: whether the tolerance was reached before the limit of steps.
        step_size: the one used.
        weight_decay: of every weight.
        loss_name: which loss.
        decay: (1 - step_size * weight_decay)^steps, the share of the initial weights that remains.
        drift: ||Phi(T) - Phi(0)||_F / ||Phi(T)||_F, the relative change of the features of the training data.
        note: what `stable` changed, in a sentence; empty if nothing.
    """

    network: Network
    initial: dict[str, Tensor]
    steps: int
    loss: float
    converged: bool
    step_size: float
    weight_decay: float
    loss_name: str
    decay: float
    drift: float
    note: str

    @property
    def initial_head(self) -> Tensor:
        """The head's weights before training, (k, p)."""
        return self.initial["head.weight"]

    @property
    def initial_bias(self) -> Tensor | None:
        """Its bias before training, (k,), if it has one."""
        return self.initial.get("head.bias")

    @property
    def interpolates(self) -> bool:
        """Whether the network outputs its labels: whoever knows their alphabet then learns the norms of inputs too."""
        return self.loss_name == "square" and self.weight_decay == 0 and self.loss < _INTERPOLATED


def train(
    network: Network,
    inputs: Tensor,
    labels: Tensor,
    *,
    loss: str = "square",
    step_size: float | None = None,
    weight_decay: float = 0.0,
    max_steps: int = 1_000_000,
    tolerance: float | None = None,
    stable: bool = False,
    progress: Progress | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
) -> Training:
    """Minimises the loss over all weights of a network by full-batch gradient descent, in place.

    A `TwoLayer` network takes the same steps in Gram form; its loss is computed, and it may stop, every 10 steps only.

    Args:
        network: at its initial weights; afterwards it holds the trained ones.
        inputs: X, (n, d) or (n, *input_shape).
        labels: as the loss takes them.
        loss: "square", "logistic" or "cross-entropy".
        step_size: by default the paper's, 1e-5 for square loss and 1e-3 for the others.
        weight_decay: lambda in w <- w - step (gradient + lambda w), for all weights.
        max_steps: at most so many steps.
        tolerance: stop below this loss, by default 1e-7. With weight decay: when a step changes the head by less than
            this share of what the decay alone would, by default 0.01.
        stable: take a larger step if one is safely stable: the same path up to discretisation. Losses without a
            minimum then end where `max_steps` steps of `step_size` would have.
        progress: called with (step, most steps, loss) whenever the loss is computed.
        checkpoint: file to save the state to now and then.
        resume: continue from that file if it exists; the weights become the same to the bit.
    """
    rows = finite_rows("inputs", inputs, math.prod(network.input_shape)).to(network.head.weight)
    of_loss = losses.get(loss)
    plan = Plan(
        of_loss,
        _checked_targets(of_loss, labels, rows, network),
        of_loss.step_size if step_size is None else step_size,
        max_steps,
        (_STILL if weight_decay else _FITTED) if tolerance is None else tolerance,
        weight_decay,
    )
    saved = Checkpoint(checkpoint, "" if checkpoint is None else _identity(network, rows, plan, stable), resume)
    initial = {name: weight.detach().clone() for name, weight in network.named_parameters()}
    trajectory = _trajectory(network, rows, plan)
    with threads_for(trajectory.multiplications):
        taken, steps, value, converged = _descend(trajectory, plan, stable, saved, progress)
        drift = trajectory.drift()
        trajectory.finish()
    return Training(
        network=network.eval(),
        initial=initial,
        steps=steps,
        loss=value,
        converged=converged,
        step_size=taken.step_size,
        weight_decay=weight_decay,
        loss_name=loss,
        decay=trajectory.decay,
        drift=drift,
        note=_note(plan.step_size, taken.step_size),
    )


def _descend(
    trajectory: Trajectory, asked: Plan, stable: bool, saved: Checkpoint, progress: Progress | None
) -> tuple[Plan, int, float, bool]:
    """Trains, with half the step again whenever a stable run diverges, down to the step that was asked for.

    Returns the plan that was followed, the steps, the loss and whether it converged.
    """
    place, state = Place.start(trajectory, asked), saved.load()
    if state is not None:
        tensors, numbers = state
        trajectory.restore(tensors, numbers["decay"])
        place, step_size = Place(numbers["step"], numbers["reference"]), numbers["step_size"]
    elif stable:
        step_size = max(asked.step_size, stable_step(trajectory, asked.loss, asked.weight_decay))
    else:
        step_size = asked.step_size
    while True:
        plan = _with_step(asked, step_size)
        _check_decay(plan, trajectory.outputs.dtype)
        try:
            return plan, *follow(trajectory, plan, place, saved, progress)
        except DivergedError as error:
            if step_size <= asked.step_size:
                advice = "use a smaller one" if stable else "use a smaller one, and stable to have it chosen"
                raise InputError(f"training diverged with step size {step_size:g}: {error}; {advice}") from error
        step_size = max(step_size / 2, asked.step_size)
        trajectory.restore(None, 1.0)
        place = replace(place, step=0)


def _with_step(asked: Plan, step_size: float) -> Plan:
    """The plan with another step size. A loss without a minimum ends after the same step_size * steps."""
    endless = not asked.loss.has_minimum and asked.weight_decay == 0
    limit = math.ceil(asked.max_steps * asked.step_size / step_size) if endless else asked.max_steps
    larger = step_size > asked.step_size
    return replace(asked, step_size=step_size, max_steps=limit, monotone=larger and asked.weight_decay == 0)


def _trajectory(network: Network, rows: Tensor, plan: Plan) -> Trajectory:
    if isinstance(network, TwoLayer):
        return GramTrajectory(network, rows, plan.targets, plan.loss, plan.weight_decay)
    return PlainTrajectory(network, rows, plan.targets, plan.loss, plan.weight_decay)


def _note(asked: float, used: float) -> str:
    if used <= asked:
        return ""
    return (
        f"step {used:.1e} instead of {asked:g}: the same path up to discretisation, "
        f"{used / asked:.0f} times fewer steps"
    )


def _identity(network: Network, rows: Tensor, plan: Plan, stable: bool) -> str:
    settings = {
        "network": network.name,
        "config": network.config,
        "loss": plan.loss.name,
        "step_size": plan.step_size,
        "weight_decay": plan.weight_decay,
        "stable": stable,
    }
    return fingerprint(settings, (*network.parameters(), rows, plan.targets))


def _checked_targets(loss: Loss, labels: Tensor, rows: Tensor, network: Network) -> Tensor:
    if labels.ndim == 0 or len(labels) != len(rows):
        raise InputError(f"labels of shape {tuple(labels.shape)} for {len(rows)} inputs; valid: one for each")
    return loss.targets(finite("labels", labels.detach()), network.num_outputs).to(rows)


def _check_decay(plan: Plan, dtype: torch.dtype) -> None:
    """Refuses weight decay that rounding would cancel, or that would change the signs of weights."""
    shrinking, least = plan.step_size * plan.weight_decay, _RESOLVED * torch.finfo(dtype).eps
    if shrinking >= 1:
        raise InputError(f"step_size * weight_decay is {shrinking:g}; valid: below 1")
    if plan.weight_decay and shrinking < least:
        raise InputError(
            f"step size {plan.step_size:g} with weight decay {plan.weight_decay:g} shrinks weights by {shrinking:.1g} "
            f"a step, which {str(dtype).removeprefix('torch.')} rounds away; valid: at least {least:.1g}, by a larger "
            f"step size (stable), more weight decay, or a float64 network"
        )
