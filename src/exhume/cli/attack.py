"""`exhume attack`: reconstruct the training data of a run folder's victim."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exhume.cli.interruption import interruptible
from exhume.cli.options import ATTACK_NAMES, AttackOptions, Json, parse_pairs, with_option_groups
from exhume.cli.render import attack_progress, show
from exhume.errors import ExhumeError

if TYPE_CHECKING:
    from exhume.attacks import Attack, ProgressEvent
    from exhume.report.live import WatchPage
    from exhume.results.reconstruction import Reconstruction
    from exhume.run_folder import RunFolder
    from exhume.support.distributed import Processes
    from exhume.target.target import Target


@with_option_groups
def attack(
    run: Annotated[Path, typer.Argument(help="Run folder made by `exhume train`.")],
    *,
    method: Annotated[str, typer.Option(help=f"One of: {', '.join(ATTACK_NAMES)}.")] = "exact",
    options: AttackOptions,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted attack.")] = False,
    option: Annotated[
        list[str] | None, typer.Option(help="An option of the method, as name=value; may be repeated.")
    ] = None,
    rank_timeout: Annotated[
        float, typer.Option(help="Seconds that one of several processes waits before it considers another one lost.")
    ] = 600.0,
    watch: Annotated[
        bool, typer.Option("--watch", help="Write watch.html, a page that shows the samples as they emerge.")
    ] = False,
    json: Json = False,
) -> None:
    """Reconstruct the training data from the weights alone. The true data are not read.

    Exit code 1 if the attack did not converge or its verdict is "failed". Started by torchrun, several processes
    share the coordinates among them; the first one writes the files and prints the result.

    Example: exhume attack runs/a --method exact --seed 1

    Example: torchrun --standalone --nproc-per-node 2 -m exhume attack runs/a
    """
    from exhume import attacks
    from exhume.results.certificate import FAILED
    from exhume.run_folder import RunFolder
    from exhume.support import distributed

    folder = RunFolder(run)
    chosen = attacks.build(method, parse_pairs(option))
    processes = distributed.initialise(options.device, rank_timeout)
    target = options.load_target(folder).sharded(processes)
    kept = [folder.checkpoint(method)]
    with interruptible(lambda: kept, "--resume"), _ending_together(processes):
        result = run_attack(folder, chosen, target, processes, resume=resume, watch=watch, **options.settings())
        if processes.leads:
            value = {name: value for name, value in result.to_json().items() if name != "history"}
            show(result.summary(), {"folder": str(folder.attack(method)), **value}, json)
    if not result.stop.trusted or result.certificate.verdict == FAILED:
        raise typer.Exit(1)


@contextmanager
def _ending_together(processes: Processes) -> Iterator[None]:
    """Keeps several processes alive until the first has written; if one is lost, each of the others prints why."""
    from exhume.support.distributed import RESUME, LostRank

    if processes.ranks == 1:
        yield
        return

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise LostRank(f"Rank {processes.rank} stopped because another rank was lost. {RESUME}")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
        sys.stdout.flush()
        processes.wait()
        processes.close()
    except ExhumeError:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # this process prints its error and ends by itself
        raise
    signal.signal(signal.SIGTERM, before)


def run_attack(
    folder: RunFolder,
    chosen: Attack,
    target: Target,
    processes: Processes | None = None,
    *,
    watch: bool = False,
    **settings: Any,
) -> Reconstruction:
    """Runs an attack, with its checkpoint in the run folder, and saves the result there.

    Of several processes only the first one shows progress and saves. With `watch` a page shows the current samples.
    """
    if processes is not None and not processes.leads:
        return chosen(target, **settings)
    page = _watch_page(folder, chosen.name, target) if watch else None
    with attack_progress(chosen.name) as report:

        def shown(event: ProgressEvent) -> None:
            report(event)
            if page is not None:
                page.update(event)

        result = chosen(target, checkpoint=folder.checkpoint(chosen.name), progress=shown, **settings)
    folder.save_result(result)
    if page is not None:
        page.finish(result)
    return result


def _watch_page(folder: RunFolder, method: str, target: Target) -> WatchPage:
    from exhume.report.live import WatchPage

    page = WatchPage(folder.attack(method) / "watch.html", method, target.input_shape)
    print(f"watch it: {page.path}", file=sys.stderr)
    return page
