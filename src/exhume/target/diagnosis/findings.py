"""What the weights alone show of how a model was trained, and what an audit needs next; the truth is not read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import torch
from torch import nn

from exhume.support.text import plural
from exhume.target.diagnosis.optimiser_trace import ADAPTIVE, GRADIENT, trace
from exhume.target.network_weights import NetworkWeights
from exhume.target.start_test import CHANCE, correlation, log_chance_of_pairing
from exhume.target.target import Target

# Weights of a layer from which on its correlation with the initial ones is evidence.
_FEWEST = 64
# A layer of this many weights shows its start, unless training made it this many times as large.
_TELLING, _GROWN = 500, 4.0
# Neurons on both sides from which on their numbering is evidence; a random start of smaller layers has no structure.
_NUMBERED = 16
HEAD_ONLY = "head only"  # an answer about the optimiser: no other layer moved
_POOLS = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)


@dataclass(frozen=True)
class Finding:
    """One thing that the weights show.

    Attributes:
        kind: "start", "optimiser", "decay", "normalisation", "head" or "missing".
        value: the answer in a word, the same in every version.
        sentence: the answer and what shows it.
        advice: what to do about it; empty if there is nothing to do.
    """

    kind: str
    value: str
    sentence: str
    advice: str = ""

    def to_json(self) -> dict[str, str]:
        """Its fields."""
        return asdict(self)


def diagnose(target: Target) -> tuple[Finding, ...]:
    """Reads off the weights how a model was trained; advice is given only where it applies to this model.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> import exhume
        >>> from exhume.target.diagnosis import diagnose
        >>> model = nn.Sequential(nn.Linear(6, 40), nn.GELU(), nn.Linear(40, 3)).eval()
        >>> found = diagnose(exhume.Target.last_layer(model, input_shape=(6,)))
        >>> [(each.kind, each.value) for each in found]
        [('missing', 'initial weights')]
    """
    model = target.known_model
    if model is None:
        return ()
    start = _start(model)
    findings = [*_missing(target, model)]
    if start is not None:
        findings.append(start)
    if start is None or start.value != "does not fit":
        findings += _training(model, target.knowledge.recipe is not None)
    return (*findings, *_normalisation(model.module), *_pooled(target, model))


def _missing(target: Target, model: NetworkWeights) -> Iterator[Finding]:
    """Initial weights that are not known."""
    if target.knowledge.initial_head == "unknown":
        yield Finding(
            "missing",
            "initial weights",
            "The head's initial weights are not known, so that they are part of its displacement, as noise that "
            "usually hides the samples.",
            "Give --initial: a file, zero, or seed:0-99999 if the model was built under a small seed.",
        )
    elif target.knowledge.initial_body != "known" and _body_may_have_moved(model):
        yield Finding(
            "missing",
            "initial body",
            "Of the initial weights only the head's are known, so that the other layers cannot be read.",
            "If the other layers were trained too, give --initial with the weights of all layers.",
        )


def _body_may_have_moved(model: NetworkWeights) -> bool:
    return any(not model.in_head(name) for name in model.trained)


def _start(model: NetworkWeights) -> Finding | None:
    """Whether trained and initial weights belong together; None if no layer can show it."""
    chances, same = {}, 0
    for name, before in _matrices(model).items():
        after = model.weights([name])[name]
        if torch.equal(before.to(after), after):
            same += 1
        elif before.numel() >= _FEWEST and bool(before.any()):
            chances[name] = _log_chance(after, before) + math.log(max(1, len(model.initial)))
    if not chances:
        return None
    unlike = [name for name, chance in chances.items() if chance >= math.log(CHANCE)]
    telling = [name for name in unlike if _is_telling(model.weights([name])[name], model.initial[name])]
    if len(unlike) == len(chances) and telling and not same:
        return Finding(
            "start",
            "does not fit",
            f"In none of {plural(len(chances), 'layer')} do trained and initial weights correlate better than by "
            "chance: they do not belong together, or training left nothing of the start.",
            "Check --initial. A search finds the start by comparison: seed:0-99999, or a folder of checkpoints.",
        )
    if telling:
        return Finding(
            "start",
            "fits in part",
            f"Trained and initial weights belong together except in {', '.join(telling)}, which correlates no better "
            "than by chance: it was perhaps drawn anew before training.",
            "Give the weights that this layer had when training began.",
        )
    if len(unlike) == len(chances):
        return None
    layers = plural(len(chances) - len(unlike), "layer")
    return Finding("start", "fits", f"Trained and initial weights belong together: beyond chance in {layers}.")


def _is_telling(after: torch.Tensor, before: torch.Tensor) -> bool:
    """Whether a layer would correlate with its own start: it is large, and training did not drown that."""
    return before.numel() >= _TELLING and float(after.norm()) <= _GROWN * float(before.norm())


def _log_chance(after: torch.Tensor, before: torch.Tensor) -> float:
    """Logarithm of the probability that weights of another training correlate so well with these."""
    if min(after.shape[:2]) >= _NUMBERED:
        return log_chance_of_pairing(after, before.to(after))
    found = max(0.0, correlation(after.flatten(), before.to(after).flatten()))
    return -before.numel() * found**2 / 2


def _training(model: NetworkWeights, recipe_known: bool) -> Iterator[Finding]:
    """The optimiser and weight decay, from all layers whose initial weights are known."""
    before = _matrices(model)
    body = [name for name in before if not model.in_head(name)]
    after = model.weights(before)
    if not body:
        return
    if all(torch.equal(before[name].to(after[name]), after[name]) for name in body):
        yield Finding(
            "optimiser",
            HEAD_ONLY,
            "Only the head moved: it was trained on a frozen body, or fitted in closed form. Its features are then "
            "those of the released model, as the attack assumes.",
        )
        return
    found = trace({name: each.to(after[name]) for name, each in before.items()}, after, _head_weight(model))
    if found is None:
        return
    if found.family == GRADIENT:
        text = "The weights moved by one step size for all of them (SGD, with or without momentum, or L-BFGS)"
        yield Finding("optimiser", found.family, f"{text}: {found.evidence}.")
    elif found.family == ADAPTIVE:
        yield Finding(
            "optimiser",
            found.family,
            f"Each weight had a step size of its own (Adam, AdamW, RMSprop): {found.evidence}. No weight moved by more "
            f"than {found.largest:.2g}, at most about learning rate x steps. The displacement is then no combination "
            "of inputs or features, which the attacks assume: that they fail shows little.",
            "" if recipe_known else "Give --recipe, the optimiser with its learning rate and steps, for replay.",
        )
    else:
        text = "Which kind of optimiser was used cannot be told from the displacement"
        yield Finding("optimiser", found.family, f"{text}: {found.evidence}.")
    if found.share is not None and found.share != 1:
        yield Finding(
            "decay",
            f"{found.share:.4g}",
            f"Weight decay left {found.share:.4g} of the initial weights: weights that no sample moved are exactly "
            "this share of their start.",
        )


def _normalisation(module: nn.Module) -> Iterator[Finding]:
    """Whether the running statistics of BatchNorm moved from their defaults."""
    layers = {
        name: each
        for name, each in module.named_modules()
        if isinstance(each, nn.modules.batchnorm._BatchNorm) and each.running_mean is not None
    }
    moved = [
        name
        for name, each in layers.items()
        if each.running_mean is not None
        and each.running_var is not None
        and (bool(each.running_mean.any()) or bool((each.running_var != 1).any()))
    ]
    if moved:
        yield Finding(
            "normalisation",
            "moved",
            f"The statistics of {plural(len(moved), 'BatchNorm layer')} moved: training saw features that were "
            "normalised by batches and differed from those of the released model, so that an attack may fail for that "
            "reason alone.",
        )
    elif layers:
        yield Finding(
            "normalisation",
            "not moved",
            "The statistics of BatchNorm are at their defaults: the model was trained without updating them.",
        )


def _pooled(target: Target, model: NetworkWeights) -> Iterator[Finding]:
    """Whether the head is given features that are averages over positions."""
    pooled = any(isinstance(each, _POOLS) and _is_one(each.output_size) for each in model.module.modules())
    width = model.module.get_parameter(_head_weight(model)).shape[1]
    if not pooled or width >= target.features.input_dim:
        return
    known = target.knowledge.initial_body == "known"
    yield Finding(
        "head",
        "pooled",
        f"The head is given {width:,} averages over positions of inputs with {target.features.input_dim:,} numbers, so "
        f"that it shows little of where something is in an input.",
        f"{'Try' if known else 'Give --initial with all layers, and try'} --method layers, which reads all of them.",
    )


def _is_one(size: object) -> bool:
    return size == 1 or (isinstance(size, tuple) and set(size) == {1})


def _matrices(model: NetworkWeights) -> dict[str, torch.Tensor]:
    """The initial weights that are known and have at least two sides, by name."""
    return {name: each for name, each in model.initial.items() if each.ndim >= 2 and each.is_floating_point()}


def _head_weight(model: NetworkWeights) -> str:
    return f"{model.head}.weight" if model.head else "weight"
