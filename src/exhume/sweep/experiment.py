"""The experiment of one cell: data, victim, target, attack, score. Only the score sees the truth."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import safetensors.torch
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from exhume import attacks
from exhume.data import Dataset
from exhume.defences.on_the_head import rounded
from exhume.errors import InputError
from exhume.networks import Network
from exhume.results.reconstruction import Reconstruction
from exhume.scoring.against_truth import Score, score_on_dataset
from exhume.scoring.aligned import align
from exhume.scoring.comparison import row
from exhume.sweep.cell import AttackSpec, Cell, DataSpec, NetworkSpec, RandomFeaturesSpec
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target
from exhume.victims import RandomFeatures, train
from exhume.victims import trained_network as network_victims
from exhume.victims.trained_network import features_for, network_for, outputs_for

# Pictures of a cell that are kept at most.
_MOST_PICTURES = 100
# Largest error at which a sample counts as the negative of a true one; random guesses are above 1.
_RECOGNISABLE = 0.5


class Outcome(BaseModel):
    """The numbers of one cell; each is a column of the sweep's table.

    Attributes:
        num_parameters: k p, the weights of the last layer; of the surviving ones if it was pruned.
        ratio: num_parameters / (d n).
        drift: relative change of the features in training; None for random features.
        error, error_up_to_sign, recovered, recovered_up_to_sign, missing, baseline_random, psnr, ssim,
            orthogonal_residual, label_accuracy: of `Score`.
        flipped: samples recovered with the wrong sign: closer with the other sign, and then with an error below 0.5.
        duplicates, strays: rows beyond n that match a true sample again, and rows that match none.
        signs_determined: whether the attack claims its signs.
        residual: ||P_perp theta|| / ||theta||.
        loss: its square, the normalised reconstruction loss.
        verdict, stop, predicted_error, equations, unknowns, steps, passes: of the reconstruction.
        target: fingerprint of the attacked target; equal for attacks on the same victim.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_samples: int
    input_dim: int
    num_features: int
    num_outputs: int
    num_parameters: int
    ratio: float
    training_loss: float
    drift: float | None
    error: float
    error_up_to_sign: float
    recovered: int
    recovered_up_to_sign: int
    flipped: int
    missing: int
    duplicates: int
    strays: int
    num_rows: int
    baseline_random: float
    orthogonal_residual: float | None
    psnr: float | None
    ssim: float | None
    label_accuracy: float | None
    signs_determined: bool
    residual: float
    loss: float
    verdict: str
    stop: str
    predicted_error: float | None
    equations: int
    unknowns: int
    steps: int
    passes: float
    training_seconds: float
    attack_seconds: float
    target: str

    @property
    def claimed_error(self) -> float:
        """The error of what the attack claims: with signs if it claims them, else up to sign."""
        return self.error if self.signs_determined else self.error_up_to_sign

    @property
    def claimed_recovered(self) -> int:
        """How many samples have a claimed error below RECOVERED_BELOW."""
        return self.recovered if self.signs_determined else self.recovered_up_to_sign

    def to_json(self) -> dict[str, Any]:
        """Every number as plain JSON."""
        return self.model_dump(mode="json")


class Finished(BaseModel):
    """The result of a cell: its numbers, and pictures if its data are images.

    Attributes:
        outcome: the numbers.
        pictures: bytes of a safetensors file with `truth` and `recovered` (q, C, H, W) in 0..255, matched; `turned`,
            the recovered ones with the true sign; `extras`, rows beyond n; `errors` (q,) up to sign. None for vectors.
    """

    model_config = ConfigDict(frozen=True)

    outcome: Outcome
    pictures: bytes | None = None


def run(cell: Cell) -> Finished:
    """Runs a cell from its data to its numbers."""
    training = load(cell.data, cell.seed)
    started = time.perf_counter()
    target, training_loss, drift = victim_of(cell, training)
    trained = time.perf_counter()
    result = _attacked(cell.attack, _informed(target, cell.attack, training), cell.seed)
    attacked = time.perf_counter()
    features, picture = target.features, training.picture
    judged = score_on_dataset(result, training, features)
    # `row` gives the score and the certificate; the numbers of the cell, below, are added and take precedence.
    numbers = {name: value for name, value in row(result, judged).items() if name in Outcome.model_fields}
    outcome = Outcome(
        **numbers
        | {
            "num_samples": training.num_samples,
            "input_dim": training.input_dim,
            "num_features": features.num_features,
            "num_outputs": target.num_outputs,
            "num_parameters": target.num_parameters,
            "ratio": target.num_parameters / (training.input_dim * training.num_samples),
            "training_loss": training_loss,
            "drift": drift,
            "flipped": sum(match.flipped and match.error_up_to_sign < _RECOGNISABLE for match in judged.matches),
            "loss": result.certificate.residual**2,
            "training_seconds": trained - started,
            "attack_seconds": attacked - trained,
            "target": target.fingerprint,
        }
    )
    return Finished(outcome=outcome, pictures=_pictures(result, judged, training) if picture else None)


def victim_of(cell: Cell, training: Dataset) -> tuple[Target, float, float | None]:
    """The public part of the cell's victim, its training loss, and how far its features moved (None: not at all)."""
    width = cell.features or features_for(cell.ratio or 0.0, training.inputs, outputs_for(training.labels))
    spec, shape = cell.victim, training.picture.shape if training.picture else ()
    if isinstance(spec, RandomFeaturesSpec):
        victim = _random_features(spec, max(1, round(width)), training, cell.seed)
        knowledge = Knowledge.about(training.labels, interpolated=victim.interpolates)
        target = victim.target(input_shape=shape, knowledge=knowledge)
        return replace(target, displacement=released(target.displacement, spec)), victim.training_loss_, None
    network = untrained_network(spec, width, training, cell.seed)
    options = spec.model_dump(include={"loss", "step_size", "weight_decay", "max_steps", "stable"})
    trained = train(network, training.inputs, training.labels, **options)
    knowledge = Knowledge.about(training.labels, interpolated=trained.interpolates)
    return network_victims.target(trained, input_shape=shape, knowledge=knowledge), trained.loss, trained.drift


def _random_features(spec: RandomFeaturesSpec, width: int, training: Dataset, seed: int) -> RandomFeatures:
    options = spec.model_dump(include={"activation", "loss", "ridge", "max_steps", "dtype"})
    victim = RandomFeatures(num_features=width, seed=seed, **options).fit(training.inputs, training.labels)
    if spec.prune is not None:
        victim = victim.prune(training.inputs, training.labels, spec.prune, spec.prune_method)
    return victim


def untrained_network(spec: NetworkSpec, features: float, training: Dataset, seed: int) -> Network:
    """The cell's network with its initial weights."""
    return network_for(
        spec.kind,
        training.inputs,
        training.labels,
        image_shape=training.picture.shape if training.picture else None,
        features=features,
        settings=spec.settings,
        seed=seed,
    )


def released(weights: Tensor, spec: RandomFeaturesSpec) -> Tensor:
    """The weights as they are published: rounded to the precision that the victim releases them in."""
    return weights if spec.released == "as trained" else rounded(weights, spec.released)


def _informed(target: Target, spec: AttackSpec, training: Dataset) -> Target:
    """The target with the subspace of the distribution (not of the samples) if the adversary knows it."""
    if "subspace" not in spec.knows:
        return target
    if training.subspace is None:
        raise InputError(
            f"knows: subspace, but {training.name} has none; valid: data that have, as sphere with subspace_dim"
        )
    return target.with_knowledge(target.knowledge.knowing(subspace=training.subspace))


def _attacked(spec: AttackSpec, target: Target, seed: int) -> Reconstruction:
    count = spec.num_samples if isinstance(spec.num_samples, int) else None
    if spec.num_samples == "estimate":
        target = target.with_knowledge(target.knowledge.without("num_samples"))
    budget = {} if spec.max_passes is None else {"max_passes": spec.max_passes}
    return attacks.reconstruct(target, count, spec.method, seed, allow_underdetermined=True, **budget, **spec.options)


def load(spec: DataSpec, seed: int) -> Dataset:
    """The training data as victims get them: one-hot labels without the columns of classes that have no sample."""
    training = spec.load(seed)
    labels = training.labels
    return training if labels.ndim == 1 else replace(training, labels=labels[:, labels.any(0)])


def _pictures(result: Reconstruction, judged: Score, training: Dataset) -> bytes:
    """Matched pairs as images of whole numbers 0 to 255; norms that the attack leaves open are the truth's."""
    picture = training.picture
    assert picture is not None
    as_found, turned = (
        align(result.samples, replace(judged, signs_claimed=claimed), training.inputs) for claimed in (True, False)
    )
    extras = as_found.every_row[[*judged.duplicates, *judged.strays]]

    def drawn(vectors: Tensor) -> Tensor:
        return (picture.to_pictures(vectors[:_MOST_PICTURES]) * 255).round().to(torch.uint8)

    tensors = {
        "truth": drawn(training.inputs[list(as_found.indices)]),
        "recovered": drawn(as_found.rows),
        "turned": drawn(turned.rows),
        "extras": drawn(extras),
        "errors": torch.tensor(turned.errors[:_MOST_PICTURES]),
    }
    return safetensors.torch.save(tensors)
