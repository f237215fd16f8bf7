"""Evidence of audits for other programs: SARIF for code scanning, JUnit for test reports, CSV of recovered samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from exhume.auditing.batch import Audited
from exhume.auditing.evidence.junit import junit_xml
from exhume.auditing.evidence.record_table import record_table
from exhume.auditing.evidence.sarif import sarif_log
from exhume.errors import InputError
from exhume.support import files


@dataclass(frozen=True)
class Evidence:
    """The files to write after a run over one model or several; None writes none."""

    sarif: Path | None = None
    junit: Path | None = None
    records: Path | None = None

    def check(self) -> None:
        """Refuses names that cannot be written, before the attacks take their time."""
        given = [path for path in astuple(self) if path is not None]
        for path in given:
            if path.is_dir() or not path.absolute().parent.is_dir():
                raise InputError(f"{path} is a folder or lies in none that exists; valid: the name of a file")
        if len({path.resolve() for path in given}) < len(given):
            raise InputError("--sarif, --junit and --records name the same file; valid: a file for each")

    def write(self, audits: Sequence[Audited]) -> None:
        """Writes the files, each readable by its owner alone."""
        if self.sarif is not None:
            files.write_bytes(self.sarif, json.dumps(sarif_log(audits), indent=2, allow_nan=False).encode())
        if self.junit is not None:
            files.write_bytes(self.junit, junit_xml(audits))
        if self.records is not None:
            files.write_bytes(self.records, record_table(audits).encode())


__all__ = ["Evidence", "junit_xml", "record_table", "sarif_log"]
