"""Networks trained as in the paper: two-layer, ResNet and ViT above and below the wall, both methods (EXHUME_DATA)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import exhume
from benches.problems import say, table
from exhume import data, networks
from exhume.data import Dataset
from exhume.networks import Network
from exhume.victims import train
from exhume.victims.trained_network import target


@dataclass(frozen=True)
class Case:
    """A network on CIFAR-10: its data, how wide its head is, and how it is trained."""

    name: str
    ratio: float
    images: dict[str, Any]
    build: Callable[[Dataset, float], Network]
    training: dict[str, Any]
    descent_steps: int = 200  # the paper runs up to 10^6 steps; these show the error after few


def two_layer(training: Dataset, parameters: float) -> Network:
    outputs = training.labels.shape[1]
    return networks.TwoLayer(training.input_dim, round(parameters / outputs), outputs, seed=1)


def resnet(training: Dataset, parameters: float) -> Network:
    assert training.picture is not None
    return networks.ResNet(training.picture.shape, networks.ResNet.channels_for(int(parameters)), seed=1)


def vit(training: Dataset, parameters: float) -> Network:
    assert training.picture is not None
    outputs = training.labels.shape[1]
    shape = training.picture.shape
    width = round(parameters / outputs)
    return networks.VisionTransformer(shape, width, outputs, patch=shape[1], depth=1, seed=1)


TEN = {"classes": "all", "per_class": 1}
SMALL = {"per_class": 2, "standardise": "channel", "size": 8}
FOUR = {"classes": "0,1,2,3", "per_class": 1, "standardise": "channel", "size": 8}
CASES = {
    "two-layer, square": Case("two-layer, square, step 1e-5", 4, TEN, two_layer, {}, 800),
    "two-layer, cross-entropy": Case(
        "two-layer, cross-entropy, step 1e-3", 4, TEN, two_layer, {"loss": "cross-entropy", "stable": True}, 800
    ),
    "resnet": Case("ResNet, 8 x 8 x 3", 8, SMALL, resnet, {"stable": True}),
    "resnet below": Case("ResNet, 8 x 8 x 3", 0.25, SMALL, resnet, {"stable": True}),
    "vit": Case("ViT, 8 x 8 x 3", 8, FOUR, vit, {"stable": True}),
    "vit below": Case("ViT, 8 x 8 x 3", 0.25, FOUR, vit, {"stable": True}),
}


def main() -> None:
    rows = []
    for name, case in CASES.items():
        training = data.load("cifar10", **case.images)
        if training.labels.ndim == 2:  # as many outputs as classes, as in the paper
            training = replace(training, labels=training.labels[:, training.labels.any(0)])
        wall = training.input_dim * training.num_samples
        network = case.build(training, case.ratio * wall)
        trained = train(network, training.inputs, training.labels, **case.training)
        say(f"{name}: loss {trained.loss:.1e} after {trained.steps} steps, drift {trained.drift:.2g}. {trained.note}")
        assert training.picture is not None
        knowledge = exhume.Knowledge.about(training.labels, interpolated=trained.interpolates)
        victim = target(trained, input_shape=training.picture.shape, knowledge=knowledge)
        few = {"max_starts": 1} if case.ratio < 1 else {}  # below the wall another start cannot help
        for method, options in (("exact", few), ("descent", {"max_steps": case.descent_steps})):
            result = exhume.reconstruct(victim, method=method, seed=0, allow_underdetermined=True, **options)
            say(result.summary())
            judged = exhume.score(result, training.inputs)
            error = judged.claimed_error
            predicted = result.certificate.predicted_error
            rows.append(
                (
                    case.name,
                    training.num_samples,
                    f"{network.num_outputs * network.num_features / wall:.2f}",
                    f"{100 * trained.drift:.2g} %",
                    method,
                    f"{error:.4f}",
                    "-" if predicted is None else f"{predicted:.4f}",
                    f"{result.certificate.residual:.1e}",
                    result.steps,
                    f"{result.passes:.0f}",
                    f"{result.seconds:.0f}",
                    result.certificate.verdict,
                )
            )
            say(str(rows[-1]))
    columns = ("network", "n", "p_L/dn", "drift", "method", "error", "predicted", "residual")
    table((*columns, "steps", "passes", "seconds", "verdict"), rows)
