"""`exhume compare`: several attacks on one victim, one table and one gallery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from exhume import attacks, files
from exhume.attacks import Attack
from exhume.cli.attack import AllowUnderdetermined, BudgetPasses, BudgetSeconds, Device, MemoryBudget, Seed, run_attack
from exhume.cli.knowing import Forget, Know, NumSamples, assume
from exhume.cli.options import parse_pairs
from exhume.cli.render import Json, show
from exhume.cli.score import judge, picture_of
from exhume.comparison import GOOD_SSIM, Entry, earlier, table
from exhume.errors import ExhumeError, InputError, unknown_name
from exhume.gallery import as_shown, save_comparison
from exhume.runs import RunFolder, Secret
from exhume.target import Target

_COLUMNS = 12  # pictures in a row of the gallery


def compare(
    run: Annotated[Path, typer.Argument(help="Run folder made by `exhume train`.")],
    methods: Annotated[
        str | None, typer.Option(help=f"Separated by commas; by default all: {', '.join(attacks.ATTACKS)}.")
    ] = None,
    num_samples: NumSamples = None,
    know: Know = None,
    forget: Forget = None,
    seed: Seed = 0,
    budget_passes: BudgetPasses = float("inf"),
    budget_seconds: BudgetSeconds = float("inf"),
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep results of the same settings, and continue interrupted attacks.")
    ] = False,
    allow_underdetermined: AllowUnderdetermined = False,
    option: Annotated[
        list[str] | None, typer.Option(help="An option of one method, as method.name=value; may be repeated.")
    ] = None,
    memory_budget: MemoryBudget = "4GB",
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Run several attacks on one victim and score them; writes compare.json, and compare.png for pictures.

    The truth is opened only after the last attack. An attack that cannot be run on this victim is listed with the
    reason. Exit code 1 if none could be run.

    Example: exhume compare runs/a --methods exact,descent --budget-passes 2000
    """
    for name, budget in (("passes", budget_passes), ("seconds", budget_seconds)):
        if not budget > 0:
            raise InputError(f"the budget of {name} must be positive, got {budget}")
    folder, chosen = RunFolder(run), _chosen(methods, option)
    target = assume(folder.load_target(memory_budget=memory_budget, device=device), know, forget, num_samples)
    settings: dict[str, Any] = {
        "seed": seed,
        "max_passes": budget_passes,
        "max_seconds": budget_seconds,
        "resume": resume,
    }
    entries = [
        _attacked(folder, each, target, allow_underdetermined=allow_underdetermined, **settings) for each in chosen
    ]
    secret = folder.load_secret() if folder.holds_secret else None
    entries = [_scored(folder, entry, target, secret) for entry in entries]
    value, text = _record(folder, entries, target, secret)
    show(text, {"folder": str(folder.path), **value}, json)
    if all(entry.result is None for entry in entries):
        raise typer.Exit(1)


def _chosen(methods: str | None, pairs: list[str] | None) -> list[Attack]:
    """The attacks by name, each with its own options."""
    names = list(attacks.ATTACKS) if methods is None else [name.strip() for name in methods.split(",")]
    names = list(dict.fromkeys(names))
    for name in names:
        if name not in attacks.ATTACKS:
            raise unknown_name("method", name, attacks.ATTACKS)
    options: dict[str, dict[str, Any]] = {name: {} for name in names}
    for pair, value in parse_pairs(pairs).items():
        method, dot, name = pair.partition(".")
        if not dot:
            raise InputError(f"option {pair!r} is not of the form method.name=value; methods: {', '.join(names)}")
        if method not in options:
            raise unknown_name("method of an option", method, names)
        options[method][name] = value
    return [attacks.build(name, options[name]) for name in names]


def _attacked(
    folder: RunFolder, chosen: Attack, target: Target, *, seed: int, max_passes: float, resume: bool, **more: Any
) -> Entry:
    """The result of an attack, an earlier one if it may be kept, or the reason why there is none."""
    kept = earlier(folder, chosen, target, seed=seed, max_passes=max_passes) if resume else None
    if kept is not None:
        return Entry(chosen.name, kept, reused=True)
    try:
        result = run_attack(folder, chosen, target, seed=seed, max_passes=max_passes, resume=resume, **more)
    except ExhumeError as error:
        return Entry(chosen.name, reason=str(error))
    return Entry(chosen.name, result)


def _scored(folder: RunFolder, entry: Entry, target: Target, secret: Secret | None) -> Entry:
    """The entry with its score; only here the truth is read."""
    if entry.result is None:
        return entry
    if secret is None:
        return replace(entry, reason="the truth is not in the run folder")
    try:
        return replace(entry, score=judge(folder, entry.result, target, secret)[0])
    except ExhumeError as error:
        return replace(entry, reason=str(error))


def _record(
    folder: RunFolder, entries: Sequence[Entry], target: Target, secret: Secret | None
) -> tuple[dict[str, Any], str]:
    """Writes compare.json and compare.png; returns the JSON value and the text."""
    json_file, gallery = folder.comparison
    drawn = secret is not None and _draw(gallery, entries, secret)
    if not drawn:
        gallery.unlink(missing_ok=True)
    value = {
        "target": target.fingerprint,
        "knowledge": target.knowledge.to_json(),
        "known": target.knowledge.sentence(),
        "good_ssim": GOOD_SSIM,
        "methods": [entry.to_json() for entry in entries],
        "gallery": gallery.name if drawn else None,
    }
    files.write_json(json_file, value)
    text = [table(entries), target.knowledge.sentence(), *([f"pictures: {gallery}"] if drawn else [])]
    return value, "\n".join(text)


def _draw(path: Path, entries: Sequence[Entry], secret: Secret) -> bool:
    """Draws the first samples that were looked for, and what each attack made of them; False if there is nothing."""
    picture = picture_of(secret)
    lines, known, borrowed = {}, set(), set()
    for entry in entries:
        if entry.result is not None and entry.score is not None:
            shown = as_shown(entry.result, entry.score, secret.inputs)
            signed = entry.result.signs_determined
            recovered = entry.score.recovered if signed else entry.score.recovered_up_to_sign
            label = f"{entry.method}\n{recovered} of {entry.score.num_samples}"
            lines[label if signed else f"{label}\nup to sign"] = shown
            known |= set(entry.score.known)
            borrowed |= set(shown.borrowed)
    if picture is None or not lines:
        return False
    sought = [index for index in range(len(secret.inputs)) if index not in known]
    title = f"{min(_COLUMNS, len(sought))} of {len(sought)} samples, and how many each attack recovered of all"
    if borrowed:
        title += f"; {' and '.join(sorted(borrowed))} that it leaves open are the truth's"
    save_comparison(path, secret.inputs, lines, picture.to_pictures, indices=sought[:_COLUMNS], title=title)
    return True
