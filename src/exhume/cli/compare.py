"""`exhume compare`: several attacks on one victim, in one table and one gallery."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exhume.cli.attack import run_attack
from exhume.cli.interruption import interruptible
from exhume.cli.options import ATTACK_NAMES, AttackOptions, Json, parse_pairs, with_option_groups
from exhume.cli.render import show
from exhume.cli.score import score_result
from exhume.errors import ExhumeError, FileError, InputError, unknown_name

if TYPE_CHECKING:
    from exhume.attacks import Attack
    from exhume.data import Dataset
    from exhume.run_folder import RunFolder
    from exhume.scoring.comparison import Entry
    from exhume.target.target import Target


@with_option_groups
def compare(
    run: Annotated[Path, typer.Argument(help="Run folder made by `exhume train`.")],
    *,
    methods: Annotated[
        str | None, typer.Option(help=f"Separated by commas; by default all: {', '.join(ATTACK_NAMES)}.")
    ] = None,
    options: AttackOptions,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep results of the same settings, and continue interrupted attacks.")
    ] = False,
    option: Annotated[
        list[str] | None, typer.Option(help="An option of one method, as method.name=value; may be repeated.")
    ] = None,
    json: Json = False,
) -> None:
    """Run several attacks on one victim and score them. Writes compare.json, and compare.png for images.

    The true data are read only after the last attack. An attack that cannot run on this victim is listed with the
    reason. Exit code 1 if none could run.

    Example: exhume compare runs/a --methods exact,descent --budget-passes 2000
    """
    from exhume.run_folder import RunFolder

    for name, budget in (("--budget-passes", options.budget_passes), ("--budget-seconds", options.budget_seconds)):
        if not budget > 0:
            raise InputError(f"{name} is {budget}; valid: a positive number")
    folder, chosen = RunFolder(run), _build_attacks(methods, option)
    target, settings = options.load_target(folder), options.settings() | {"resume": resume}
    kept = [folder.attack(each.name) / file for each in chosen for file in ("result.json", "checkpoint.safetensors")]
    with interruptible(lambda: kept, "--resume"):
        entries = [_attack(folder, each, target, settings) for each in chosen]
        secret = folder.load_secret() if folder.holds_secret else None
        entries = [_score(folder, entry, target, secret) for entry in entries]
        value, text = _write(folder, entries, target, secret)
    show(text, {"folder": str(folder.path), **value}, json)
    if all(entry.result is None for entry in entries):
        raise typer.Exit(1)


def _build_attacks(methods: str | None, pairs: list[str] | None) -> list[Attack]:
    """The attacks by name, each with its own options."""
    from exhume import attacks

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


def _attack(folder: RunFolder, chosen: Attack, target: Target, settings: dict[str, Any]) -> Entry:
    """Runs an attack, or takes an earlier result of the same settings; an attack that refuses has a reason instead."""
    from exhume.scoring.comparison import Entry, same_run

    if settings["resume"]:
        with suppress(FileError):
            kept = folder.load_result(chosen.name)
            if same_run(kept, chosen, target, seed=settings["seed"], max_passes=settings["max_passes"]):
                return Entry(chosen.name, kept, reused=True)
    try:
        return Entry(chosen.name, run_attack(folder, chosen, target, **settings))
    except ExhumeError as error:
        return Entry(chosen.name, reason=str(error))


def _score(folder: RunFolder, entry: Entry, target: Target, secret: Dataset | None) -> Entry:
    """The entry with its score, or with the reason why it has none."""
    if entry.result is None:
        return entry
    if secret is None:
        return replace(entry, reason="the run folder does not hold the true data")
    try:
        return replace(entry, score=score_result(folder, entry.result, target, secret)[0])
    except ExhumeError as error:
        return replace(entry, reason=str(error))


def _write(
    folder: RunFolder, entries: list[Entry], target: Target, secret: Dataset | None
) -> tuple[dict[str, Any], str]:
    """Writes compare.json and compare.png; returns the JSON value and the text."""
    from exhume.scoring.comparison import GOOD_SSIM, table
    from exhume.scoring.gallery import draw_comparison
    from exhume.support import files

    json_file, gallery = folder.comparison
    drawn = False
    if secret is not None and secret.picture is not None:
        drawn = draw_comparison(gallery, entries, secret.inputs, secret.picture.to_pictures)
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
