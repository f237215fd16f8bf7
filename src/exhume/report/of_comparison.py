"""A report from a comparison: several attacks on one victim, one table, and the gallery of the best certificate."""

from __future__ import annotations

import base64
import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from exhume.data import Dataset
from exhume.errors import FileError
from exhume.report.charts import convergence_chart
from exhume.report.content import Chart, Level, Report, Table, Verdict
from exhume.report.one_attack import evidence_charts, of_subject, run_provenance, subject_of
from exhume.report.subject import Subject
from exhume.report.verdict import verdict_of
from exhume.results.certificate import APPROXIMATE, EXACT, FAILED
from exhume.run_folder import RunFolder
from exhume.scoring.comparison import Entry, row
from exhume.scoring.gallery import draw_comparison
from exhume.support import files
from exhume.support.images import PNG

_VERDICTS = (EXACT, APPROXIMATE, FAILED)
_WORST_FIRST = (Level.LEAK, Level.PARTIAL, Level.IN_WEIGHTS, Level.INCONCLUSIVE, Level.OUT_OF_REACH)
# The columns of the table, and the numbers of `scoring.comparison.row` that they show.
_COLUMNS = {
    "Attack": "method",
    "Verdict": "verdict",
    "Recovered": "recovered",
    "Recovered up to sign": "recovered_up_to_sign",
    "Of": "num_samples",
    "Error": "error",
    "Error up to sign": "error_up_to_sign",
    "Expected error": "predicted_error",
    "Residual": "residual",
    "SSIM": "ssim",
    "Passes": "passes",
    "Seconds": "seconds",
    "Equations": "equations",
    "Unknowns": "unknowns",
}


def of_comparison(folder: RunFolder, redact: bool = False) -> Report:
    """The report on what `exhume compare` ran in a folder.

    The gallery is that of the attack with the best certificate; the truth does not influence the choice.
    """
    file = folder.comparison[0]
    ran, refused = _methods(file)
    target = folder.load_target()
    secret = folder.load_secret() if folder.holds_secret else None
    subjects: dict[str, Subject] = {}
    for method in ran:
        result = folder.load_result(method)
        folder.check_belongs(result, target)
        subjects[method] = subject_of(folder, target, result, secret, redact=redact)
    title = f"{folder.path.resolve().name}: {len(ran) + len(refused)} attacks compared"
    table = _table(subjects, refused)
    if not subjects:
        headline = "None of the attacks could be run on this model."
        verdict = Verdict(Level.NEUTRAL, headline, tuple(f"{name}: {why}" for name, why in refused.items()))
        return Report(title, verdict, tables=(table,), provenance=run_provenance(file, secret), redacted=redact)
    chosen = min(subjects, key=lambda method: _rank(subjects[method]))
    report = of_subject(replace(subjects[chosen], name=title))
    results = {name: each.result for name, each in subjects.items() if each.result is not None}
    return replace(
        report,
        verdict=_verdict(subjects, chosen),
        convergence=(convergence_chart(results), *evidence_charts(subjects[chosen])),
        tables=(table,),
        charts=() if redact else _pictures(subjects, secret),
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
    """The better the certificate, the smaller: verdict, certified rows, expected error, residual."""
    assert subject.result is not None
    certificate = subject.result.certificate
    verdict = _VERDICTS.index(certificate.verdict) if certificate.verdict in _VERDICTS else len(_VERDICTS)
    expected = math.inf if certificate.predicted_error is None else certificate.predicted_error
    return verdict, -subject.findings.certified, expected, certificate.residual


def _verdict(subjects: Mapping[str, Subject], chosen: str) -> Verdict:
    """The worst that any attack shows; of equals that of the best certificate."""
    names = [chosen, *(name for name in subjects if name != chosen)]
    verdicts = {name: verdict_of(subjects[name]) for name in names}
    worst = min(names, key=lambda name: _WORST_FIRST.index(verdicts[name].level))
    found = verdicts[worst]
    others = [f"{name}: {_short(subjects[name])}" for name in names if name != worst]
    which = f"This is what {worst} shows{f', of {len(names)} attacks that ran' if others else ''}."
    return replace(found, sentences=(which, *found.sentences, *others))


def _short(subject: Subject) -> str:
    assert subject.result is not None
    found, verdict = subject.findings, subject.result.certificate.verdict
    if not found.scored:
        return f"verdict {verdict}, {found.certified:,} of {found.rows:,} samples certified."
    return f"verdict {verdict}, {found.recovered:,} of {found.sought:,} samples came back."


def _table(subjects: Mapping[str, Subject], refused: Mapping[str, str]) -> Table:
    rows = []
    for subject in subjects.values():
        assert subject.result is not None
        numbers = row(subject.result, subject.score)
        note = subject.result.ending
        rows.append({title: numbers[column] for title, column in _COLUMNS.items()} | {"Note": note})
    rows += [{"Attack": name, "Note": f"not run: {why}"} for name, why in refused.items()]
    caption = "Verdict, residual and expected error are the attack's own; errors and counts are against the truth."
    return Table.of("Attacks", rows, caption=caption, name="attacks")


def _pictures(subjects: Mapping[str, Subject], data: Dataset | None) -> tuple[Chart, ...]:
    """The first samples and what each attack recovered of them, if samples are images and the truth is given."""
    if data is None or data.picture is None:
        return ()
    entries = [Entry(name, each.result, score=each.score) for name, each in subjects.items()]
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "pictures.png"
        if not draw_comparison(path, entries, data.inputs, data.picture.to_pictures):
            return ()
        content = base64.b64encode(path.read_bytes()).decode("ascii")
    words = f"True images in the top row, and below a row of recovered images for each of: {', '.join(subjects)}."
    caption = "True samples above, below them those that each attack recovered, with the error under each."
    return (Chart("What each attack recovered", f"{PNG}{content}", words, caption),)
