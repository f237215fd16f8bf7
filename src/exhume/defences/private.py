"""DP-SGD: the head trained anew by opacus, with clipped gradients and noise of a stated epsilon."""

from __future__ import annotations

import importlib
import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from exhume.defences.altered import unread_bias, with_head
from exhume.defences.base import Defence, Release, Setting, check_between
from exhume.defences.refit import features_of, note_on_refit, start_of, without_alphabet
from exhume.errors import InputError
from exhume.support.labels import Kind, as_outputs, kind_of
from exhume.support.randomness import generator_for

INSTALL = "opacus is not installed; pip install 'exhume[dp]'"
# Numbers that a step keeps: a gradient of the head for every sample.
MOST_GRADIENTS = 2 * 10**7
CLIP = 1.0
# Steps for each sample, and their limits: without noise they fit the labels of small models.
_STEPS_EACH, _FEWEST, _MOST = 20, 200, 1000
# Step sizes for features of norm one. The losses curve by at most 2 (square), 1/2 (softmax) and 1/4 (logistic).
_STEP_SIZE = {"numbers": 0.5, "binary": 0.5, "classes": 2.0, "signs": 4.0}
_LOSS_IN_WORDS = {"numbers": "square loss", "binary": "square loss", "classes": "softmax", "signs": "logistic loss"}
_PROBES = 64


@dataclass(frozen=True)
class PrivateTraining(Defence):
    """Full-batch DP-SGD on the head: gradients of single samples clipped to norm 1, Gaussian noise on their sum.

    Features are scaled to norm one by a number that does not depend on the data, so that gradients are clipped only
    where the loss is steep. Delta is 1 / (10 n). The epsilon is for the training of the head: a body that the data
    trained is not covered, and the seed that draws the noise must stay secret.

    Attributes:
        epsilons: privacy budgets; infinity is the same training without noise, as a control.
    """

    name: ClassVar[str] = "dp-sgd"
    summary: ClassVar[str] = "the head trained anew with differential privacy"
    needs: ClassVar[tuple[str, ...]] = ("inputs", "labels")

    epsilons: tuple[float, ...] = (math.inf, 1000.0, 100.0, 10.0, 1.0)

    def __post_init__(self) -> None:
        check_between("an epsilon of", tuple(each for each in self.epsilons if each != math.inf), 0.0, math.inf)

    def settings(self, release: Release) -> list[Setting]:
        """One for each epsilon, the largest first."""
        names = ((each, "no noise" if each == math.inf else f"epsilon {each:g}") for each in self.epsilons)
        return [Setting(name, 1 / each) for each, name in sorted(names, reverse=True)]

    def alter(self, release: Release, setting: Setting) -> tuple[Release, str]:
        """Trains the head from where it started."""
        target, data = release.target, release.dataset
        count = data.num_samples
        size = count * target.num_parameters
        if size > MOST_GRADIENTS:
            raise InputError(
                f"too large for DP-SGD: {count} samples x {target.num_parameters} weights of the head are {size:,} "
                f"numbers a step; at most {MOST_GRADIENTS:,}"
            )
        kind = kind_of(data.labels, target.num_outputs)
        features, start = features_of(target, data.inputs), start_of(target)
        scale = _usual_norm(release)
        wanted = as_outputs(data.labels, target.num_outputs).to(features)
        before = features @ start.to(features).T + unread_bias(target).to(features)
        epsilon = math.inf if setting.strength == 0 else 1 / setting.strength
        generator = generator_for(release.seed, f"defence dp-sgd {setting.name}")
        moved, spent = train_privately(features / scale, before, wanted, kind, epsilon, generator)
        changed = without_alphabet(with_head(target, start + (moved / scale).to(start)))
        budget = "no privacy" if epsilon == math.inf else f"epsilon {spent:.3g} at delta {1 / (10 * count):.2g}"
        return replace(release, target=changed), f"{budget}; {note_on_refit(target, _LOSS_IN_WORDS[kind])}"


def train_privately(
    features: torch.Tensor,
    before: torch.Tensor,
    wanted: torch.Tensor,
    kind: Kind,
    epsilon: float,
    generator: torch.Generator,
) -> tuple[torch.Tensor, float]:
    """The displacement (k, p) of a linear head that starts at outputs `before` (n, k), and the epsilon spent.

    Args:
        features: (n, p), of norm about one.
        before: outputs that the head starts with.
        wanted: (n, k) labels.
        kind: of the labels; decides the loss.
        epsilon: budget, or infinity.
        generator: of the noise.
    """
    opacus = _opacus()
    count, width = features.shape
    steps = min(max(_STEPS_EACH * count, _FEWEST), _MOST)
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # that the engine is not cryptographically safe, and on its hooks
        layer = nn.Linear(width, before.shape[1], bias=False).to(features)
        nn.init.zeros_(layer.weight)
        engine = opacus.PrivacyEngine(accountant="rdp")
        parts = {
            "module": layer,
            "optimizer": torch.optim.SGD(layer.parameters(), lr=_STEP_SIZE[kind]),
            "data_loader": DataLoader(TensorDataset(features, before, wanted), batch_size=count),
            "max_grad_norm": CLIP,
            "noise_generator": generator,
        }
        if epsilon == math.inf:
            model, optimiser, batches = engine.make_private(**parts, noise_multiplier=0.0)
        else:  # the least noise that keeps to the budget; every step is an epoch
            budget = {"target_epsilon": epsilon, "target_delta": 1 / (10 * count), "epochs": steps}
            model, optimiser, batches = engine.make_private_with_epsilon(**parts, **budget)
        for _ in range(steps):
            for rows, offset, labels in batches:
                optimiser.zero_grad()
                _loss(model(rows) + offset, labels, kind).backward()
                optimiser.step()
        spent = math.inf if epsilon == math.inf else float(engine.get_epsilon(1 / (10 * count)))
    return layer.weight.detach().clone(), spent


def _loss(outputs: torch.Tensor, wanted: torch.Tensor, kind: Kind) -> torch.Tensor:
    """The mean over samples."""
    if kind == "classes":
        return nn.functional.cross_entropy(outputs, wanted.argmax(1))
    if kind == "signs":
        return nn.functional.softplus(-wanted * outputs).mean()
    return 0.5 * (outputs - wanted).square().sum(1).mean()


def _usual_norm(release: Release) -> float:
    """The norm of features at Gaussian inputs: a scale that does not depend on the data."""
    features = release.target.features
    generator = generator_for(release.seed, "defence dp-sgd scale")
    probes = torch.randn((_PROBES, features.input_dim), generator=generator)
    return float(features.forward(probes.to(features.device, features.dtype)).norm(dim=1).mean())


def _opacus() -> Any:
    """The library, loaded where it is first used: it is an extra."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("opacus")
    except ImportError as error:
        raise InputError(INSTALL) from error
