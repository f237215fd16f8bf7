"""`exhume attack`: reconstruct the training data of a run folder's victim."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from exhume import attacks, sharding
from exhume.attacks import Attack
from exhume.certificate import FAILED
from exhume.cli.knowing import Forget, Know, NumSamples, assume
from exhume.cli.options import parse_pairs
from exhume.cli.render import Json, progress_of, show
from exhume.errors import ExhumeError
from exhume.reconstruction import Reconstruction
from exhume.runs import RunFolder
from exhume.sharding import LostRank, Processes
from exhume.target import Target

Seed = Annotated[int, typer.Option(help="Seed of the attack's own randomness.")]
BudgetPasses = Annotated[float, typer.Option(help="Stop after this many feature passes.")]
BudgetSeconds = Annotated[float, typer.Option(help="Stop after this many seconds; results then depend on the machine.")]
AllowUnderdetermined = Annotated[
    bool, typer.Option("--allow-underdetermined", help="Go on with fewer equations than unknowns.")
]
MemoryBudget = Annotated[
    str,
    typer.Option(
        help="Memory that one process may use for V, the random features matrix; what does not fit is drawn anew on "
        "every read. Other arrays come on top: see exhume law --cost."
    ),
]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, ...")]
RankTimeout = Annotated[
    float, typer.Option(help="Seconds that a process of several waits for the others before it takes one for lost.")
]


def attack(
    run: Annotated[Path, typer.Argument(help="Run folder made by `exhume train`.")],
    method: Annotated[str, typer.Option(help=f"One of: {', '.join(sorted(attacks.ATTACKS))}.")] = attacks.DEFAULT,
    num_samples: NumSamples = None,
    know: Know = None,
    forget: Forget = None,
    seed: Seed = 0,
    budget_passes: BudgetPasses = float("inf"),
    budget_seconds: BudgetSeconds = float("inf"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted attack.")] = False,
    allow_underdetermined: AllowUnderdetermined = False,
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the method, as name=value; may be repeated.")
    ] = None,
    memory_budget: MemoryBudget = "4GB",
    device: Device = "cpu",
    rank_timeout: RankTimeout = sharding.TIMEOUT,
    json: Json = False,
) -> None:
    """Reconstruct the training data from the weights alone; the truth is not opened.

    Exit code 1 if the attack did not converge or its verdict is "failed". Several processes share the coordinates out
    if torchrun starts them; the first one writes and prints.

    Example: exhume attack runs/a --method exact --seed 1

    Example: torchrun --standalone --nproc-per-node 2 -m exhume attack runs/a
    """
    folder = RunFolder(run)
    chosen = attacks.build(method, parse_pairs(option))
    processes = sharding.initialise(device, rank_timeout)
    target = assume(folder.load_target(memory_budget=memory_budget, device=device), know, forget, num_samples)
    with _together(processes):
        result = run_attack(
            folder,
            chosen,
            target.sharded(processes),
            processes,
            seed=seed,
            max_passes=budget_passes,
            max_seconds=budget_seconds,
            allow_underdetermined=allow_underdetermined,
            resume=resume,
        )
        if processes.leads:
            show(result.summary(), {"folder": str(folder.attack(method)), **_brief(result)}, json)
    if not result.stop.trusted or result.certificate.verdict == FAILED:
        raise typer.Exit(1)


@contextmanager
def _together(processes: Processes) -> Iterator[None]:
    """Ends several processes together: none before the first has written, and each with a sentence if one is lost."""
    if processes.ranks == 1:
        yield
        return

    def ended(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise LostRank(f"rank {processes.rank} was told to end, as all are when one is lost. {sharding.RESUME}")

    before = signal.signal(signal.SIGTERM, ended)
    try:
        yield
        sys.stdout.flush()
        processes.wait()
        processes.close()
    except ExhumeError:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends of itself, once it has said why
        raise
    signal.signal(signal.SIGTERM, before)


def run_attack(
    folder: RunFolder, chosen: Attack, target: Target, processes: Processes = sharding.ALONE, **settings: Any
) -> Reconstruction:
    """Runs an attack with its progress shown and its checkpoint in the run folder, and saves the result there.

    Of several processes the first one shows and saves.
    """
    if not processes.leads:
        return chosen(target, **settings)
    with progress_of(chosen.name) as report:
        result = chosen(target, checkpoint=folder.checkpoint(chosen.name), progress=report, **settings)
    folder.save_result(result)
    return result


def _brief(result: Reconstruction) -> dict[str, Any]:
    return {name: value for name, value in result.to_json().items() if name != "history"}
