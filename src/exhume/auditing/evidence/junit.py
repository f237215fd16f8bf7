"""Audits as a JUnit report, which CI services show beside the tests."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from exhume.auditing.batch import Audited
from exhume.auditing.result import Audit
from exhume.scoring.outcome import Outcome

_OPEN = (Outcome.NOT_RECOVERED, Outcome.INCONCLUSIVE)


def junit_xml(audits: Sequence[Audited]) -> bytes:
    """The report: a suite for each model, with a test case for its outcome and one for each threshold.

    A reached threshold is a failure, one that could not be measured an error. The outcome is a failure if training
    data were recovered and no threshold says how many may be; it is an error if nothing is decided, unless that is
    allowed, in which case it counts as skipped: what was not tested never counts as passed.
    """
    root = ElementTree.Element("testsuites", name="exhume audit")
    for each in audits:
        suite = ElementTree.SubElement(root, "testsuite", name=_plain(each.name))
        if each.audit is None:
            _case(suite, each.name, "audit", "error", "not audited", each.reason)
        else:
            _add_audit(suite, each.audit)
        _count(suite)
    _count(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _add_audit(suite: ElementTree.Element, audited: Audit) -> None:
    name, verdict = audited.settings.title, audited.report.verdict
    details = "\n".join((verdict.headline, audited.judgement.reason, *verdict.sentences))
    kind = ""
    if audited.outcome in _OPEN:
        kind = "skipped" if audited.settings.allow_inconclusive else "error"
    elif audited.outcome is Outcome.RECOVERED and not audited.settings.fail_on:
        kind = "failure"
    _case(suite, name, "outcome", kind, audited.outcome.value, details)
    for each in audited.settings.fail_on:
        measured = audited.measured.get(each.measure)
        state = "failure" if each in audited.exceeded else "error" if each in audited.unmeasured else ""
        words = {"failure": "reached", "error": "could not be measured", "": "not reached"}[state]
        _case(suite, name, str(each), state, f"{each} {words}", f"{each.measure} is {measured}")


def _case(suite: ElementTree.Element, model: str, name: str, kind: str, message: str, details: str) -> None:
    """A test case; `kind` is the element that says why it did not pass, empty if it did."""
    case = ElementTree.SubElement(suite, "testcase", classname=f"exhume.{_plain(model)}", name=_plain(name))
    if kind:
        ElementTree.SubElement(case, kind, message=_plain(message)).text = _plain(details)
    else:
        ElementTree.SubElement(case, "system-out").text = _plain(f"{message}\n{details}")


def _count(element: ElementTree.Element) -> None:
    """Writes how many test cases are below, and how many of them did not pass."""
    element.set("tests", str(len(list(element.iter("testcase")))))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(len(list(element.iter(tag)))))


def _plain(text: str) -> str:
    """The text without characters that XML does not allow."""
    return "".join(each if each.isprintable() or each == "\n" else " " for each in text)
