"""Below the wall: two-layer networks with known initial weights on CIFAR-10, several attacks on each (EXHUME_DATA)."""

from typing import Any

import exhume
from benches.problems import say, table
from exhume import data
from exhume.data import Dataset
from exhume.networks import TwoLayer
from exhume.target.target import Target
from exhume.victims import Training, train
from exhume.victims.trained_network import target

SEEDS = (0, 1)
# p_L / (d n) for ten images, one of each class.
RATIOS = (0.05, 0.1, 0.3, 1.0)
# A hundred images, ten of each class; simulating their training would take longer than the attack.
MANY = (0.25, 10)
METHODS: dict[str, dict[str, Any]] = {
    "subspace": {},
    "subspace, trained features": {"refine": False},
    "exact": {"max_starts": 1},
    "descent": {"max_steps": 200},
}


def victim(training: Dataset, ratio: float, seed: int, step_size: float | None = None) -> tuple[Training, Target]:
    """A trained network, and the target of an adversary who knows its initial weights but not the number of samples."""
    outputs = training.labels.shape[1]
    width = round(ratio * training.input_dim * training.num_samples / outputs)
    network = TwoLayer(training.input_dim, width, outputs, seed=seed)
    trained = train(network, training.inputs, training.labels, step_size=step_size, stable=step_size is None)
    assert training.picture is not None
    knowledge = exhume.Knowledge(label_alphabet="one-hot")
    return trained, target(trained, input_shape=training.picture.shape, knowledge=knowledge)


def row(training: Dataset, trained: Training, public: Target, name: str, ratio: float, seed: int) -> tuple[object, ...]:
    """One attack on one victim; attacks that cannot estimate the number of samples are given it."""
    method = name.split(",")[0]
    if method != "subspace":
        public = public.assuming(num_samples=training.num_samples)
    result = exhume.reconstruct(public, method=method, allow_underdetermined=True, **METHODS[name])
    say(result.summary())
    judged = exhume.score(result, training.inputs)
    predicted = result.certificate.predicted_error
    found: tuple[object, ...] = (
        training.num_samples,
        ratio,
        seed,
        f"{trained.step_size:.0e}",
        f"{100 * trained.drift:.2g} %",
        name,
        result.samples.shape[0] if method == "subspace" else "given",
        f"{judged.error:.5f}",
        f"{max(match.error for match in judged.matches):.5f}",
        "-" if predicted is None else f"{predicted:.5f}",
        judged.recovered,
        f"{result.passes:.0f}",
        f"{result.seconds:.0f}",
        result.certificate.verdict,
    )
    say(str(found))
    return found


def main() -> None:
    rows = []
    ten = data.load("cifar10", classes="all", per_class=1)
    for seed in SEEDS:
        for ratio in RATIOS:
            trained, public = victim(ten, ratio, seed)
            rows += [row(ten, trained, public, name, ratio, seed) for name in METHODS]
    # The paper's own step, a hundred times smaller: the simulated training must find it.
    trained, public = victim(ten, 0.1, 0, step_size=1e-5)
    rows.append(row(ten, trained, public, "subspace", 0.1, 0))
    ratio, per_class = MANY
    hundred = data.load("cifar10", classes="all", per_class=per_class)
    trained, public = victim(hundred, ratio, 0)
    rows.append(row(hundred, trained, public, "subspace", ratio, 0))
    columns = ("n", "p_L/dn", "seed", "step", "drift", "method", "n found", "error", "worst", "predicted", "recovered")
    table((*columns, "passes", "seconds", "verdict"), rows)
