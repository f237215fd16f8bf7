"""The public part of a trained network: what a thief of its weights holds."""

from __future__ import annotations

from exhume.knowledge import Knowledge
from exhume.target import Target
from exhume.training.descent import Training


def target(training: Training, *, input_shape: tuple[int, ...] = (), knowledge: Knowledge | None = None) -> Target:
    """The trained network and its weights before training, as an attack's target.

    Gradient descent with weight decay ends at W(T) = s W(0) + A^T Phi, s = `training.decay`: only with s W(0) taken
    off is the rest in the span of features, so that is what counts as the initial weights here. Without decay s = 1.

    Args:
        training: what `train` returned.
        input_shape: shape of one input, if it is another than the network's: a two-layer network takes flat rows of
            what may be pictures.
        knowledge: what the attacker is assumed to know besides; by default nothing.
    """
    return Target.last_layer(
        training.network,
        head="head",
        initial_head={name: training.decay * weight for name, weight in training.initial.items()},
        input_shape=tuple(input_shape) or training.network.input_shape,
        knowledge=knowledge,
    )
