"""The experiment of one cell: data, victim, target, attack, score. The truth goes to the score alone."""

from __future__ import annotations

import time
from dataclasses import replace

import safetensors.torch
import torch
from torch import Tensor

from exhume import attacks, measures
from exhume.data import Dataset
from exhume.errors import InputError
from exhume.knowledge import Knowledge
from exhume.reconstruction import Reconstruction
from exhume.scoring import Score, score
from exhume.sweep.cell import AttackSpec, Cell, NetworkSpec, RandomFeaturesSpec
from exhume.sweep.outcome import Finished, Outcome
from exhume.target import Target
from exhume.victims import RandomFeatures, train
from exhume.victims import networks as network_victims
from exhume.victims.sizes import features_for, network_for, outputs_for

# Pictures of a cell that are kept at most.
_MOST_PICTURES = 100
# An error up to which a sample can be told to be the negative of a true one; chance is above 1.
_RECOGNISABLE = 0.5


def run(cell: Cell) -> Finished:
    """Runs a cell from its data to its numbers."""
    training = cell.data.load(cell.seed)
    training = replace(training, labels=used_labels(training.labels))
    started = time.perf_counter()
    target, training_loss, drift = victim_of(cell, training)
    trained = time.perf_counter()
    result = _attacked(cell.attack, _informed(target, cell.attack, training), cell.seed)
    attacked = time.perf_counter()
    features, picture = target.features, training.picture
    judged = score(
        result,
        training.inputs,
        true_labels=training.labels,
        to_pictures=picture.to_pictures if picture else None,
        features=lambda inputs: features.forward(inputs.to(features.device)),
    )
    wall = training.input_dim * training.num_samples
    certificate = result.certificate
    outcome = Outcome(
        num_samples=training.num_samples,
        input_dim=training.input_dim,
        num_features=features.num_features,
        num_outputs=target.num_outputs,
        num_parameters=target.num_parameters,
        ratio=target.num_parameters / wall,
        training_loss=training_loss,
        drift=drift,
        error=judged.error,
        error_up_to_sign=judged.error_up_to_sign,
        recovered=judged.recovered,
        recovered_up_to_sign=judged.recovered_up_to_sign,
        flipped=_flipped(judged),
        missing=judged.missing,
        duplicates=len(judged.duplicates),
        strays=len(judged.strays),
        num_rows=judged.num_rows,
        baseline_random=judged.baseline_random,
        orthogonal_residual=judged.orthogonal_residual,
        psnr=judged.psnr,
        ssim=judged.ssim,
        label_accuracy=judged.label_accuracy,
        signs_determined=result.signs_determined,
        residual=certificate.residual,
        loss=certificate.residual**2,
        verdict=certificate.verdict,
        stop=result.stop.value,
        predicted_error=certificate.predicted_error,
        equations=certificate.equations,
        unknowns=certificate.unknowns,
        steps=result.steps,
        passes=result.passes,
        training_seconds=trained - started,
        attack_seconds=attacked - trained,
        target=target.fingerprint,
    )
    return Finished(outcome=outcome, pictures=_pictures(result, judged, training) if picture else None)


def victim_of(cell: Cell, training: Dataset) -> tuple[Target, float, float | None]:
    """The public part of the cell's victim, its training loss, and how far its features moved (None: not at all)."""
    width = cell.features or features_for(cell.ratio or 0.0, training.inputs, outputs_for(training.labels))
    shape = training.picture.shape if training.picture else ()
    if isinstance(cell.victim, RandomFeaturesSpec):
        victim = _random_features(cell.victim, max(1, round(width)), training, cell.seed)
        knowledge = Knowledge.about(training.labels, interpolated=victim.interpolates)
        target = victim.target(input_shape=shape, knowledge=knowledge)
        return replace(target, displacement=released(target.displacement, cell.victim)), victim.training_loss_, None
    return _network(cell.victim, width, training, cell.seed)


def _random_features(spec: RandomFeaturesSpec, width: int, training: Dataset, seed: int) -> RandomFeatures:
    victim = RandomFeatures(
        num_features=width,
        activation=spec.activation,
        loss=spec.loss,
        ridge=spec.ridge,
        max_steps=spec.max_steps,
        dtype=spec.dtype,
        seed=seed,
    ).fit(training.inputs, training.labels)
    if spec.prune is not None:
        victim = victim.prune(training.inputs, training.labels, spec.prune, spec.prune_method)
    return victim


def _network(spec: NetworkSpec, features: float, training: Dataset, seed: int) -> tuple[Target, float, float | None]:
    shape = training.picture.shape if training.picture else None
    network = network_for(
        spec.kind,
        training.inputs,
        training.labels,
        image_shape=shape,
        features=features,
        settings=spec.settings,
        seed=seed,
    )
    trained = train(
        network,
        training.inputs,
        training.labels,
        loss=spec.loss,
        step_size=spec.step_size,
        weight_decay=spec.weight_decay,
        max_steps=spec.max_steps,
        stable=spec.stable,
    )
    knowledge = Knowledge.about(training.labels, interpolated=trained.interpolates)
    return network_victims.target(trained, input_shape=shape or (), knowledge=knowledge), trained.loss, trained.drift


def released(weights: Tensor, spec: RandomFeaturesSpec) -> Tensor:
    """The weights as they are published: rounded to the precision that the victim releases them in.

    int8 is symmetric, with one scale for the whole layer: the largest weight becomes 127.
    """
    if spec.released == "as trained":
        return weights
    if spec.released == "int8":
        step = weights.abs().max() / 127
        return (weights / step).round() * step
    rounded: Tensor = weights.to(getattr(torch, spec.released)).to(weights.dtype)
    return rounded


def _informed(target: Target, spec: AttackSpec, training: Dataset) -> Target:
    """The target with what the attacker is given besides: the subspace of the distribution, not of the samples."""
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


def used_labels(labels: Tensor) -> Tensor:
    """Labels as victims get them: one-hot ones without the columns of classes that have no sample."""
    return labels if labels.ndim == 1 else labels[:, labels.any(0)]


def _flipped(judged: Score) -> int:
    """How many samples came back as negatives."""
    return sum(match.flipped and match.error_up_to_sign < _RECOGNISABLE for match in judged.matches)


def _pictures(result: Reconstruction, judged: Score, training: Dataset) -> bytes:
    """Matched pairs as pictures of whole numbers 0 to 255; norms that the attack leaves open are the truth's."""
    picture = training.picture
    assert picture is not None
    matches = judged.matches[:_MOST_PICTURES]
    truth = training.inputs[[match.truth_index for match in matches]]
    rows = result.samples[[match.row for match in matches]].to(truth)
    extras = result.samples[list((*judged.duplicates, *judged.strays)[:_MOST_PICTURES])].to(truth)
    if not result.norms_determined:
        rows = measures.on_sphere(rows, truth.norm(dim=1))
        extras = measures.on_sphere(extras, truth.norm(dim=1).mean().expand(len(extras)))
    flipped = torch.tensor([match.flipped for match in matches], dtype=torch.bool)

    def drawn(vectors: Tensor) -> Tensor:
        return (picture.to_pictures(vectors) * 255).round().to(torch.uint8)

    tensors = {
        "truth": drawn(truth),
        "recovered": drawn(rows),
        "turned": drawn(torch.where(flipped[:, None], -rows, rows)),
        "extras": drawn(extras),
        "errors": torch.tensor([match.error_up_to_sign for match in matches]),
    }
    return safetensors.torch.save(tensors)
