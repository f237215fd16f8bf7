"""`exhume audit`: does a model that is about to be published carry its training set?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exhume.cli.interruption import interruptible
from exhume.cli.options import Json, split_pair, with_option_groups
from exhume.cli.render import attack_progress, notice, printing_to_stderr, seed_progress, show
from exhume.errors import InputError

if TYPE_CHECKING:
    from exhume.auditing import Audit, Audited
    from exhume.defences import Outcome

# What --defence and --fail-on take: the names in exhume.defences.DEFENCES and in exhume.auditing.thresholds.MEASURES,
# which need torch.
DEFENCE_NAMES = ("rounding", "noise", "pruning", "coordinates", "ridge", "samples", "dp-sgd")
MEASURES = {
    "recovered": "at least so many samples recovered",
    "share": "at least this share of the samples recovered",
    "certain": "at least so many samples certified",
    "error": "an error of at most so much",
    "closest": "a sample with an error of at most so much",
    "predicted_error": "a predicted error of at most so much",
    "equations_per_unknown": "at least so many equations per unknown",
    "verdict": "this verdict of the certificate or a more certain one",
    "law": "this verdict of the law or a worse one",
}
_INITIAL = (
    "Initial weights: a file, zero or unknown (default); seed:0-99999 finds the seed under which --model gives them, a "
    "folder the checkpoint in it that the model was fine-tuned from."
)
_DEFENCES = ", ".join(DEFENCE_NAMES)
_MEASURES = "; ".join(f"{name}: {meaning}" for name, meaning in MEASURES.items())


@dataclass(frozen=True)
class ModelOptions:
    """Which model is audited, and where."""

    model: Annotated[str | None, typer.Option(help="Your code: a file and a factory in it, mymodel.py:build.")] = None
    run: Annotated[Path | None, typer.Option(help="A run folder made by `exhume train`.")] = None
    estimator: Annotated[Path | None, typer.Option(help="A fitted scikit-learn estimator: a skops file.")] = None
    weights: Annotated[Path | None, typer.Option(help="Trained weights: safetensors or a torch state dict.")] = None
    initial: Annotated[str | None, typer.Option(help=_INITIAL)] = None
    workers: Annotated[int | None, typer.Option(help="Processes of the search for a seed; 1 by default.")] = None
    head: Annotated[str | None, typer.Option(help="The layer to attack; the last linear one by default.")] = None
    input_shape: Annotated[str | None, typer.Option(help="Shape of one input, for instance 3,32,32.")] = None
    name: Annotated[str | None, typer.Option(help="Name of the model in the report.")] = None
    max_size: Annotated[str | None, typer.Option(help="Largest file that is opened; 4GB by default.")] = None
    memory_budget: Annotated[str | None, typer.Option(help="Memory for activations; 4GB by default.")] = None
    device: Annotated[str | None, typer.Option(help="Where to compute: cpu, cuda, ...")] = None


@dataclass(frozen=True)
class OwnerOptions:
    """The owner's data, for the score alone, and what the report shows of them."""

    truth: Annotated[Path | None, typer.Option(help="Training data, for the score alone: a file or folder.")] = None
    labels: Annotated[Path | None, typer.Option(help="Labels of the training data: .npy or .safetensors.")] = None
    held_out: Annotated[Path | None, typer.Option(help="Samples that were not trained on: a baseline.")] = None
    held_out_labels: Annotated[Path | None, typer.Option(help="Labels of the held-out samples.")] = None
    reference: Annotated[Path | None, typer.Option(help="A pool of samples of this kind: a baseline.")] = None
    standardise: Annotated[str | None, typer.Option(help="Standardisation of a .csv: none (default), subset.")] = None
    label_column: Annotated[str | None, typer.Option(help="Which column of a .csv is the label.")] = None
    columns: Annotated[str | None, typer.Option(help="Names of columns, separated by commas.")] = None
    classes: Annotated[str | None, typer.Option(help="Names of the outputs, separated by commas.")] = None
    show_truth: Annotated[bool, typer.Option("--show-truth", help="Show true samples in any case.")] = False
    redact: Annotated[bool, typer.Option("--redact", help="Blur images and leave out values in the report.")] = False


@dataclass(frozen=True)
class TestOptions:
    """What the attacker knows and may spend, and when an audit fails."""

    num_samples: Annotated[int | None, typer.Option(help="How many samples to look for.")] = None
    know: Annotated[list[str] | None, typer.Option(help="What else the attacker knows, name=value; repeatable.")] = None
    recipe: Annotated[Path | None, typer.Option(help="How the model was trained, a YAML file, for replay.")] = None
    method: Annotated[str | None, typer.Option(help="Name of one attack; by default those that fit the model.")] = None
    seed: Annotated[int | None, typer.Option(help="Seed of the attack's own random numbers.")] = None
    budget_passes: Annotated[float | None, typer.Option(help="Most feature passes; 20,000 by default.")] = None
    budget_seconds: Annotated[float | None, typer.Option(help="Most seconds of the attacks; 1,800 by default.")] = None
    defences: Annotated[bool, typer.Option("--defences", help=f"Attack altered copies too: {_DEFENCES}.")] = False
    defence: Annotated[list[str] | None, typer.Option(help="Attack the copies of one family; repeatable.")] = None
    fail_on: Annotated[
        list[str] | None, typer.Option(help=f"Exit with 1 if this is reached; may be repeated. {_MEASURES}.")
    ] = None
    allow_inconclusive: Annotated[bool, typer.Option("--allow-inconclusive", help="Exit with 0, not 3.")] = False


@dataclass(frozen=True)
class EvidenceOptions:
    """Files of findings for other tools."""

    sarif: Annotated[Path | None, typer.Option(help="Also write findings as SARIF 2.1.0, for code scanning.")] = None
    junit: Annotated[Path | None, typer.Option(help="Also write the outcome and thresholds as a JUnit report.")] = None
    records: Annotated[Path | None, typer.Option(help="Also write a CSV with a row for each recovered sample.")] = None


@with_option_groups
def audit(
    settings: Annotated[Path | None, typer.Argument(help="YAML settings of one model or several.")] = None,
    *,
    model: ModelOptions,
    owner: OwnerOptions,
    test: TestOptions,
    files: EvidenceOptions,
    out: Annotated[Path, typer.Option(help="Folder of the report and the files that it is made from.")] = Path("audit"),
    json: Json = False,
) -> None:
    """Find out whether your model contains its training set. Forecast, attack, certificate, score and report.

    Exit code 1 if a threshold of --fail-on was reached, 2 if a model could not be audited, 3 if nothing is decided: the
    outcome is inconclusive, or the data are in the weights and were not recovered, or a threshold could not be measured
    (--allow-inconclusive: 0); else 0. Of several models, 2 before 1 before 3 before 0.

    Example: exhume audit --model mymodel.py:build --weights w.safetensors --initial w0.safetensors
    --input-shape 1,8,8 --num-samples 12 --truth x.npy --fail-on recovered=1 --out audit
    """
    from exhume.auditing import Audited, Settings, audit_all, audit_settings, read_settings
    from exhume.auditing.evidence import Evidence

    evidence = Evidence(**asdict(files))
    evidence.check()
    given = _given_options(asdict(model) | asdict(owner) | asdict(test))
    if settings is not None and given:
        raise InputError(f"{', '.join(given)} beside a file of settings; valid: the options in {settings}, or no file")
    models = [Settings(**given)] if settings is None else read_settings(settings)
    first, *others = models
    if isinstance(first, Settings) and not others:
        with _running(out.parent):
            audited = audit_settings(first, out, attack_progress, _print_outcome, seed_progress)
            evidence.write([Audited(first.title, out, audited)])
        _show_one(audited, json)
    else:
        with _running(out):
            done = audit_all(models, out, attack_progress, _print_outcome, _print_audit, seed_progress)
            evidence.write(done)
        _show_several(done, out, json)


@contextmanager
def _running(folder: Path) -> Iterator[None]:
    """Keeps what a model's code prints off standard output, and says on Ctrl-C from what an audit in here goes on."""
    from exhume.auditing.folder import workplace

    with interruptible(lambda: folder.glob(f"{workplace(folder / '*').name}/**/*.*")), printing_to_stderr():
        yield


def _given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the command that were given, in the form that `Settings` takes."""
    from exhume.auditing import Settings
    from exhume.auditing.settings import ALL, SEEDS

    initial, defences = options["initial"], options["defence"]
    forms = {
        "initial": initial if initial in (None, "zero", "unknown") or initial.startswith(SEEDS) else Path(initial),
        "know": dict(split_pair(each) for each in options["know"] or []),
        "defences": (ALL,) if options["defences"] else tuple(defences or ()),
        "fail_on": tuple(options["fail_on"] or ()),
    }
    values = {name: forms.get(name, options.get(name)) for name in Settings.model_fields}
    return {name: value for name, value in values.items() if not (value is None or value is False or value in ((), {}))}


def _show_one(audited: Audit, json: bool) -> None:
    assert audited.folder is not None
    page = audited.folder / "report.html"
    show(f"{audited.summary()}\n  report: {page}", {"report": str(page), **audited.to_json()}, json)
    raise typer.Exit(audited.exit_code)


def _print_outcome(outcome: Outcome) -> None:
    """Prints what was recovered from one altered copy, on standard error."""
    found = f"{outcome.recovered} of {outcome.num_samples} recovered" if outcome.recovered is not None else "not scored"
    notice(f"{outcome.defence}, {outcome.setting}: {outcome.reason or found}")


def _print_audit(each: Audited) -> None:
    """Prints where the report of one of several models is, on standard error."""
    notice(f"{each.name}: {each.reason or each.folder / 'report.html'}")


def _show_several(done: list[Audited], out: Path, json: bool) -> None:
    from exhume.auditing.batch import PAGE
    from exhume.auditing.exit_code import worst

    broken = [each for each in done if each.audit is None]
    lines = [each.audit.summary() if each.audit else f"{each.name}: not audited: {each.reason}" for each in done]
    lines.append(f"{len(done) - len(broken)} of {len(done)} models audited; all of them: {out / PAGE}")
    models = [each.to_json() | {"measured": each.audit.to_json()["measured"] if each.audit else None} for each in done]
    show("\n".join(lines), {"models": models}, json)
    raise typer.Exit(worst(each.exit_code for each in done))
