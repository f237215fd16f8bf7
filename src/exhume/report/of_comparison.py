"""A report from a comparison: several attacks on one victim, one table, and the gallery of the best certificate."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from exhume import files, gallery
from exhume.certificate import APPROXIMATE, EXACT, FAILED
from exhume.errors import FileError
from exhume.report.build import of_subject
from exhume.report.charts import convergence_chart
from exhume.report.content import Chart, Level, Report, Table, Verdict
from exhume.report.findings import NOT_TRUSTED, certainties, recovered_of
from exhume.report.from_run import check_belongs, provenance, subject_of
from exhume.report.subject import Subject
from exhume.report.words import verdict_of
from exhume.runs import RunFolder

_VERDICTS = (EXACT, APPROXIMATE, FAILED)
_WORST_FIRST = (Level.LEAK, Level.PARTIAL, Level.NOT_SHOWN, Level.OUT_OF_REACH)
_PICTURES = 12  # in a row of the gallery of all attacks


def of_comparison(folder: RunFolder, redact: bool = False) -> Report:
    """The report on what `exhume compare` ran in a folder.

    The gallery is that of the attack with the best certificate: the truth has no say in the choice.
    """
    file = folder.comparison[0]
    ran, refused = _methods(file)
    target = folder.load_target()
    secret = folder.load_secret() if folder.holds_secret else None
    subjects: dict[str, Subject] = {}
    for method in ran:
        result = folder.load_result(method)
        check_belongs(folder, result, target)
        subjects[method] = subject_of(folder, target, result, secret, redact=redact)
    title = f"{folder.path.resolve().name}: {len(ran) + len(refused)} attacks compared"
    table = _table(subjects, refused)
    if not subjects:
        headline = "None of the attacks could be run on this model."
        verdict = Verdict(Level.NEUTRAL, headline, tuple(f"{name}: {why}" for name, why in refused.items()))
        return Report(title, verdict, tables=(table,), provenance=provenance(file, secret), redacted=redact)
    chosen = min(subjects, key=lambda method: _rank(subjects[method]))
    report = of_subject(replace(subjects[chosen], name=title))
    results = {name: each.result for name, each in subjects.items() if each.result is not None}
    charts = [] if redact else _pictures(subjects)
    return replace(
        report,
        verdict=_verdict(subjects, chosen),
        convergence=(convergence_chart(results), *report.convergence[1:]),
        tables=(table,),
        charts=tuple(charts),
        samples_note=" ".join(filter(None, (f"Recovered by {chosen}.", report.samples_note))),
    )


def _methods(file: Path) -> tuple[list[str], dict[str, str]]:
    """Which attacks ran, and why the others did not."""
    try:
        entries = files.read_json(file)["methods"]
        ran = [str(each["method"]) for each in entries if each["ran"]]
        refused = {str(each["method"]): str(each["reason"] or "") for each in entries if not each["ran"]}
    except (KeyError, TypeError) as error:
        raise FileError(f"{file} does not hold a whole comparison: {error!r}") from error
    for name in ran:
        if Path(name).name != name or name in ("", ".", ".."):
            raise FileError(f"{file} names a method {name!r}, which is no name of a folder")
    return ran, refused


def _rank(subject: Subject) -> tuple[int, int, float, float]:
    """The better the certificate, the smaller: verdict, rows vouched for, expected error, residual."""
    result = subject.result
    assert result is not None
    certificate = result.certificate
    verdict = _VERDICTS.index(certificate.verdict) if certificate.verdict in _VERDICTS else len(_VERDICTS)
    trusted = sum(word != NOT_TRUSTED for word in certainties(result))
    expected = certificate.predicted_error
    return verdict, -trusted, float("inf") if expected is None else expected, certificate.residual


def _verdict(subjects: Mapping[str, Subject], chosen: str) -> Verdict:
    """The worst that any attack shows; of equals that of the best certificate."""
    names = [chosen, *(name for name in subjects if name != chosen)]
    verdicts = {name: verdict_of(subjects[name]) for name in names}
    worst = min(names, key=lambda name: _WORST_FIRST.index(verdicts[name].level))
    found = verdicts[worst]
    others = [f"{name}: {_short(subjects[name])}" for name in names if name != worst]
    told = (
        f"This is what {worst} shows, of {len(names)} attacks that ran." if others else f"This is what {worst} shows."
    )
    return replace(found, sentences=(told, *found.sentences, *others))


def _short(subject: Subject) -> str:
    result, score = subject.result, subject.score
    assert result is not None
    if score is None:
        trusted = sum(word != NOT_TRUSTED for word in certainties(result))
        return f"verdict {result.certificate.verdict}, {trusted:,} of {len(result.samples):,} samples vouched for."
    return (
        f"verdict {result.certificate.verdict}, "
        f"{recovered_of(score, result):,} of {score.num_samples:,} samples came back."
    )


def _table(subjects: Mapping[str, Subject], refused: Mapping[str, str]) -> Table:
    rows = [_row(name, subject) for name, subject in subjects.items()]
    rows += [{"Attack": name, "Note": f"not run: {why}"} for name, why in refused.items()]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    columns = [name for name in columns if any(row.get(name) is not None for row in rows)]
    cells = tuple(tuple(row.get(name) for name in columns) for row in rows)
    caption = "Verdict, residual and expected error are the attack's own; errors and counts are against the truth."
    return Table("Attacks", tuple(columns), cells, caption=caption, name="attacks")


def _row(name: str, subject: Subject) -> dict[str, Any]:
    result, score = subject.result, subject.score
    assert result is not None
    certificate = result.certificate
    return {
        "Attack": name,
        "Verdict": certificate.verdict,
        "Recovered": None if score is None else score.recovered,
        "Recovered up to sign": None if score is None else score.recovered_up_to_sign,
        "Of": None if score is None else score.num_samples,
        "Error": None if score is None else score.error,
        "Error up to sign": None if score is None else score.error_up_to_sign,
        "Expected error": certificate.predicted_error,
        "Residual": certificate.residual,
        "SSIM": None if score is None else score.ssim,
        "Passes": result.passes,
        "Seconds": result.seconds,
        "Equations": certificate.equations,
        "Unknowns": certificate.unknowns,
        "Note": result.stop.sentence,
    }


def _pictures(subjects: Mapping[str, Subject]) -> Sequence[Chart]:
    """The first samples and what each attack made of them, if samples are pictures and the truth is given."""
    first = next(iter(subjects.values()))
    if first.picture is None or first.truth is None:
        return []
    lines = {
        name: gallery.as_shown(each.result, each.score, first.truth)
        for name, each in subjects.items()
        if each.result is not None and each.score is not None
    }
    known = {index for each in subjects.values() if each.score is not None for index in each.score.known}
    indices = [index for index in range(len(first.truth)) if index not in known][:_PICTURES]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "pictures.png"
        gallery.save_comparison(path, first.truth, lines, first.picture.to_pictures, indices=indices, title="")
        content = base64.b64encode(path.read_bytes()).decode("ascii")
    borrowed = sorted({word for shown in lines.values() for word in shown.borrowed})
    caption = "True samples above, below them what each attack made of them, with the error under each."
    if borrowed:
        caption += f" Where an attack leaves {' and '.join(borrowed)} open, they are drawn as in the truth."
    words = f"{len(indices)} true samples in a row, and a row of pictures for each of: {', '.join(lines)}."
    return [Chart("What each attack recovered", f"data:image/png;base64,{content}", words, caption)]
