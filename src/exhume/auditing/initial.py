"""The initial weights of an audit: from a file, out of a folder of public checkpoints, or found by their seed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

import torch
from torch import nn

from exhume.auditing.model_files import Factory
from exhume.auditing.settings import SEEDS, Settings, seeds_of
from exhume.auditing.weight_files import DEFAULT_LIMIT, is_model_folder, read_weights
from exhume.errors import FileError, InputError
from exhume.support.checkpoint import fingerprint
from exhume.support.text import plural
from exhume.support.validation import finite
from exhume.target.displacement import Initial, state_of
from exhume.target.initial_weights import InitialWeights, SeedProgress, find_seed
from exhume.target.start_test import CHANCE, correlation, log_chance_of_pairing

SeedProgressOf = Callable[[str], AbstractContextManager[SeedProgress | None]]
_SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")


def find_checkpoint(
    folder: str | Path, weights: Mapping[str, torch.Tensor] | nn.Module, *, max_bytes: int | str = DEFAULT_LIMIT
) -> InitialWeights | None:
    """Finds which of several public checkpoints a model was fine-tuned from.

    Layers of the same name and shape are compared. Checkpoints of independent trainings number their neurons in
    another order, so a layer counts as evidence if it fits the trained one neuron by neuron better than by chance,
    whichever of its two sides is permuted. A copy of the model itself is left out.

    Args:
        folder: of the checkpoints: safetensors files or torch state dicts; no code of theirs is run.
        weights: the trained model, or its state dict.
        max_bytes: limit of a file's size.

    Returns:
        The checkpoint that correlates most of those that fit beyond chance, or None if none fits.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import exhume, torch
        >>> from torch import nn
        >>> public, model = Path(tempfile.mkdtemp()), nn.Linear(40, 30)
        >>> torch.save(model.state_dict(), public / "ours.pt")
        >>> torch.save(nn.Linear(40, 30).state_dict(), public / "other.pt")
        >>> model.weight.data += 0.1 * torch.randn(30, 40)  # fine-tuning
        >>> exhume.find_checkpoint(public, model).origin
        'ours.pt'
    """
    trained = weights.state_dict() if isinstance(weights, nn.Module) else weights
    root = Path(folder).expanduser()
    paths = sorted(path for path in root.iterdir() if path.suffix in _SUFFIXES) if root.is_dir() else []
    if not paths:
        raise InputError(f"{folder} holds no checkpoints; valid: a folder of {', '.join(_SUFFIXES)} files")
    found: list[tuple[float, InitialWeights]] = []
    compared = 0
    for path in paths:
        try:
            state = read_weights(path, max_bytes=max_bytes).tensors
        except FileError as error:
            warnings.warn(f"left out: {error}", stacklevel=2)
            continue
        pairs = _pairs(trained, state)
        if not pairs or all(torch.equal(*pair) for pair in pairs.values()):
            continue
        compared += 1
        log_chance = min(log_chance_of_pairing(*pair) for pair in pairs.values()) + math.log(len(pairs) * len(paths))
        if log_chance < math.log(CHANCE):
            by_layer = {name: correlation(one.flatten(), other.flatten()) for name, (one, other) in pairs.items()}
            mean = sum(value * pairs[name][0].numel() for name, value in by_layer.items())
            odds = -log_chance / math.log(10)
            found.append((mean, InitialWeights(path.name, state, by_layer, odds, len(paths), len(paths))))
    if not compared:
        raise InputError(f"none of the {plural(len(paths), 'checkpoint')} in {folder} has a layer of the model's shape")
    return max(found, key=lambda each: each[0])[1] if found else None


def _pairs(
    trained: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """The layers that both have, with the same shape and at least two sides."""
    return {
        name: (finite(f"trained {name}", each.detach().cpu().float()), state[name].float())
        for name, each in trained.items()
        if each.ndim >= 2 and each.is_floating_point() and name in state and state[name].shape == each.shape
    }


def initial_weights(
    initial: Initial | nn.Module | str | Path,
    module: nn.Module,
    settings: Settings,
    progress_of: SeedProgressOf | None = None,
    workplace: Path | None = None,
) -> tuple[Initial, tuple[str, ...]]:
    """Weights before training, and a sentence on them if they were found by comparison.

    Args:
        initial: these weights, or what `Settings.initial` takes.
        module: the trained model.
        settings: the factory, and how to read files.
        progress_of: makes a context of progress for a search of seeds.
        workplace: folder for the search's record, from which it continues.
    """
    if not isinstance(initial, str | Path):
        return state_of(initial), ()
    if isinstance(initial, str) and initial.startswith(SEEDS):
        found = _of_a_seed(initial, module, settings, progress_of, workplace)
    elif initial in ("zero", "unknown"):
        return ("zero" if initial == "zero" else "unknown"), ()
    elif not (folder := Path(initial).expanduser()).is_dir() or is_model_folder(folder):
        return read_weights(initial, max_bytes=settings.max_size).tensors, ()
    else:
        checkpoint = find_checkpoint(initial, module, max_bytes=settings.max_size)
        if checkpoint is None:
            raise InputError(f"no checkpoint in {initial} correlates with the trained weights beyond chance")
        found = checkpoint
    return found.initial, (found.sentence,)


def _of_a_seed(
    initial: str, module: nn.Module, settings: Settings, progress_of: SeedProgressOf | None, workplace: Path | None
) -> InitialWeights:
    """The initial weights under the seed that fits; an error if none does."""
    if settings.model is None or settings.weights is None:
        raise InputError(
            f"initial {initial} needs a factory (model 'mymodel.py:build') and trained weights; for a module in memory "
            "give initial=exhume.find_seed(build, module).initial"
        )
    seeds, state = seeds_of(initial), module.state_dict()
    run = fingerprint({"seeds": initial, "model": settings.model}, state.values())
    record = None if workplace is None else workplace / f"seeds-{run[:16]}.json"
    with (progress_of or (lambda _: nullcontext()))("seeds") as report:
        factory = Factory(settings.model)
        found = find_seed(factory, state, seeds, workers=settings.workers, progress=report, checkpoint=record)
    if found is None:
        if record is not None:
            record.unlink(missing_ok=True)
            with suppress(OSError):  # it may hold more
                record.parent.rmdir()
        raise InputError(
            f"no seed from {seeds[0]} to {seeds[-1]} gives initial weights that correlate with the trained ones beyond "
            "chance; were numbers drawn between seeding and building, or was it another seed, factory or version?"
        )
    return found
