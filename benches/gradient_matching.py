"""Attacks on all layers (kkt, ntk, layers), on the first (unmix) and on the head (exact, descent) (EXHUME_DATA)."""

from dataclasses import dataclass, replace
from typing import Any

import torch

import exhume
from benches.problems import say, table
from exhume import data, networks
from exhume.data import Dataset, PictureFormat
from exhume.scoring import matching, metrics
from exhume.victims import train
from exhume.victims.trained_network import target

SIMILAR = 0.4  # SSIM above which Buzaglo et al. call a reconstruction good


@dataclass(frozen=True)
class Case:
    """A victim on CIFAR-10 frogs and trucks, and the attacks with options for its scale.

    The published options are for up to 500 images of 32 x 32 and 50,000 or 80,000 steps. Options that differ were
    chosen on networks with another seed, trained on the same images.
    """

    name: str
    size: int
    per_class: int
    standardised: bool  # otherwise pixels minus their mean
    network: dict[str, Any]
    training: dict[str, Any]
    attacks: dict[str, dict[str, Any]]


UNMIX: dict[str, dict[str, Any]] = {"unmix": {}}
HEAD = {"exact": {"max_starts": 1}, "descent": {"max_steps": 200}}
# Samples of large norm have small coefficients, which need small initial values and small steps.
NTK = {"max_steps": 2500, "coefficient_scale": 0.02, "coefficient_rate": 5e-4, "sharpening_steps": 1500}
KKT = {"max_steps": 4000, "sample_rate": 0.003, "weight_rate": 1e-3, "precision": "float32"}
CASES = (
    Case(
        "two layers, square loss",
        8,
        2,
        True,
        {"hidden": (3072,)},
        {"stable": True},
        {"ntk": NTK, "kkt": KKT, **UNMIX, **HEAD},
    ),
    Case(
        "three layers, square loss (Loo et al.'s kind)",
        16,
        5,
        True,
        {"hidden": (1000, 1000)},
        {"stable": True},
        {"ntk": NTK, **UNMIX, **HEAD},
    ),
    Case(
        "three layers, square loss (Loo et al.'s kind)",
        16,
        15,
        True,
        {"hidden": (1000, 1000)},
        {"stable": True},
        {"ntk": NTK, **UNMIX, **HEAD},
    ),
    Case(
        "three layers, logistic, small start (Haim et al.'s kind)",
        16,
        5,
        False,
        {"hidden": (200, 200), "first_scale": 1e-4},
        {"loss": "logistic", "step_size": 0.03, "max_steps": 20_000},
        {
            "kkt": KKT,
            "kkt, sharper": {**KKT, "sharpness": 500.0},
            "kkt, sharper, first and last layer": {
                **KKT,
                "sharpness": 500.0,
                "parameters": "layers.0.weight,head.weight",
            },
            "ntk": {**NTK, "max_steps": 4000},
            "layers": {},
            **UNMIX,
            **HEAD,
        },
    ),
)


def pictures(case: Case) -> tuple[Dataset, torch.Tensor]:
    """The training set, and twice as many other images of the same classes."""
    training = data.load("cifar10", per_class=case.per_class, size=case.size)
    raw = data.load("cifar10", per_class=3 * case.per_class, size=case.size, standardise="none")
    assert training.picture is not None
    if not case.standardised:
        kind = PictureFormat(training.picture.shape, training.picture.mean, (1.0,))
        training = replace(
            training, inputs=kind.to_vectors(training.picture.to_pictures(training.inputs)), picture=kind
        )
    classes = raw.inputs.reshape(2, 3 * case.per_class, *training.picture.shape)
    others = classes[:, case.per_class :].flatten(0, 1)
    return training, training.picture.to_vectors(others)


def similar(rows: torch.Tensor, training: Dataset, norms_known: bool) -> int:
    """How many true samples have a nearest row with an SSIM above 0.4; undetermined norms are set to the true ones."""
    assert training.picture is not None
    truth, rows = training.inputs.double(), rows.double().cpu()
    place = (lambda vectors: vectors) if norms_known else matching.on_sphere
    nearest = rows[matching.distances(place(truth), place(rows))[0].argmin(1)]
    shown = nearest if norms_known else matching.on_sphere(nearest, truth.norm(dim=1))
    ssim = metrics.picture_scores(training.picture.to_pictures, shown, truth)[1]
    return sum(value > SIMILAR for value in ssim)


def main() -> None:
    rows = []
    for case in CASES:
        training, others = pictures(case)
        network = networks.MLP(training.input_dim, **case.network, seed=2)
        trained = train(network, training.inputs, training.labels, **case.training)
        drift = f"{round(100 * trained.drift, 1)} %"
        say(f"{case.name}: loss {trained.loss:.1e} after {trained.steps} steps, drift {drift}. {trained.note}")
        assert training.picture is not None
        mean, std = training.picture.mean, training.picture.std
        knowledge = exhume.Knowledge(
            num_samples=training.num_samples, pixel_range=(0.0, 1.0), pixel_mean=mean[0], pixel_std=std[0]
        )
        victim = target(trained, input_shape=training.picture.shape, knowledge=knowledge)
        chance = similar(others, training, False)
        for name, options in case.attacks.items():
            method = name.partition(",")[0]
            result = exhume.reconstruct(victim, method=method, seed=0, allow_underdetermined=True, **options)
            judged = exhume.score(result, training.inputs)
            error = judged.claimed_error
            found = judged.claimed_recovered
            say(result.summary())
            rows.append(
                (
                    case.name,
                    f"{case.size} x {case.size}",
                    training.num_samples,
                    f"{network.num_features / (training.input_dim * training.num_samples):.2f}",
                    drift,
                    name,
                    f"{similar(result.samples, training, result.norms_determined)} (chance {chance})",
                    found,
                    f"{error:.3f}",
                    f"{result.certificate.residual:.1e}",
                    result.steps,
                    f"{result.passes * len(result.samples) / training.num_samples:.0f}",
                    f"{result.seconds:.0f}",
                    result.certificate.verdict,
                )
            )
            say(str(rows[-1]))
    columns = ("victim", "images", "n", "p_L/dn", "drift", "method", "SSIM > 0.4", "error < 0.1", "error", "residual")
    table((*columns, "steps", "passes over n rows", "seconds", "verdict"), rows)
