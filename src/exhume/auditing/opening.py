"""The model of an audit, opened: its public part as a target, and the owner's data apart from it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from exhume.auditing.architectures import assumed_settings
from exhume.auditing.given import Given
from exhume.auditing.model_file import build_model, check_forward, load_model
from exhume.auditing.settings import Settings
from exhume.auditing.weights import read_weights
from exhume.data import PictureFormat, TableFormat
from exhume.defences import Release
from exhume.defences.labels import kind_of
from exhume.displacement import Initial
from exhume.errors import InputError
from exhume.features.heads import refuse_training_mode
from exhume.knowledge import Knowledge
from exhume.networks import Network
from exhume.runs import RunFolder
from exhume.target import Target

# Share of wrong classes from which a model does not look trained on the data.
_UNFITTED = 0.5
# Settings that say how a module is read, and from which files it comes.
_OF_MODULES = ("initial", "head", "input_shape")
_OF_FILES = ("weights", "config")
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
    if "device" in settings.model_fields_set:
        module = copy.deepcopy(module).to(settings.device)
    refuse_training_mode(module)
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
    given = given.fitting(target.feature_map.input_dim, target.num_outputs)
    return Opened(target, given, (*notes, *_doubts(module, target, given)))


def _doubts(module: nn.Module, target: Target, given: Given) -> list[str]:
    """What may keep the attack from applying, as far as the model and the owner's data show it."""
    doubts = []
    if any(isinstance(layer, nn.modules.batchnorm._BatchNorm) for layer in module.modules()):
        doubts.append(
            "The model holds BatchNorm: if it was trained in train mode, features differed from those of the released "
            "model, and the attack may fail for that reason."
        )
    labels = given.labels
    if given.inputs is not None and labels is not None and kind_of(labels, target.num_outputs) != "numbers":
        error = Release(target, given.inputs, labels).training_error or 0.0
        if error > _UNFITTED:
            doubts.append(
                f"The model errs on {error:.0%} of the truth that was given: was it trained on these data, prepared in "
                "this way?"
            )
    return doubts


def _module(settings: Settings) -> tuple[nn.Module, tuple[str, ...]]:
    """The trained module, and what was taken from its file."""
    if settings.weights is None:
        if settings.model is None:
            raise InputError(f"architecture {settings.architecture!r} needs weights: a file of its state dict")
        return build_model(settings.model).eval(), (
            "The factory returned the trained model; no weights were loaded into it.",
        )
    weights = read_weights(settings.weights, max_bytes=settings.max_size)
    module = load_model(settings.model or str(settings.architecture), weights.tensors, config=settings.config)
    assumed = assumed_settings(module) if isinstance(module, Network) and settings.architecture else ()
    return module, (*weights.notes, *(f"No weight shows that {each}; it is assumed." for each in assumed))


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


def refuse(settings: Settings, names: Iterable[str], source: str) -> None:
    """Refuses settings that were given and mean nothing for this kind of model."""
    beside = [name for name in names if name in settings.model_fields_set]
    if beside:
        raise InputError(f"{', '.join(beside)} cannot be set for {source}; leave {' and '.join(beside)} away")


def under(target: Target, settings: Settings) -> Target:
    """A target under what the settings say that the attacker knows, beside what it knows already."""
    values = settings.known
    if settings.num_samples is not None:
        values["num_samples"] = settings.num_samples
    return target.assuming(**values) if values else target


def _opened_run(settings: Settings, path: Path) -> Opened:
    """A run folder: its public part is the target, its secret the owner's data."""
    refuse(settings, (*_OF_MODULES, *_OF_FILES, "truth", "labels"), "a run folder")
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
