"""The attack on all layers: training inputs from the displacement of a whole network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from exhume.attacks._base.attack import Attack
from exhume.attacks._base.problem import EquationCount, Problem, Proposal
from exhume.attacks._base.session import Session
from exhume.attacks._finish.feature_spans import finish_spans
from exhume.attacks._finish.layers import finish_layers
from exhume.attacks._search.feature_spans.search import FeatureSpanSearch
from exhume.attacks._search.on_paths import too_large
from exhume.attacks._search.pooled import layers_search
from exhume.equation.feature_span import FeatureSpans
from exhume.equation.parameters import chosen_names, count_equations, known_network
from exhume.equation.path import Nodes
from exhume.equation.trained_network import TrainedNetwork
from exhume.errors import InputError
from exhume.results.error_bars import Limits
from exhume.target.target import Target


@dataclass(frozen=True)
class Layers(Attack):
    """Solves Delta theta = sum_q sum_j J(theta_q, x_j)^T c_jq for the samples, over all layers that moved.

    SGD of any kind (mini-batches, momentum, schedules) moves every layer by a combination of the samples' gradients
    along the path of training. Nodes theta_q on that path come from simulating the training with the samples found so
    far. It needs the initial weights of all layers that it reads and the number of samples, not the recipe.

    Attributes:
        max_starts: independent starts at most; two that agree are enough. Networks that are too large for the equation
            are read by feature spans, from one start.

    Examples:
        >>> import exhume
        >>> import torch
        >>> from torch import nn
        >>> from exhume import data
        >>> samples = data.load("sphere", dim=8, samples=2).inputs
        >>> _ = torch.manual_seed(0)
        >>> model = nn.Sequential(nn.Linear(8, 40), nn.GELU(), nn.Linear(40, 2))
        >>> before = {name: weight.clone() for name, weight in model.state_dict().items()}
        >>> optimiser = torch.optim.SGD(model.parameters(), 0.05)
        >>> for _ in range(100):
        ...     optimiser.zero_grad()
        ...     nn.functional.cross_entropy(model(samples), torch.tensor([0, 1])).backward()
        ...     optimiser.step()
        >>> target = exhume.Target.network(model.eval(), initial=before, input_shape=(8,))
        >>> result = exhume.Layers()(target, num_samples=2)
        >>> result.certificate.verdict, exhume.score(result, samples).recovered
        ('approximate', 2)
    """

    name: ClassVar[str] = "layers"

    max_starts: int = 6

    def __post_init__(self) -> None:
        if self.max_starts < 1:
            raise InputError(f"max_starts must be at least 1, got {self.max_starts}")

    # A less precise solve does not see what samples of one class exchange.
    limits: ClassVar[Limits] = Limits(solve_tolerance=0.01)

    def equation_count(self, target: Target, num_samples: int) -> EquationCount:
        """Numbers of all layers with known initial weights; entries of the samples and coefficients at the nodes."""
        if not self.applies_to(target):
            raise InputError(_NO_NETWORK)
        per_sample = target.features.input_dim + self.tuning.layers.nodes * target.num_outputs
        return EquationCount(count_equations(target, "all", from_initial=True), num_samples * per_sample)

    @staticmethod
    def applies_to(target: Target) -> bool:
        """Whether a layer below the head was trained and its initial weights are known."""
        model = known_network(target)
        return model is not None and any(not model.in_head(name) for name in model.trained if name in model.initial)

    def run(self, problem: Problem, session: Session) -> Proposal:
        """Searches from noise, from several starts, and judges what they agree on."""
        target = problem.target
        model = known_network(target)
        assert model is not None  # checked with the count of equations
        assert problem.num_samples is not None
        network = TrainedNetwork(model, target.input_shape, torch.float32)
        names, left_out = chosen_names(target, "all", from_initial=True)
        if too_large(problem, network, names):
            proposal = self._by_feature_spans(problem, session, network, names)
        else:
            search = layers_search(problem, network, Nodes((), names, known=target.knowledge.samples), self.max_starts)
            found = session.run_stage(search)
            counted = self.equation_count(target, problem.num_samples)
            proposal = finish_layers(problem, search, found, counted, self.limits)  # type: ignore[arg-type]
        if left_out:
            proposal.notes["left out"] = f"Left out, as their initial weights are not known: {', '.join(left_out)}."
        return proposal

    def _by_feature_spans(
        self, problem: Problem, session: Session, network: TrainedNetwork, names: tuple[str, ...]
    ) -> Proposal:
        """Searches the samples one by one in the row spaces of layers with few positions."""
        assert problem.num_samples is not None
        total = problem.num_samples + problem.target.knowledge.known_samples
        spans = FeatureSpans(network, names, total, problem.features.count)
        if not spans.layers:
            raise InputError(_TOO_LARGE)
        found = session.run_stage(FeatureSpanSearch(problem, spans))
        return finish_spans(problem, spans, found, self.equation_count(problem.target, problem.num_samples))


_TOO_LARGE = (
    "the gradients of all samples at all nodes exceed 4 GB, and no linear layer or convolution can hold the "
    "patches of all samples: samples times positions exceed its inputs or outputs everywhere"
)
_NO_NETWORK = (
    "layers reads a whole network, and this target has none, or only its head was trained, or the initial weights of "
    "the other layers are not known; give the state dict of the untrained network: "
    "Target.network(module, initial=state_dict, input_shape=...)"
)
