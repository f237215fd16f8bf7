"""The model of an audit, opened: its public part as a target, and the owner's data apart from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from exhume.auditing.architectures import assumed_settings, known_architecture
from exhume.auditing.given import Given
from exhume.auditing.model_file import build_model, check_forward, fit_weights
from exhume.auditing.settings import Settings
from exhume.auditing.weights import read_weights
from exhume.data import PictureFormat, TableFormat
from exhume.displacement import Initial
from exhume.errors import InputError
from exhume.knowledge import Knowledge
from exhume.networks import Network
from exhume.runs import RunFolder
from exhume.target import Target

_ONE_OF = "model (a file and a factory), architecture (one that exhume knows) or run (a run folder)"


@dataclass(frozen=True)
class Opened:
    """A model and what is known of it.

    Attributes:
        target: its public part, under the attacker's knowledge: the attack gets nothing else.
        given: the owner's data.
        notes: what was taken from files, in sentences.
    """

    target: Target
    given: Given
    notes: tuple[str, ...] = ()


def open_settings(settings: Settings) -> Opened:
    """Reads the files that the settings name."""
    named = [name for name in ("model", "architecture", "run") if getattr(settings, name) is not None]
    if len(named) != 1:
        raise InputError(f"an audit needs one of {_ONE_OF}; given: {' and '.join(named) or 'none'}")
    if settings.run is not None:
        return _opened_run(settings, settings.run)
    module, notes = _module(settings)
    given = Given.read(settings)
    initial: Initial = settings.initial if isinstance(settings.initial, str) else _initial(settings, settings.initial)
    opened = open_module(module, given, initial=initial, settings=settings)
    return Opened(opened.target, opened.given, (*notes, *opened.notes))


def open_module(module: nn.Module, given: Given, *, initial: Initial, settings: Settings) -> Opened:
    """A module that is at hand already, under the knowledge that the settings state."""
    shape = settings.input_shape or (module.input_shape if isinstance(module, Network) else ())
    if not shape:
        raise InputError("input_shape is not given; valid: the shape of one input, as 3,32,32")
    module = module.to(settings.device)
    check_forward(module, tuple(shape))
    known, notes = _knowledge(settings, given)
    target = Target.last_layer(
        module,
        settings.head,
        initial_head=initial,
        initial_bias=initial if isinstance(initial, str) else "unknown",
        input_shape=tuple(shape),
        knowledge=known,
        memory_budget=settings.memory_budget,
    )
    return Opened(target, given.fitting(target.feature_map.input_dim, target.num_outputs), notes)


def _module(settings: Settings) -> tuple[nn.Module, tuple[str, ...]]:
    """The trained module, and what was taken from its file."""
    if settings.weights is None:
        if settings.model is None:
            raise InputError(f"architecture {settings.architecture!r} needs weights: a file of its state dict")
        return build_model(settings.model), ("The factory returned the trained model; no weights were loaded into it.",)
    weights = read_weights(settings.weights, max_bytes=settings.max_size)
    if settings.model is not None:
        return fit_weights(build_model(settings.model), weights.tensors), weights.notes
    network = known_architecture(str(settings.architecture), settings.config, weights.tensors)
    return fit_weights(network, weights.tensors), (
        *weights.notes,
        *(f"No weight shows that {each}; it is assumed." for each in assumed_settings(network)),
    )


def _initial(settings: Settings, path: Path) -> Mapping[str, torch.Tensor]:
    """Weights before training; only those of trained parameters are of use."""
    return read_weights(path, max_bytes=settings.max_size).tensors


def _knowledge(settings: Settings, given: Given) -> tuple[Knowledge, tuple[str, ...]]:
    """What the attacker is assumed to know; the number of samples is that of the truth if nothing else is said."""
    values = settings.known
    if "num_samples" in values and settings.num_samples is not None:
        raise InputError("num_samples is said twice; give num_samples, or know num_samples")
    told = values.pop("num_samples", settings.num_samples)
    if told is None and given.inputs is not None and "labels" not in values:
        sentence = f"The attacker was assumed to know that there are {len(given.inputs)} samples, as the truth has."
        return Knowledge(**values, num_samples=len(given.inputs)), (sentence,)
    return Knowledge(**values, num_samples=told), ()


def under(target: Target, settings: Settings) -> Target:
    """A target under what the settings say that the attacker knows, beside what it knows already."""
    values = settings.known
    if settings.num_samples is not None:
        values["num_samples"] = settings.num_samples
    return target.assuming(**values) if values else target


def _opened_run(settings: Settings, path: Path) -> Opened:
    """A run folder: its public part is the target, its secret the owner's data."""
    taken = ("weights", "truth", "labels", "head")
    beside = [name for name in taken if getattr(settings, name) is not None]
    if beside:
        raise InputError(f"a run folder holds its own {', '.join(beside)}; leave {' and '.join(beside)} away")
    folder = RunFolder(path)
    target = folder.load_target(memory_budget=settings.memory_budget, device=settings.device)
    target = under(target, settings)
    others = Given.read(settings)
    if not folder.holds_secret:
        return Opened(target, others.fitting(target.feature_map.input_dim, target.num_outputs))
    secret = folder.load_secret()
    given = Given(
        secret.inputs,
        secret.labels,
        secret.non_members if others.held_out is None and len(secret.non_members) else others.held_out,
        others.held_out_labels,
        PictureFormat.from_json(secret.picture) if secret.picture else None,
        TableFormat.from_json(secret.table) if secret.table else None,
    )
    return Opened(
        target, given.fitting(target.feature_map.input_dim, target.num_outputs), (f"Data: {secret.protocol}",)
    )
