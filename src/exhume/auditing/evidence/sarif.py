"""Audits as a SARIF 2.1.0 log (OASIS standard), which code scanning services read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from exhume import __version__
from exhume.auditing.batch import Audited
from exhume.auditing.exit_code import worst
from exhume.auditing.result import Audit
from exhume.auditing.thresholds import Threshold
from exhume.report import page
from exhume.scoring.outcome import Outcome

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# Identifier, level and description of every rule; identifiers never change their meaning.
RULES = {
    "EXH001": ("error", "Training data were recovered from the weights."),
    "EXH002": ("warning", "The training data are in the weights, but the attacks did not recover them."),
    "EXH003": ("warning", "Inconclusive: it was not shown whether training data can be recovered."),
    "EXH004": ("none", "All published layers together have too few numbers to determine the training data."),
    "EXH010": ("error", "A threshold of --fail-on was reached."),
    "EXH011": ("warning", "A threshold of --fail-on could not be measured."),
}
_OF_OUTCOME = {
    Outcome.RECOVERED: "EXH001",
    Outcome.NOT_RECOVERED: "EXH002",
    Outcome.INCONCLUSIVE: "EXH003",
    Outcome.NOT_RECOVERABLE: "EXH004",
}


def sarif_log(audits: Sequence[Audited]) -> dict[str, Any]:
    """The log of one run over one model or several, as plain JSON values.

    Every model has a result for its outcome, and one for each threshold that was reached or could not be measured. A
    model that could not be audited is a notification of the tool.
    """
    broken = [each for each in audits if each.audit is None]
    code = worst(each.exit_code for each in audits)
    invocation: dict[str, Any] = {"executionSuccessful": not broken, "exitCode": code}
    if broken:
        invocation["toolExecutionNotifications"] = [
            {"level": "error", "message": {"text": f"{each.name} was not audited: {each.reason}"}} for each in broken
        ]
    run = {
        "tool": {"driver": {"name": "exhume", "version": __version__, "rules": [_rule(name) for name in RULES]}},
        "invocations": [invocation],
        "results": [result for each in audits if each.audit is not None for result in _results(each.audit)],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(name: str) -> dict[str, Any]:
    level, text = RULES[name]
    return {"id": name, "shortDescription": {"text": text}, "defaultConfiguration": {"level": level}}


def _results(audited: Audit) -> list[dict[str, Any]]:
    verdict, title = audited.report.verdict, audited.settings.title
    found = [_result(audited, _OF_OUTCOME[audited.outcome], f"{title}: {verdict.headline} {audited.judgement.reason}")]
    found[0]["properties"] = {"outcome": audited.outcome.value, "measured": page.finite(dict(audited.measured))}
    for rule, thresholds, words in (
        ("EXH010", audited.exceeded, "was reached"),
        ("EXH011", audited.unmeasured, "could not be measured"),
    ):
        found += [_result(audited, rule, f"{title}: {each} {words}.", each) for each in thresholds]
    return found


def _result(audited: Audit, rule: str, text: str, threshold: Threshold | None = None) -> dict[str, Any]:
    level = RULES[rule][0]
    settings = audited.settings
    # The same finding on the same weights is one alert, run after run.
    subject = audited.result.target if audited.result is not None else settings.title
    return {
        "ruleId": rule,
        "ruleIndex": list(RULES).index(rule),
        "kind": "pass" if level == "none" else "fail",
        "level": level,
        "message": {"text": " ".join(text.split())},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _location(audited)}}}],
        "partialFingerprints": {"exhumeFinding/v1": f"{rule}:{threshold or ''}:{subject}"},
    }


def _location(audited: Audit) -> str:
    """The file that the finding is about: the weights, the run folder or the model's code; relative if it is below."""
    settings = audited.settings
    code = None if settings.model is None else Path(settings.model.rpartition(":")[0])
    path = settings.weights or settings.run or code or audited.folder or Path("model")
    path = path.expanduser()
    full = path.resolve()
    here = Path.cwd()
    return quote(full.relative_to(here).as_posix()) if full.is_relative_to(here) else full.as_uri()
