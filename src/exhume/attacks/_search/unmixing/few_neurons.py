"""What the outputs say of a first layer's columns, where it has few neurons for each sample.

Where the outputs read the layer directly, as in a network of two layers, a sample sends back the same combination of
the outputs' weights to all neurons that it activates, up to their change in training. Zeros alone do not separate
columns there: at six neurons a sample a column has hardly more zeros than there are samples.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from exhume.attacks._base.problem import Problem
from exhume.attacks._search.unmixing.mixture import Mixture
from exhume.attacks._search.unmixing.sample_spaces import ReadNetwork, Tensor
from exhume.target.dense_displacement import DenseDisplacement


def mixture_of(problem: Problem, moved: DenseDisplacement) -> Mixture:
    """The displacement in coordinates, with the outputs' weights where there are few neurons a sample."""
    tuning, model = problem.tuning.unmix, problem.target.known_model
    if problem.target.num_outputs <= 2:  # there a neuron that moved little may be one where two samples cancel
        tuning = replace(tuning, uneven=(0.0, *tuning.uneven[1:]))
    mixture = Mixture(moved, tuning)
    if model is None or not mixture.few_neurons:
        return mixture
    return Mixture(moved, tuning, direct_readout(ReadNetwork(model, moved, problem.target.input_shape)))


def direct_readout(network: ReadNetwork) -> Tensor | None:
    """Weights (k', h) by which the outputs read the neurons of the first layer, halfway through training.

    None if other neurons lie between, so that what is sent back to the layer depends on the input.
    """
    generator, width = torch.Generator().manual_seed(0), len(network.moved.before)
    drawn = torch.rand((2, width), generator=generator, dtype=torch.float64).to(network.moved.before)
    (weights,) = network.straight([0.5])
    with torch.enable_grad():
        point = (drawn + 0.1).requires_grad_()  # every neuron active
        outputs = network.above(weights, point)
        rows = [
            torch.autograd.grad(outputs[:, at].sum(), point, retain_graph=True)[0] for at in range(outputs.shape[1])
        ]
    first, second = torch.stack(rows, 1)
    return first if torch.allclose(first, second, rtol=1e-9, atol=0.0) else None
