"""Opens the model of an audit: its public part as a target, and the owner's data apart from it."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from exhume.auditing.initial import SeedProgressOf, initial_weights
from exhume.auditing.model_files import build_model, check_forward, fit_weights
from exhume.auditing.settings import Settings
from exhume.auditing.weight_files import read_weights
from exhume.data import Dataset, PictureFormat, TableFormat
from exhume.data.read import Reading, read_dataset
from exhume.defences import Release
from exhume.errors import InputError
from exhume.features.find_head import refuse_training_mode
from exhume.features.prepare import in_full_precision, precision_note
from exhume.networks import Network
from exhume.run_folder import RunFolder
from exhume.support.images import shape_of_picture
from exhume.support.labels import kind_of
from exhume.support.text import parse_bytes
from exhume.target.displacement import Initial
from exhume.target.knowledge import Knowledge
from exhume.target.target import Target

# The target, under what the attacker knows; the owner's data; and what was assumed, in sentences.
Opened = tuple[Target, Dataset, tuple[str, ...]]
# Share of wrong classes from which a model does not look trained on the data.
_UNFITTED = 0.5
# Settings that say from which files a model comes.
_FROM_DISK = ("weights", "model", "run")


def open_settings(
    settings: Settings, progress_of: SeedProgressOf | None = None, workplace: Path | None = None
) -> Opened:
    """Opens the model that the settings name, with the data that they name.

    Where the initial weights are searched for by seed, `progress_of` makes a context of progress for the search, and
    `workplace` is the folder of its record.
    """
    named = [name for name in ("model", "run") if getattr(settings, name) is not None]
    if len(named) != 1:
        given = " and ".join(named) or "none"
        raise InputError(
            "an audit needs one of model (a file and a factory), run (a run folder) or estimator (a skops file); "
            f"given: {given}"
        )
    if settings.run is not None:
        return _open_run(settings, settings.run)
    module, notes = _read_module(settings)
    data = read_data(settings)
    initial, found = initial_weights(settings.initial, module, settings, progress_of, workplace)
    target, data, more = _open_module(module, data, initial, settings)
    return target, data, (*notes, *found, *more)


def open_model(
    model: nn.Module | Target, data: Dataset | None, initial: Initial | nn.Module | str | Path, settings: Settings
) -> Opened:
    """Opens a module or a target that is in memory already."""
    if isinstance(model, nn.Module):
        _refuse(settings, _FROM_DISK, "a module in memory")
        head, found = initial_weights(initial, model, settings)
        target, data, notes = _open_module(model, data, head, settings)
        return target, data, (*found, *notes)
    _refuse(settings, (*_FROM_DISK, "head", "input_shape", "device"), "a target")
    if not (isinstance(initial, str) and initial == "unknown"):
        raise InputError("a target holds its own initial weights; leave initial away")
    target = _with_knowledge(model, settings)
    return target, _owner_data(data, target, settings), ()


def read_data(settings: Settings) -> Dataset | None:
    """The owner's data from the files that the settings name; None if they name none."""
    for labels, samples in (("labels", "truth"), ("held_out_labels", "held_out")):
        if getattr(settings, labels) is not None and getattr(settings, samples) is None:
            raise InputError(f"{labels} are given without {samples}")
    how = Reading(
        shape_of_picture(settings.input_shape),
        _picture_format(settings),
        settings.standardise,
        settings.label_column,
        parse_bytes(settings.max_size),
    )
    truth = None if settings.truth is None else read_dataset(settings.truth, settings.labels, how)
    data = truth
    if settings.held_out is not None:
        held_out = read_dataset(settings.held_out, settings.held_out_labels, how)
        data = (data or Dataset.without_samples(held_out.input_dim)).with_non_members(held_out)
    if settings.reference is not None:
        pool = read_dataset(settings.reference, None, how)
        data = (data or Dataset.without_samples(pool.input_dim)).with_reference(pool)
    return data


def data_in_memory(
    truth: Any, labels: Any, held_out: Any, held_out_labels: Any, reference: Any = None
) -> Dataset | None:
    """The owner's data from arrays, tensors or a data set of `exhume.data`; None if there are none."""
    if reference is not None:
        pool = reference if isinstance(reference, Dataset) else Dataset.of(reference)
        data = data_in_memory(truth, labels, held_out, held_out_labels)
        return (data or Dataset.without_samples(pool.input_dim)).with_reference(pool)
    if all(each is None for each in (truth, labels, held_out, held_out_labels)):
        return None
    if not isinstance(truth, Dataset):
        return Dataset.of(truth, labels, held_out, held_out_labels)
    if held_out is None and len(truth.non_members):
        held_out = truth.non_members
        held_out_labels = truth.non_member_labels if held_out_labels is None else held_out_labels
    given = Dataset.of(truth.inputs, truth.labels if labels is None else labels, held_out, held_out_labels)
    return replace(given, name=truth.name, protocol=truth.protocol, picture=truth.picture, table=truth.table)


def _open_module(module: nn.Module, data: Dataset | None, head: Initial, settings: Settings) -> Opened:
    shape = settings.input_shape or (module.input_shape if isinstance(module, Network) else ())
    if not shape:
        raise InputError("input_shape is not given; valid: the shape of one input, as 3,32,32")
    if "device" in settings.model_fields_set:
        module = copy.deepcopy(module).to(settings.device)
    refuse_training_mode(module)
    precision = precision_note(module)
    check_forward(module, tuple(shape))
    knowledge, notes = _knowledge(settings, data)
    target = Target.last_layer(
        module,
        settings.head,
        initial_head=head,
        initial_bias=head if isinstance(head, str) else "unknown",
        input_shape=tuple(shape),
        knowledge=knowledge,
        memory_budget=settings.memory_budget,
    )
    data = _owner_data(data, target, settings)
    return target, data, (*precision, *notes, *_doubts(target, data))


def _open_run(settings: Settings, path: Path) -> Opened:
    """A run folder: its public part is the target, its secret the owner's data."""
    _refuse(settings, ("initial", "head", "input_shape", "weights", "truth", "labels"), "a run folder")
    folder = RunFolder(path)
    target = folder.load_target(memory_budget=settings.memory_budget, device=settings.device)
    target = _with_knowledge(target, settings)
    held_out = read_data(settings)
    if not folder.holds_secret:
        return target, _owner_data(held_out, target, settings), ()
    data = folder.load_secret()
    notes = (f"Data: {data.protocol}",)
    if held_out is not None:
        if len(held_out.non_members):
            data = replace(data, non_members=held_out.non_members, non_member_labels=held_out.non_member_labels)
        data = replace(data, reference=held_out.reference)
    return target, _owner_data(data, target, settings), notes


def _read_module(settings: Settings) -> tuple[nn.Module, tuple[str, ...]]:
    """The trained module, and what was taken from its file."""
    assert settings.model is not None
    built = build_model(settings.model)
    module, precision = in_full_precision(built), precision_note(built)
    if settings.weights is None:
        return module.eval(), (*precision, "The factory returned the trained model; no weights were loaded into it.")
    weights = read_weights(settings.weights, max_bytes=settings.max_size)
    return fit_weights(module, weights.tensors), (*precision, *weights.notes)


def _owner_data(data: Dataset | None, target: Target, settings: Settings) -> Dataset:
    """The data as the model takes them, with the formats that the settings state where the data have none."""
    size = target.feature_map.input_dim
    fitted = (data or Dataset.without_samples(size)).fitted_to(size, target.num_outputs)
    table = TableFormat(settings.columns) if settings.columns else None
    return replace(fitted, picture=fitted.picture or _picture_format(settings), table=fitted.table or table)


def _picture_format(settings: Settings) -> PictureFormat | None:
    """How inputs are drawn, from the normalisation that `know` states; None if it states none."""
    shape = shape_of_picture(settings.input_shape)
    known = {name: value for name, value in settings.known.items() if name.startswith("pixel_")}
    return PictureFormat.of_pixels(shape, **known) if shape is not None and known else None


def _doubts(target: Target, data: Dataset) -> list[str]:
    """What may keep the attack from applying, as far as the owner's data show it."""
    doubts = []
    if data.is_labelled and kind_of(data.labels, target.num_outputs) != "numbers":
        error = Release(target, data).training_error or 0.0
        if error > _UNFITTED:
            doubts.append(
                f"The model errs on {error:.0%} of the truth that was given: was it trained on these data, prepared in "
                "this way?"
            )
    return doubts


def _knowledge(settings: Settings, data: Dataset | None) -> tuple[Knowledge, tuple[str, ...]]:
    """What the attacker is assumed to know; the number of samples is that of the truth if nothing else is stated."""
    values = _stated(settings)
    if data is not None and data.num_samples and not {"num_samples", "labels"} & values.keys():
        sentence = f"The attacker was assumed to know that there are {data.num_samples} samples, as the truth has."
        return Knowledge(**values, num_samples=data.num_samples), (sentence,)
    return Knowledge(**values), ()


def _with_knowledge(target: Target, settings: Settings) -> Target:
    """A target under what the settings state that the attacker knows, beside what it knows already."""
    values = _stated(settings)
    return target.assuming(**values) if values else target


def _stated(settings: Settings) -> dict[str, Any]:
    """What the settings state that the attacker knows."""
    if settings.num_samples is None:
        return settings.known
    if "num_samples" in settings.known:
        raise InputError("num_samples is given twice; give num_samples, or know num_samples")
    return settings.known | {"num_samples": settings.num_samples}


def _refuse(settings: Settings, names: Iterable[str], source: str) -> None:
    """Refuses settings that were given and mean nothing for this kind of model."""
    beside = [name for name in names if name in settings.model_fields_set]
    if beside:
        raise InputError(f"{', '.join(beside)} cannot be set for {source}; leave {' and '.join(beside)} away")
