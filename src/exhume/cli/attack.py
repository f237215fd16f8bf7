"""`exhume attack`: reconstruct the training data of a run folder's victim."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from exhume import attacks
from exhume.certificate import FAILED
from exhume.cli.options import parse_pairs, whole
from exhume.cli.render import Json, progress_of, show
from exhume.reconstruction import Reconstruction
from exhume.runs import RunFolder


def attack(
    run: Annotated[Path, typer.Argument(help="Run folder made by `exhume train`.")],
    method: Annotated[str, typer.Option(help=f"One of: {', '.join(sorted(attacks.ATTACKS))}.")] = attacks.DEFAULT,
    num_samples: Annotated[
        str | None,
        typer.Option(help="How many samples to look for, or auto to estimate it; by default what victim.json says."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the attack's own randomness.")] = 0,
    budget_passes: Annotated[float, typer.Option(help="Stop after this many feature passes.")] = float("inf"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted attack.")] = False,
    allow_underdetermined: Annotated[
        bool, typer.Option("--allow-underdetermined", help="Go on with fewer equations than unknowns.")
    ] = False,
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the method, as name=value; may be repeated.")
    ] = None,
    memory_budget: Annotated[str, typer.Option(help="Memory for the random features matrix.")] = "4GB",
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda, ...")] = "cpu",
    json: Json = False,
) -> None:
    """Reconstruct the training data from the weights alone; the truth is not opened.

    Exit code 1 if the attack did not converge or its verdict is "failed".

    Example: exhume attack runs/a --method exact --seed 1
    """
    folder = RunFolder(run)
    chosen = attacks.build(method, parse_pairs(option))
    target = folder.load_target(memory_budget=memory_budget, device=device)
    count = None if num_samples in (None, "auto") else whole(str(num_samples))
    if num_samples == "auto":
        target = target.assuming(num_samples=None)
    with progress_of(method) as report:
        result = chosen(
            target,
            num_samples=count,
            seed=seed,
            max_passes=budget_passes,
            allow_underdetermined=allow_underdetermined,
            checkpoint=folder.checkpoint(method),
            resume=resume,
            progress=report,
        )
    finish(folder, result)
    show(result.summary(), {"folder": str(folder.attack(method)), **_brief(result)}, json)
    if not result.stop.trusted or result.certificate.verdict == FAILED:
        raise typer.Exit(1)


def finish(folder: RunFolder, result: Reconstruction) -> None:
    """Saves the result and then drops what it replaces: the checkpoint, and the score of an earlier result."""
    result.save(folder.attack(result.method))
    for stale in (folder.checkpoint(result.method), *folder.judgements(result.method)):
        stale.unlink(missing_ok=True)


def _brief(result: Reconstruction) -> dict[str, Any]:
    return {name: value for name, value in result.to_json().items() if name != "history"}
