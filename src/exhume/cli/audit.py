"""`exhume audit`: does a model that is about to be published carry its training set?"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from exhume.auditing import Audit, Audited, Settings, audit_all, audit_settings, read_settings, several
from exhume.auditing.settings import ALL
from exhume.auditing.thresholds import MEASURES
from exhume.cli.options import parse_pairs, split_pair
from exhume.cli.render import Json, progress_of, show
from exhume.defences import DEFENCES, Outcome
from exhume.errors import InputError

_MEASURES = "; ".join(f"{name}: {measure.meaning}" for name, measure in MEASURES.items())


def audit(
    context: typer.Context,
    settings: Annotated[
        Path | None, typer.Argument(help="A YAML file of settings, of one model or of several under `models`.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Your code: a file and a factory in it, mymodel.py:build.")] = None,
    architecture: Annotated[str | None, typer.Option(help="A known one: two-layer, mlp, resnet, vit.")] = None,
    config: Annotated[list[str] | None, typer.Option(help="A setting of it, name=value; may be repeated.")] = None,
    run: Annotated[Path | None, typer.Option(help="A run folder made by `exhume train`.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Trained weights: safetensors or a torch state dict.")] = None,
    initial: Annotated[
        str | None, typer.Option(help="Weights before training: a file, zero or unknown (default).")
    ] = None,
    head: Annotated[str | None, typer.Option(help="The layer to attack; the last linear one by default.")] = None,
    input_shape: Annotated[str | None, typer.Option(help="Shape of one input, as 3,32,32.")] = None,
    num_samples: Annotated[int | None, typer.Option(help="How many samples to look for.")] = None,
    truth: Annotated[
        Path | None, typer.Option(help="Training data, for the score alone: .npy, .npz, .csv, .safetensors, a folder.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Their labels: .npy or .safetensors.")] = None,
    held_out: Annotated[Path | None, typer.Option(help="Data that were not trained on.")] = None,
    held_out_labels: Annotated[Path | None, typer.Option(help="Their labels.")] = None,
    standardise: Annotated[
        str | None, typer.Option(help="How columns of a .csv were standardised: none (default), or subset.")
    ] = None,
    label_column: Annotated[str | None, typer.Option(help="Which column of a .csv is the label.")] = None,
    columns: Annotated[str | None, typer.Option(help="Names of inputs that are records, without a .csv.")] = None,
    classes: Annotated[str | None, typer.Option(help="Names of the outputs, separated by commas.")] = None,
    know: Annotated[
        list[str] | None, typer.Option(help="What else the attacker knows, name=value; may be repeated.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="One attack; by default those that fit the model.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the attack's own randomness.")] = None,
    budget_passes: Annotated[float | None, typer.Option(help="Feature passes at most; 20,000 by default.")] = None,
    budget_seconds: Annotated[float | None, typer.Option(help="Seconds at most; 1,800 by default.")] = None,
    defences: Annotated[
        bool, typer.Option("--defences", help=f"Attack altered copies too: {', '.join(DEFENCES)}.")
    ] = False,
    defence: Annotated[list[str] | None, typer.Option(help="One family of them; may be repeated.")] = None,
    fail_on: Annotated[
        list[str] | None, typer.Option(help=f"Exit with 1 if this is reached; may be repeated. {_MEASURES}.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the report calls the model.")] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Blur pictures and withhold values.")] = False,
    max_size: Annotated[str | None, typer.Option(help="Largest file that is opened; 4GB by default.")] = None,
    memory_budget: Annotated[str | None, typer.Option(help="Memory for activations; 4GB by default.")] = None,
    device: Annotated[str | None, typer.Option(help="Where to compute: cpu, cuda, ...")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report and all behind it.")] = Path("audit"),
    json: Json = False,
) -> None:
    """Forecast, attack, certify, score and report: does this model carry its training set?

    Exit code 0 if no threshold of --fail-on was reached, 1 if one was, 2 if a model could not be audited or a
    threshold could not be measured.

    Example: exhume audit --model mymodel.py:build --weights w.safetensors --initial w0.safetensors
    --input-shape 1,8,8 --num-samples 12 --truth x.npy --fail-on recovered=1 --out audit
    """
    said = _said(context.params)
    if settings is None:
        _one(audit_settings(Settings(**said), out, progress_of, _measured), json)
        return
    if said:
        raise InputError(f"{', '.join(said)} beside a file of settings; write them into {settings}")
    models = read_settings(settings)
    if len(models) == 1 and isinstance(models[0], Settings):
        _one(audit_settings(models[0], out, progress_of, _measured), json)
        return
    _several(audit_all(models, out, progress_of, _measured, _told), out, json)


def _said(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings among a command's options: those that were said, in the form that `Settings` takes."""
    initial, defences = options["initial"], options["defence"]
    forms = {
        "config": parse_pairs(options["config"]),
        "initial": initial if initial in (None, "zero", "unknown") else Path(initial),
        "know": dict(split_pair(each) for each in options["know"] or []),
        "defences": (ALL,) if options["defences"] else tuple(defences or ()),
        "fail_on": tuple(options["fail_on"] or ()),
    }
    values = {name: forms.get(name, options.get(name)) for name in Settings.model_fields}
    return {name: value for name, value in values.items() if not (value is None or value is False or value in ((), {}))}


def _one(audited: Audit, json: bool) -> None:
    assert audited.folder is not None
    page = audited.folder / "report.html"
    show(f"{audited.summary()}\n  report: {page}", {"report": str(page), **audited.to_json()}, json)
    if not audited.passed:
        raise typer.Exit(1 if audited.exceeded else 2)


def _measured(outcome: Outcome) -> None:
    """One altered copy, on standard error."""
    found = f"{outcome.recovered} of {outcome.num_samples} recovered" if outcome.recovered is not None else "not told"
    print(f"{outcome.defence}, {outcome.setting}: {outcome.reason or found}", file=sys.stderr)


def _told(each: Audited) -> None:
    """One line of a long run, on standard error."""
    print(f"{each.name}: {each.reason or each.folder / 'report.html'}", file=sys.stderr)


def _several(done: list[Audited], out: Path, json: bool) -> None:
    broken = [each for each in done if each.audit is None]
    lines = [each.audit.summary() if each.audit else f"{each.name}: not audited: {each.reason}" for each in done]
    lines.append(f"{len(done) - len(broken)} of {len(done)} models audited; all of them: {out / several.PAGE}")
    show("\n".join(lines), {"models": [_line(each) for each in done]}, json)
    audits = [each.audit for each in done if each.audit]
    if broken or any(each.unmeasured for each in audits):
        raise typer.Exit(2)
    if not all(each.passed for each in audits):
        raise typer.Exit(1)


def _line(each: Audited) -> dict[str, Any]:
    return each.to_json() | {"measured": each.audit.to_json()["measured"] if each.audit else None}
