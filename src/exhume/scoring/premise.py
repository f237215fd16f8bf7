"""The premise of the attacks, tested at the truth: does the training set explain how the weights moved?

After the attack, and without any effect on it, the true samples are put into the equation. For the head that is the
span equation Theta = A^T Phi(X); for a dense layer D = C [H 1] with H its inputs under the trained weights. The share
||P D|| / ||D|| that the best coefficients leave unexplained is compared with the share that as many samples leave that
were not trained on. It is never zero on trained networks, whose features drift: drift leaves 0.06 to 0.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from exhume.errors import ExhumeError, InputError
from exhume.features.find_head import input_of, run
from exhume.features.pass_counter import PassCounter
from exhume.scoring.baselines import draw_surrogates
from exhume.support.randomness import generator_for
from exhume.target.dense_displacement import decay_share
from exhume.target.diagnosis.findings import HEAD_ONLY, diagnose
from exhume.target.diagnosis.optimiser_trace import ADAPTIVE, UNKNOWN
from exhume.target.network_weights import NetworkWeights
from exhume.target.target import Target

# The truth leaves far less than other samples do if it leaves at most this share of what they leave. Set between
# networks trained by SGD and by Adam, with real non-members and with surrogates (`python -m benches audits`).
FAR_BELOW, FAR_BELOW_SURROGATES = 0.5, 0.4
# Above this ratio the truth leaves hardly less than others do.
_HARDLY_BELOW = 0.85
# A layer of which any samples explain all but this share tells nothing.
_TELLING = 0.05
# Draws of other samples, whose shares are averaged.
_DRAWS = 4
# Coordinates of the head that are read: any subset of them satisfies the equation.
_COORDINATES = 20_000
# Most multiplications for one layer; a layer that needs more is left out.
_MOST_WORK = 1e11
# Singular values below this share of the largest do not count as span.
_RANK_TOLERANCE = 1e-7

# From samples (b, d) to what they span, (b, m).
Spanning = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class LayerPremise:
    """One layer: the shares of its displacement that samples leave unexplained.

    Attributes:
        layer: its name.
        truth: left by the true samples.
        others: left by as many samples that were not trained on, mean over draws.
        equations: numbers of the displacement.
    """

    layer: str
    truth: float
    others: float
    equations: int

    @property
    def tells(self) -> bool:
        """Whether the layer can tell samples apart: others do not explain all of it."""
        return self.others > _TELLING

    @property
    def ratio(self) -> float:
        """What the truth leaves, over what others leave."""
        return self.truth / max(self.others, 1e-12)


@dataclass(frozen=True)
class Premise:
    """The equation at the truth, for every layer where it is cheap.

    Attributes:
        layers: the head first.
        non_members: whether others were samples that were not trained on; else surrogates made from the truth.
        complete: whether the truth has as many samples as the attack was told to look for.
        causes: why the equation may not hold for the right samples, without what the weights rule out.
    """

    layers: tuple[LayerPremise, ...]
    non_members: bool
    complete: bool = True
    causes: tuple[str, ...] = ()

    @property
    def best(self) -> LayerPremise | None:
        """The layer that the truth explains best, compared with others; None if no layer tells anything."""
        return min((layer for layer in self.layers if layer.tells), key=lambda layer: layer.ratio, default=None)

    @property
    def holds(self) -> bool | None:
        """Whether the truth explains a layer far better than others do; None if it cannot be told."""
        if self.best is None:
            return None
        if self.best.ratio <= (FAR_BELOW if self.non_members else FAR_BELOW_SURROGATES):
            return True
        return False if self.complete else None

    @property
    def sentence(self) -> str:
        """The comparison of the best layer in words."""
        best = self.best
        if best is None:
            return "The training data that were given say nothing of the equation: any samples explain these layers."
        others = "samples that were not trained on" if self.non_members else "random mixtures of their values"
        left = f"leave {best.truth:.2g} of the displacement of {best.layer} unexplained"
        shares = f"{left}, as many {others} {best.others:.2g}"
        if self.holds:
            return f"The equation holds for the training data: they {shares}."
        if self.holds is None:
            return f"The training data that were given are fewer than were looked for; they {shares}."
        if best.ratio > _HARDLY_BELOW:
            why = "; or ".join(("they may be other data, or prepared in another way", *self.causes))
        else:
            causes = f": {'; or '.join(self.causes)}" if self.causes else ""  # audits of earlier versions have none
            why = f"they explain more than the others, but not by this equation{causes}"
        return f"The equation does not hold for the training data that were given: they {shares}; {why}."

    def to_json(self) -> dict[str, Any]:
        """Everything as plain JSON values."""
        return asdict(self) | {"holds": self.holds, "sentence": self.sentence}


def premise_at(
    target: Target, truth: Tensor, non_members: Tensor | None = None, *, complete: bool = True, seed: int = 0
) -> Premise:
    """Puts the true samples into the equation of every layer where that is cheap.

    Args:
        target: the attacked model.
        truth: (n, d) training samples.
        non_members: (q, d) samples of the same kind that were not trained on; without them, surrogates are drawn.
        complete: whether these are all samples that were looked for.
        seed: of the draws.
    """
    generator = generator_for(seed, "premise")
    truth = truth.detach().cpu().double()
    given = non_members is not None and len(non_members) >= len(truth)
    draws = []
    for _ in range(_DRAWS):
        if given:
            assert non_members is not None
            chosen = torch.randperm(len(non_members), generator=generator)[: len(truth)]
            draws.append(non_members.detach().cpu().double()[chosen])
        else:
            draws.append(draw_surrogates(truth, generator))
    layers = []
    for name, moved, spanning in _layers(target):
        if float(len(truth)) ** 2 * moved.shape[1] > _MOST_WORK:
            continue
        try:
            left, *others = (_unexplained(moved, spanning(each)) for each in (truth, *draws))
        except (ExhumeError, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
            continue
        layers.append(LayerPremise(name, left, sum(others) / len(others), moved.numel()))
    return Premise(tuple(layers), given, complete, tuple(_causes(target)))


def _causes(target: Target) -> Iterator[str]:
    """Why the equation may not hold for the training data of this model."""
    shown = {each.kind: each.value for each in diagnose(target)}
    optimiser = shown.get("optimiser", UNKNOWN)
    if optimiser == ADAPTIVE:
        yield "the optimiser gave every weight its own step size, as Adam does"
        return
    if optimiser != HEAD_ONLY:
        yield "the features may have moved far in training"
    if shown.get("start") != "fits":
        yield "the initial weights may be those of another model"
    if optimiser == UNKNOWN:
        yield "the optimiser may give every weight its own step size, as Adam does"
    yield "the model may have been trained on more data than were given"


def _layers(target: Target) -> Iterator[tuple[str, Tensor, Spanning]]:
    """Name, displacement (k, m) and spanning map of the head and of every dense layer whose start is known."""
    features, columns = target.features, slice(None)
    if features.num_features > _COORDINATES:
        kept = torch.linspace(0, features.num_features - 1, _COORDINATES).round().long().unique()
        features, columns = features.subset(kept), kept
    features = features.with_counter(PassCounter())
    head = target.model.head if target.model is not None else ""

    def span(samples: Tensor) -> Tensor:
        return features.forward(samples.to(features.device, features.dtype)).detach().cpu()

    yield f"the head {head!r}" if head else "the head", target.displacement[:, columns].detach().cpu(), span
    model = target.known_model
    if model is None:
        return
    for name, layer in model.module.named_modules():
        if isinstance(layer, nn.Linear) and name != model.head and f"{name}.weight" in model.initial:
            yield f"the layer {name!r}", _moved(model, name, layer), _inputs_of(model, layer, target.input_shape)


def _moved(model: NetworkWeights, name: str, layer: nn.Linear) -> Tensor:
    """D (h, m): the displacement of weight and bias, with the share of the start that weight decay left."""
    before, after = model.initial[f"{name}.weight"].detach().cpu().double(), layer.weight.detach().cpu().double()
    if layer.bias is not None and f"{name}.bias" in model.initial:
        bias_before = model.initial[f"{name}.bias"].detach().cpu().double()
        before = torch.cat([before, bias_before[:, None]], 1)
        after = torch.cat([after, layer.bias.detach().cpu().double()[:, None]], 1)
    plain = after - before
    if not bool(plain.any()):
        return plain
    try:
        share = decay_share(before, after)
    except (RuntimeError, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
        return plain
    decayed = after - share * before
    return decayed if float(decayed.norm()) < float(plain.norm()) else plain


def _inputs_of(model: NetworkWeights, layer: nn.Linear, input_shape: tuple[int, ...]) -> Spanning:
    """The map from samples to the layer's inputs under the trained weights, and a column of ones for a bias."""
    ones = layer.bias is not None

    def span(samples: Tensor) -> Tensor:
        with input_of(layer) as caught:
            run(model.module, samples.to(layer.weight).reshape(len(samples), *input_shape))
        if len(caught) != 1 or caught[0].ndim != 2:
            raise InputError("the layer is not given one row a sample")
        inputs = caught[0].detach().cpu()
        return torch.cat([inputs, torch.ones(len(inputs), 1)], 1) if ones else inputs

    return span


def _unexplained(moved: Tensor, rows: Tensor) -> float:
    """||P D|| / ||D||, P onto the complement of the rows (n, m)."""
    moved, rows = moved.double(), rows.double()
    size = float(moved.norm())
    if size == 0:
        raise InputError("the layer did not move")
    _, sizes, basis = torch.linalg.svd(rows, full_matrices=False)
    basis = basis[sizes > _RANK_TOLERANCE * sizes[0]]
    for _ in range(2):  # the second time removes what rounding left of the first
        moved = moved - (moved @ basis.T) @ basis
    return float(moved.norm()) / size
