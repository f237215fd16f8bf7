"""Runs the benchmark: every attack on every victim, each result in a folder of its own, so that a run can go on."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from exhume import __version__
from exhume.attacks import Attack
from exhume.attacks import Progress as AttackProgress
from exhume.benchmark.foreign import source_hash
from exhume.benchmark.ranking import Row, mean_ranks, ranked
from exhume.benchmark.victims import BenchmarkVictim, Made
from exhume.errors import DataError, ExhumeError, FileError, brief
from exhume.results.certificate import FAILED, RECOVERED_BELOW
from exhume.results.reconstruction import Reconstruction
from exhume.scoring import Score
from exhume.scoring.against_truth import score_on_dataset
from exhume.support import files
from exhume.support.checkpoint import fingerprint

_ENTRY = "entry.json"

# Called with the victim, the attack, how many pairs are done and how many there are; returns what reports progress.
Announce = Callable[[str, str, int, int], AttackProgress | None]


@dataclass(frozen=True)
class Benchmark:
    """The results of a run.

    Attributes:
        rows: sorted by victim and rank.
        hashes: of the trained weights, by victim.
        max_passes: the budget of every attack.
        seed: of the attacks' random numbers.
    """

    rows: tuple[Row, ...]
    hashes: Mapping[str, str]
    max_passes: float
    seed: int

    @property
    def ranks(self) -> Mapping[str, float]:
        """The mean rank of every attack, the best first."""
        return mean_ranks(self.rows)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "exhume": __version__,
            "max_passes": self.max_passes if math.isfinite(self.max_passes) else None,
            "seed": self.seed,
            "ranks": dict(self.ranks),
            "weights": dict(self.hashes),
            "rows": [row.to_json() for row in self.rows],
        }


def run_benchmark(
    out: Path,
    victims: Sequence[BenchmarkVictim],
    attacks: Sequence[Attack],
    *,
    max_passes: float,
    seed: int = 0,
    announce: Announce | None = None,
) -> Benchmark:
    """Runs every attack on every victim; pairs whose result is in `out` are not run again, and killed ones continue.

    Args:
        out: folder of the results.
        victims, attacks: what is run.
        max_passes: feature passes that an attack may use for its search.
        seed: of the attacks' random numbers.
        announce: called before every pair.
    """
    rows: list[Row] = []
    hashes: dict[str, str] = {}
    total = len(victims) * len(attacks)
    for place, victim in enumerate(victims):
        made, missing = _build(victim)
        found = []
        for number, attack in enumerate(attacks):
            progress = (
                None if announce is None else announce(victim.title, attack.name, place * len(attacks) + number, total)
            )
            if made is None:
                found.append(Row(victim.title, attack.name, missing))
                continue
            hashes[victim.title] = made.target.fingerprint[:16]
            found.append(_Pair(out, victim, victim.fitted(attack), max_passes, seed).row(made, progress))
        rows += ranked(found)
    return Benchmark(tuple(rows), hashes, max_passes, seed)


def _build(victim: BenchmarkVictim) -> tuple[Made | None, str]:
    """The trained victim, or why it cannot be made here: its data are missing."""
    try:
        return victim.build(), ""
    except DataError as error:
        return None, brief(error)


@dataclass(frozen=True)
class _Pair:
    """One attack on one victim, and the folder of its result."""

    out: Path
    victim: BenchmarkVictim
    attack: Attack
    max_passes: float
    seed: int

    def row(self, made: Made, progress: AttackProgress | None) -> Row:
        """The stored row, or that of a new run."""
        folder = self._folder(made)
        try:
            return Row(**files.read_json(folder / _ENTRY))
        except (FileError, TypeError):
            row = self._run(made, folder, progress)
        files.write_json(folder / _ENTRY, row.to_json())
        return row

    def _folder(self, made: Made) -> Path:
        """A folder whose name depends on all that the result depends on."""
        identity = {
            "victim": [self.victim.name, self.victim.version, made.target.fingerprint],
            "attack": [self.attack.name, asdict(self.attack), source_hash(self.attack)],
            "run": [self.max_passes, self.seed, __version__],
        }
        return (
            self.out / f"{self.victim.name}-v{self.victim.version}" / f"{self.attack.name}-{fingerprint(identity)[:12]}"
        )

    def _run(self, made: Made, folder: Path, progress: AttackProgress | None) -> Row:
        """Runs the attack, which sees the target alone; its own errors are part of the table."""
        checkpoint = folder / "checkpoint.safetensors"
        names = self.victim.title, self.attack.name
        try:
            result = self.attack(
                made.target,
                seed=self.seed,
                max_passes=self.max_passes,
                checkpoint=checkpoint,
                resume=checkpoint.exists(),
                progress=progress,
            )
        except ExhumeError as error:
            return Row(*names, f"refused: {brief(error)}")
        except Exception as error:
            files.write_bytes(folder / "traceback.txt", "".join(traceback.format_exception(error)).encode())
            return Row(*names, f"ended with {type(error).__name__}: {brief(error)}")
        result.save(folder)
        checkpoint.unlink(missing_ok=True)
        return _scored(names, result, score_on_dataset(result, made.dataset, made.target.features))


def _scored(names: tuple[str, str], result: Reconstruction, score: Score) -> Row:
    """The numbers of a result and of its score."""
    errors = result.certificate.predicted_errors if result.certificate.verdict != FAILED else ()
    certified = [row for row, error in enumerate(errors) if error < RECOVERED_BELOW]
    right = {
        match.row for match, error in zip(score.matches, score.claimed_errors, strict=True) if error < RECOVERED_BELOW
    }
    return Row(
        *names,
        recovered=score.claimed_recovered,
        num_samples=score.num_samples,
        error=score.claimed_error,
        certified=len(certified),
        wrongly_certified=len(set(certified) - right - set(score.duplicates)),
        passes=result.passes,
        seconds=result.seconds,
        verdict=result.certificate.verdict,
    )
