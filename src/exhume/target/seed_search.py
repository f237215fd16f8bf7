"""One search for the seed of a model: which seeds are worth building, and whether a built model fits.

A factory is called whole for few seeds only. Its random draws are recorded once (`random_draws`); under every seed the
first of them are drawn again and compared with the trained weights, and only what does better than most is built.
"""

from __future__ import annotations

import io
import math
import pickle
import random
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from exhume.errors import InputError, brief
from exhume.support.checkpoint import fingerprint
from exhume.support.randomness import seed_for
from exhume.support.validation import finite_state
from exhume.target.random_draws import SMALLEST, Replay
from exhume.target.start_test import CHANCE, StartTest

Build = Callable[[], nn.Module]
Draws = int | Callable[[], object]
LARGEST_SEED = 2**32 - 1  # numpy's
# Numbers of a layer that are compared; more add time and memory, and no certainty.
_LARGEST = 32_768
# Models built under other seeds, to see which layers are random and how.
_REFERENCES = 16
# A seed whose first numbers do as well as this by chance is built and compared in full: about one of a thousand.
_WORTH_BUILDING = 0.02
# Seeds at a time where numbers are drawn alone; seconds at a time where every model is built.
_DRAWN_AT_ONCE, _SECONDS_AT_ONCE = 1024, 2.0


@dataclass(frozen=True)
class Fitting:
    """A seed that fits, and the odds against chance as a power of ten, corrected for the number of candidates."""

    seed: int
    log10_odds: float


class Search:
    """The factory, the trained weights and what is known of the factory's random numbers."""

    def __init__(self, build: Build, draws: Draws, trained: Mapping[str, torch.Tensor | np.ndarray]) -> None:
        self._build, self._draws = build, draws
        self._trained = {name: torch.as_tensor(each) for name, each in trained.items()}
        seeds = [seed_for(number, "reference of a seed search") for number in range(_REFERENCES)]
        began = time.monotonic()
        models = [_layers(self.built(seed)) for seed in seeds]
        self._seconds = (time.monotonic() - began) / _REFERENCES
        rows = _informative(models, _layers(self.built(seeds[0])))
        self._layers = tuple(rows)
        self._example = [each[0] for each in rows.values()]
        finite_state("trained", {name: self._trained[name] for name in rows})
        self._test = StartTest.of([self._trained[name] for name in rows], list(rows.values()))
        with redirect_stdout(io.StringIO()):
            self._replay = Replay.of(self._run, seeds, rows)
        if self._replay is not None:
            names, drawn = self._replay.weights, self._replay.rows(seeds)
            parts = [self._trained[name][: each.shape[1]] for name, each in zip(names, drawn, strict=True)]
            self._quick = StartTest.of(parts, drawn)

    @classmethod
    def of(cls, build: Build, draws: Draws, weights: Mapping[str, torch.Tensor]) -> Search:
        """The search for a state dict; weights of another architecture are refused."""
        trained = {name: _first_numbers(each) for name, each in weights.items()}
        model = _built(build, 0)
        made = {name: tuple(each.shape) for name, each in model.state_dict().items()}
        given = {name: tuple(each.shape) for name, each in weights.items()}
        wrong = [
            f"{name!r} is {given.get(name, 'missing')} in the weights and {made.get(name, 'missing')} in the model"
            for name in {**given, **made}
            if given.get(name) != made.get(name)
        ]
        if wrong:
            raise InputError(f"the weights do not fit the model that build returns: {brief('; '.join(wrong))}")
        return cls(build, draws, trained)

    @property
    def at_once(self) -> int:
        """How many seeds are tried between two reports."""
        return _DRAWN_AT_ONCE if self._replay is not None else max(1, int(_SECONDS_AT_ONCE / max(self._seconds, 1e-4)))

    def first_fitting(self, seeds: Sequence[int], candidates: int) -> Fitting | None:
        """The first of these seeds that fits beyond chance, given so many candidates in all."""
        for seed in self._worth_building(seeds):
            try:
                made = _layers(self.built(seed))
            except InputError as error:  # the model cannot have been built under this seed
                warnings.warn(f"left out: {error}", stacklevel=2)
                continue
            log_chance = float(self._test.log_chance([made[name][None] for name in self._layers])) + math.log(
                candidates
            )
            if log_chance < math.log(CHANCE):
                return Fitting(seed, -log_chance / math.log(10))
        return None

    def described(self, seed: int) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
        """The state dict under a seed, and the correlation of every random layer with the trained one."""
        model = self.built(seed)
        made = _layers(model)
        values = self._test.correlations([made[name][None] for name in self._layers])[0].tolist()
        state = {name: each.detach().cpu().clone() for name, each in model.state_dict().items()}
        return state, dict(zip(self._layers, values, strict=True))

    def built(self, seed: int) -> nn.Module:
        """The model under a seed, untrained."""
        return _built(self._run, seed)

    def fingerprint(self, seeds: Sequence[int]) -> str:
        """A hash of the seeds, the trained weights and what the factory makes."""
        named = repr(seeds) if isinstance(seeds, range) else list(seeds)
        return fingerprint({"seeds": named}, [*self._trained.values(), *self._example])

    def for_workers(self) -> tuple[Build, Draws, dict[str, np.ndarray]]:
        """The arguments that make the same search in another process."""
        try:
            pickle.dumps((self._build, self._draws))
        except Exception as error:  # of the user's objects
            raise InputError(
                f"build or draws cannot be sent to other processes ({brief(error, 120)}); valid: functions of a "
                "module, or workers=1"
            ) from error
        return self._build, self._draws, {name: each.numpy() for name, each in self._trained.items()}

    def _run(self) -> nn.Module:
        """What the training script did after seeding."""
        if callable(self._draws):
            self._draws()
        elif self._draws:
            torch.rand(self._draws)
        return self._build()

    def _worth_building(self, seeds: Sequence[int]) -> Sequence[int]:
        """The seeds whose first numbers do better than most; all of them if these cannot be drawn alone."""
        if self._replay is None:
            return seeds
        log_chance = self._quick.log_chance(self._replay.rows(seeds))
        return [seeds[place] for place in (log_chance < math.log(_WORTH_BUILDING)).nonzero().squeeze(1).tolist()]


def _built(build: Callable[[], Any], seed: int) -> nn.Module:
    """What the factory returns under a seed of torch, numpy and Python."""
    torch.default_generator.manual_seed(seed)  # torch.manual_seed asks for every kind of device, which takes longer
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    try:
        with redirect_stdout(io.StringIO()):
            model = build()
    except InputError:
        raise
    except Exception as error:  # of the user's code
        raise InputError(f"build fails under seed {seed}: {type(error).__name__}: {brief(error)}") from error
    if not isinstance(model, nn.Module):
        raise InputError(f"build returned a {type(model).__name__}; valid: a torch.nn.Module")
    return model


def _layers(model: nn.Module) -> dict[str, torch.Tensor]:
    """The first numbers of every layer that has enough of them; a layer under two names counts once."""
    return {name: _first_numbers(each) for name, each in model.named_parameters() if each.numel() >= SMALLEST}


def _first_numbers(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().flatten()[:_LARGEST].to("cpu", torch.float32, copy=True)


def _informative(
    models: Sequence[Mapping[str, torch.Tensor]], again: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The layers that the seed determines, each as rows (R, N), one per model.

    Left out are layers that every seed leaves the same, that differ under one seed (memory that nothing fills), and
    copies of another layer.
    """
    first, second = models[0], models[1]
    seeded = {name: each for name, each in first.items() if torch.equal(each, again[name])}
    if first and not seeded:
        raise InputError(
            "build returned different weights under the same seed: it draws from something else than the default "
            "generators of torch, numpy and Python"
        )
    chosen: list[str] = []
    for name, each in seeded.items():
        copied = any(torch.equal(each, first[other]) for other in chosen)
        if not copied and not torch.equal(each, second[name]):
            chosen.append(name)
    if not chosen:
        raise InputError(
            "no layer of the model that build returns depends on the seed; if build seeds itself, its weights are the "
            "initial ones: initial=build().state_dict()"
        )
    return {name: torch.stack([model[name] for model in models]) for name in chosen}
