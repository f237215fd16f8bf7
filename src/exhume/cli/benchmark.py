"""`exhume benchmark`: named victims against attacks, including one's own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exhume.cli.options import Json
from exhume.cli.render import attack_events, progress, show
from exhume.errors import InputError

if TYPE_CHECKING:
    from exhume.attacks import Attack, Progress

# Feature passes; greedy needs 9,910 on the victim sklearn-rbf (`exhume benchmark --victims sklearn-rbf`).
_QUICK_PASSES = 12_000.0


def benchmark(
    out: Annotated[Path, typer.Option(help="Folder of the results and the page; an interrupted run goes on.")] = Path(
        "benchmark"
    ),
    victims: Annotated[str | None, typer.Option(help="Names separated by commas; --list shows them.")] = None,
    attacks: Annotated[str | None, typer.Option(help="Names separated by commas; by default all.")] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(help="An attack of your own, as FILE.py:CLASS; the file is run. May be repeated."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"Small victims, and at most {_QUICK_PASSES:.0f} passes for each attack.")
    ] = False,
    budget_passes: Annotated[
        float | None, typer.Option(help="Stop each attack after this many feature passes.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the attacks' random numbers.")] = 0,
    list_victims: Annotated[bool, typer.Option("--list", help="List the victims and attack none.")] = False,
    json: Json = False,
) -> None:
    """Rank attacks, also your own, on named victims. Writes results.json and a page.

    Example: exhume benchmark --quick --attack myattack.py:MyAttack
    """
    from exhume.benchmark import chosen_victims, run_benchmark
    from exhume.benchmark.page import describe, report_of
    from exhume.report import write
    from exhume.support import files

    chosen = chosen_victims(_split(victims), quick)
    if list_victims:
        lines = [f"{each.title:<22} {each.hash}  {each.summary}" for each in chosen]
        listed = [
            {"name": each.name, "version": each.version, "hash": each.hash, "summary": each.summary} for each in chosen
        ]
        show("\n".join(lines), {"victims": listed}, json)
        return
    budget = budget_passes if budget_passes is not None else _QUICK_PASSES if quick else math.inf
    if not budget > 0:
        raise InputError(f"--budget-passes is {budget}; valid: a positive number")
    fighting = _attacks(attacks, attack)
    with progress("benchmark") as update:

        def announce(victim: str, name: str, done: int, total: int) -> Progress:
            update(done, total, f"{done} of {total}: {name} on {victim}")
            return attack_events(lambda step, steps, words: update(done, total, f"{name} on {victim}: {words}"))

        found = run_benchmark(out, chosen, fighting, max_passes=budget, seed=seed, announce=announce)
    value = found.to_json()
    files.write_json(out / "results.json", value)
    write(report_of(found, chosen), out / "report.html")
    show(f"{describe(found)}\npage: {out / 'report.html'}", {"out": str(out), **value}, json)


def _split(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]


def _attacks(names: str | None, own: list[str] | None) -> list[Attack]:
    """The attacks by name, and those from files."""
    from exhume.attacks import ATTACKS, build
    from exhume.benchmark import load_attack

    chosen = [build(name) for name in (_split(names) or list(ATTACKS))]
    foreign = [load_attack(place) for place in own or ()]
    all_names = [each.name for each in (*chosen, *foreign)]
    for name in all_names:
        if all_names.count(name) > 1:
            raise InputError(f"two attacks are named {name!r}; valid: each attack once, with a name of its own")
    return [*chosen, *foreign]
