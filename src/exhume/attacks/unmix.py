"""The unmixing attack: training inputs from the displacement of a dense first layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from torch import nn

from exhume.attacks._base.attack import Attack
from exhume.attacks._base.problem import EquationCount, Problem, Proposal
from exhume.attacks._base.session import Session
from exhume.attacks._finish.smooth_columns import finish_smooth
from exhume.attacks._finish.unmixed import finish_columns
from exhume.attacks._search.unmixing.estimates import Estimation
from exhume.attacks._search.unmixing.few_neurons import mixture_of
from exhume.attacks._search.unmixing.sample_spaces import ReadNetwork, is_curved
from exhume.attacks._search.unmixing.search import UnmixSearch
from exhume.attacks._search.unmixing.smooth_columns import SmoothSearch
from exhume.errors import InputError, TooFewEquations
from exhume.target.dense_displacement import DenseDisplacement, dense_displacement, dense_first_layer
from exhume.target.diagnosis import diagnose
from exhume.target.diagnosis.optimiser_trace import ADAPTIVE
from exhume.target.first_layer import FirstLayer, first_layer
from exhume.target.network_weights import NetworkWeights
from exhume.target.target import Target

# Neurons per sample below which the zeros of a column do not determine it: at most half of its entries are zero, and
# there must be as many as samples.
FEWEST_NEURONS = 3.0
# The rank of the displacement over the number of samples from which on the optimiser is doubted. A copy of each sample,
# such as its mirror image, doubles the rank.
_MUCH_LARGER = 2


@dataclass(frozen=True)
class Unmix(Attack):
    """Finds the columns of D = C [X 1], the displacement of a dense first layer, and so the inputs X.

    C is exactly zero where a neuron was inactive on a sample at every step. The columns are found by these zeros and by
    the neurons that the initial and the trained weights leave inactive; their dual basis is the training set, with
    signs, and with norms if the layer has a bias. It needs the initial weights of the first layer, a ReLU after it, and
    training by SGD of any kind (mini-batches, momentum, schedules, dropout above the layer, weight decay, L-BFGS). It
    needs neither labels nor the number of samples.

    Smooth activations (GELU, tanh, SiLU) leave no zeros. There each input is found by what it can have sent back to
    the layer, on the path of training, which is simulated with the samples found; the initial weights of all layers
    are needed, and the result is approximate: errors of 0.001 to 0.1.

    Examples:
        >>> import exhume
        >>> import torch
        >>> from torch import nn
        >>> from exhume import data
        >>> digits = data.load("digits", samples=6)
        >>> _ = torch.manual_seed(0)
        >>> model = nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 1))
        >>> before = {name: weight.clone() for name, weight in model.state_dict().items()}
        >>> optimiser = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        >>> for _ in range(100):
        ...     optimiser.zero_grad()
        ...     nn.functional.mse_loss(model(digits.inputs)[:, 0], digits.labels).backward()
        ...     optimiser.step()
        >>> target = exhume.Target.last_layer(model.eval(), initial_head=before, input_shape=(64,))
        >>> result = exhume.Unmix()(target)  # the number of samples is not given
        >>> result.certificate.verdict, exhume.score(result, digits.inputs).recovered
        ('exact', 6)
    """

    name: ClassVar[str] = "unmix"
    estimates_samples: ClassVar[bool] = True

    def equation_count(self, target: Target, num_samples: int) -> EquationCount:
        """Entries of D, and those of C and [X 1] up to the scale of each sample; behind a ReLU half of C is zero."""
        model = target.known_model
        if model is None:
            raise InputError(_NO_NETWORK)
        first = dense_first_layer(model, target.input_shape)
        (rows, _), width = first.layer.weight.shape, _width(model, first)
        return EquationCount(rows * width, num_samples * (rows // 2 + width - 1))

    def _check_equations(self, target: Target, count: int, allow_underdetermined: bool) -> None:
        if target.known_model is not None and not allow_underdetermined:
            first = dense_first_layer(target.known_model, target.input_shape)
            width = _width(target.known_model, first)
            if reason := why_filled(first, width, count + target.knowledge.known_samples):
                raise TooFewEquations(reason)
        super()._check_equations(target, count, allow_underdetermined)

    @staticmethod
    def applies_to(target: Target) -> bool:
        """Whether the first layer is dense, with known initial weights; its activation is not examined."""
        if target.known_model is None:
            return False
        try:
            first = first_layer(target.known_model.module, target.input_shape)
        except InputError:
            return False
        return isinstance(first.layer, nn.Linear) and first.parameter("weight") in target.known_model.initial

    def run(self, problem: Problem, session: Session) -> Proposal:
        """Reads D, finds its columns, and computes the inputs."""
        model = problem.target.known_model
        if model is None:
            raise InputError(_NO_NETWORK)
        told = problem.num_samples
        if told is not None:
            told += problem.target.knowledge.known_samples
        moved = dense_displacement(model, problem.target.input_shape, told)
        if told is not None and moved.spectrum.rank > _MUCH_LARGER * told:
            _refuse_adaptive(problem.target, moved, f" for {told} samples")
        search: UnmixSearch | SmoothSearch
        if moved.relu:
            mixture = mixture_of(problem, moved)
            if mixture.num_neurons < FEWEST_NEURONS * mixture.rank:
                _refuse_adaptive(problem.target, moved)
                raise InputError(
                    f"{mixture.num_neurons} neurons are too few to separate {mixture.rank} samples by their zeros; it "
                    f"takes at least {FEWEST_NEURONS:g} a sample, and usually 6"
                )
            estimation = Estimation(problem, mixture, moved)
            others = mixture.readout is not None or estimation.possible
            search = UnmixSearch(problem, mixture, estimation=estimation)
            proposal = finish_columns(problem, moved, mixture, session.run_stage(search))
        else:
            others = True
            search = SmoothSearch(problem, _smooth_network(model, moved, problem.target.input_shape))
            proposal = finish_smooth(problem, search, session.run_stage(search))
        own = {moved.first.parameter(each) for each in ("weight", "bias")}
        read = [name for name in model.initial if others or name in own]
        proposal = replace(proposal, evidence=proposal.evidence | {"initial_weights": read})
        if told is not None and told != search.count:
            note = f"Samples: {told} were to be looked for, but the first layer was moved by {search.count}."
            proposal = replace(proposal, notes=proposal.notes | {"told": note})
        return proposal


_NO_NETWORK = (
    "unmix reads the first layer of a network, and this target has none, or its initial weights are not known; give "
    "the state dict of the untrained network as initial_head"
)


def _width(model: NetworkWeights, first: FirstLayer) -> int:
    """Columns of D: one for each input, and one for a bias whose initial value is known."""
    has_bias = first.layer.bias is not None and first.parameter("bias") in model.initial
    return first.layer.weight.shape[1] + has_bias


def why_filled(first: FirstLayer, width: int, num_samples: int) -> str:
    """Why D (h, width) does not show so many samples; empty if its rank can."""
    rows, columns = first.layer.weight.shape
    if num_samples < min(rows, width):
        return ""
    size = f"{columns} inputs{', a bias' if width > columns else ''} and {rows} neurons"
    return (
        f"{num_samples} samples fill the first layer {first.name!r} of {size}: it shows at most {min(rows, width) - 1}"
    )


def _refuse_adaptive(target: Target, moved: DenseDisplacement, samples: str = "") -> None:
    """Declines weights that moved as Adam moves them: then the rank of D is not the number of samples."""
    if any(each.kind == "optimiser" and each.value == ADAPTIVE for each in diagnose(target)):
        raise InputError(
            f"the displacement of the first layer {moved.first.name!r} has rank {moved.spectrum.rank}{samples}: not "
            "trained by SGD from these weights, which moved as Adam, AdamW or RMSprop move them; replay attacks such "
            "networks, if the recipe is known (--recipe)"
        )


def _smooth_network(model: NetworkWeights, moved: DenseDisplacement, input_shape: tuple[int, ...]) -> ReadNetwork:
    """A network that the search without zeros can read; others are declined."""
    missing = [name for name in model.trained if name not in model.initial]
    if missing:
        raise InputError(
            f"no ReLU follows the first layer {moved.first.name!r} directly; for other activations the initial weights "
            f"of all layers are needed, and these are not known: {', '.join(missing)}"
        )
    network = ReadNetwork(model, moved, input_shape)
    if not is_curved(network):
        raise InputError(
            f"no ReLU follows the first layer {moved.first.name!r} directly, so that its displacement has no exact "
            "zeros, and what it passes on is piecewise linear, so that what a sample sends back does not show it"
        )
    return network
