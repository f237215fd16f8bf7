"""The victims of the benchmark: each has a name, a version, and the hash of what it is made from.

The hash is over the training data and the initial weights, rounded to multiples of 2^-12: processors may differ in the
last bits of a number. Trained weights differ more; the hash of those that were attacked stands in the result.
A victim that is changed gets a new version and a new hash: results of different versions are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from sklearn.datasets import load_diabetes
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from exhume import data
from exhume.attacks import Attack
from exhume.benchmark.recipes import Recipe, probe, train_perceptron
from exhume.data import Dataset
from exhume.errors import DataError, unknown_name
from exhume.estimators.linear import span_target
from exhume.networks import MLP
from exhume.support.checkpoint import fingerprint
from exhume.target.displacement import Initial
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target
from exhume.victims import RandomFeatures, train


@dataclass(frozen=True)
class Made:
    """A trained victim: what an attack sees, what it was trained on, and the random numbers it started from."""

    target: Target
    dataset: Dataset
    start: Sequence[torch.Tensor]


@dataclass(frozen=True)
class BenchmarkVictim:
    """A victim by name.

    Attributes:
        name: unique.
        version: raised when the victim changes.
        summary: one line.
        make: trains it.
        hash: of training data and initial weights, the first 16 digits.
        quick: whether `--quick` runs it.
        settings: of attacks whose published settings are for larger models, by the attack's name. They were chosen on
            a network with another seed.
    """

    name: str
    version: int
    summary: str
    make: Callable[[], Made]
    hash: str
    quick: bool = True
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def fitted(self, attack: Attack) -> Attack:
        """The attack with the settings that suit the size of this victim."""
        return replace(attack, **self.settings.get(attack.name, {}))

    @property
    def title(self) -> str:
        """Name and version, such as "law-sphere v1"."""
        return f"{self.name} v{self.version}"

    def build(self) -> Made:
        """Trains the victim and checks that it starts from what its version says."""
        made = self.make()
        found = hash_of(made)
        if found != self.hash:
            raise DataError(
                f"the benchmark victim {self.title} starts from data or weights of hash {found}; valid: {self.hash}. "
                "Other versions of torch or scikit-learn may draw other random numbers; its results would not be "
                "comparable"
            )
        return made


def hash_of(made: Made) -> str:
    """Hash of the training data and of the initial weights."""
    tensors = (made.dataset.inputs, made.dataset.labels, *made.start)
    return fingerprint({}, [(tensor * 2**12).round().to(torch.int32) for tensor in tensors])[:16]


def _law(name: str, features: int, activation: str = "relu", **options: object) -> Callable[[], Made]:
    """Random features on data of the registry, fitted exactly: the setting of the law."""

    def make() -> Made:
        training = data.load(name, **options)
        victim = RandomFeatures(num_features=features, activation=activation, seed=0)
        victim.fit(training.inputs, training.labels)
        corner = victim.feature_map_.forward(torch.eye(training.input_dim)[:1])  # a column of the random weights
        target = victim.target(knowledge=Knowledge(num_samples=training.num_samples))
        return Made(target, training, [corner])

    return make


def _perceptron(name: str, hidden: tuple[int, ...], recipe: Recipe, **options: object) -> Callable[[], Made]:
    """A fully connected network with biases, trained by a plain loop on cross-entropy."""

    def make() -> Made:
        training = data.load(name, labels="one-hot", **options)
        model, initial = train_perceptron(training, hidden, recipe)
        known = Knowledge(num_samples=training.num_samples)
        target = Target.last_layer(model, initial_head=initial, input_shape=(training.input_dim,), knowledge=known)
        return Made(target, training, list(initial.values()))

    return make


def _lazy() -> Made:
    """A wide network without biases that hardly changes: the setting of Loo et al., with a square loss."""
    training = data.load("digits", samples=10)
    return _gradient_descent(MLP(training.input_dim, (1000, 500)), training, start_known=True, stable=True)


def _margin() -> Made:
    """A network near its largest margin whose first layer began near zero: the setting of Haim et al."""
    training = data.load("sphere", dim=10, samples=4, labels="sign", seed=3)
    network = MLP(training.input_dim, (500,), first_scale=1e-4)
    options: dict[str, Any] = {"loss": "logistic", "step_size": 0.5, "max_steps": 2000}
    return _gradient_descent(network, training, start_known=False, **options)


def _gradient_descent(network: MLP, training: Dataset, *, start_known: bool, **options: Any) -> Made:
    """The network after full-batch gradient descent; the attacker may know its initial weights."""
    start = [weight.detach().clone() for weight in network.parameters()]
    trained = train(network, training.inputs, training.labels, **options)
    known = Knowledge(num_samples=training.num_samples)
    initial: Initial = dict(trained.initial) if start_known else "unknown"
    target = Target.last_layer(network, initial_head=initial, input_shape=network.input_shape, knowledge=known)
    return Made(target, training, start)


def _probe() -> Made:
    """A linear probe on frozen convolutions, fitted in closed form."""
    training = data.load("digits", samples=5, labels="one-hot")
    model, start = probe(training)
    known = Knowledge(num_samples=training.num_samples)
    return Made(Target.last_layer(model, initial_head="zero", input_shape=(64,), knowledge=known), training, start)


def _pipeline() -> Made:
    """Logistic regression behind random Fourier features, as a scikit-learn pipeline keeps it."""
    patients, disease = load_diabetes(return_X_y=True)
    records = StandardScaler().fit_transform(patients[:8])
    sampler = RBFSampler(gamma=0.1, n_components=320, random_state=0).fit(records)
    model = LogisticRegression().fit(sampler.transform(records), disease[:8] > 120)
    training = Dataset.of(records, labels=(disease[:8] > 120).astype(float))
    target = span_target([sampler], model).assuming(num_samples=training.num_samples)
    return Made(target, training, [torch.as_tensor(sampler.random_weights_)])


# Loo et al.'s and Haim et al.'s settings are for hundreds of images; these were chosen on networks of seed 1.
_NTK = {"max_steps": 2000, "coefficient_scale": 0.02, "coefficient_rate": 5e-4, "sharpening_steps": 1200.0}
_KKT = {
    "max_steps": 2900,
    "sample_rate": 0.05,
    "weight_rate": 1e-2,
    "sharpness": 100.0,
    "least_weight": 0.0,
    "precision": "float32",
    "parameters": "first",
}
_SIMUDY = Recipe(rate=0.01, epochs=20)  # full batch, as in SimuDy's public experiments
_MOMENTUM = Recipe(rate=0.02, epochs=100, batch=5, momentum=0.9)
_DECAY = Recipe(rate=0.02, epochs=100, batch=5, momentum=0.9, decay=5e-4)
_CIFAR = {"classes": ("airplane", "automobile", "bird", "cat", "deer"), "per_class": 2}

_ALL = (
    BenchmarkVictim(
        "law-sphere",
        1,
        "random features, ReLU, sphere d = 30, n = 20, p = 3dn",
        _law("sphere", 1800, dim=30, samples=20, seed=0),
        "fd0c50a6937c16a8",
    ),
    BenchmarkVictim(
        "law-sphere-near",
        1,
        "the same near the wall: p = 1.5dn",
        _law("sphere", 900, dim=30, samples=20, seed=0),
        "5a0f83a06a884283",
        quick=False,
    ),
    BenchmarkVictim(
        "law-digits",
        1,
        "random features, ReLU, 10 digits, p = 5dn",
        _law("digits", 3200, samples=10),
        "e335b5c5b0cdbe30",
    ),
    BenchmarkVictim(
        "law-gelu",
        1,
        "random features, GELU, sphere d = 20, n = 5, p = 5dn",
        _law("sphere", 500, "gelu", dim=20, samples=5, seed=0),
        "5033a40ed2a28e2f",
    ),
    BenchmarkVictim(
        "linear-probe", 1, "5 digits, frozen convolutions with GELU, head in closed form", _probe, "f7a370ac44f62fce"
    ),
    BenchmarkVictim(
        "sklearn-rbf",
        1,
        "scikit-learn: 320 random Fourier features, logistic regression, 8 patients of 10 numbers",
        _pipeline,
        "93f6d5a95d1517ab",
    ),
    BenchmarkVictim(
        "mlp-momentum",
        1,
        "64-256-10, 10 digits, batches of 5, momentum 0.9",
        _perceptron("digits", (256,), _MOMENTUM, samples=10),
        "aa44c7c740918054",
    ),
    BenchmarkVictim(
        "mlp-decay",
        1,
        "64-128-128-10, 10 digits, batches of 5, momentum 0.9, weight decay 5e-4",
        _perceptron("digits", (128, 128), _DECAY, samples=10),
        "4d2fb5e1d62b7e54",
    ),
    BenchmarkVictim(
        "simudy-digits",
        1,
        "SimuDy's recipe on a smaller network: 64-200-200-10, 10 digits, full batch, 20 epochs",
        _perceptron("digits", (200, 200), _SIMUDY, samples=10),
        "5c0b04340b7cc522",
    ),
    BenchmarkVictim(
        "lazy-digits",
        1,
        "Loo et al.'s kind: 64-1000-500-1 without biases, square loss, 10 digits",
        _lazy,
        "f1da28756a7ac743",
        quick=False,
        settings={"ntk": _NTK},
    ),
    BenchmarkVictim(
        "margin-sphere",
        1,
        "Haim et al.'s kind: 10-500-1 without biases, logistic loss, 4 points; first layer from near zero, not known",
        _margin,
        "e044ebbfec1fcf3f",
        quick=False,
        settings={"kkt": _KKT},
    ),
    BenchmarkVictim(
        "simudy-cifar10",
        1,
        "SimuDy's network 3072-1000-1000-10, 10 images of CIFAR-10, full batch, 20 epochs",
        _perceptron("cifar10", (1000, 1000), _SIMUDY, **_CIFAR),
        "4fbd5f9a0d42562c",
        quick=False,
    ),
)
VICTIMS = {victim.name: victim for victim in _ALL}


def chosen_victims(names: Sequence[str] | None = None, quick: bool = False) -> list[BenchmarkVictim]:
    """The named victims; by default all, or those that are quick to attack."""
    for name in names or ():
        if name not in VICTIMS:
            raise unknown_name("victim of the benchmark", name, VICTIMS)
    if names:
        return [VICTIMS[name] for name in dict.fromkeys(names)]
    return [victim for victim in VICTIMS.values() if victim.quick or not quick]
