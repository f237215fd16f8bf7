"""The store: one SQLite file with every cell, its outcome and what happened to it; one transaction a cell.

Only one run writes at a time; anyone may read meanwhile.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from exhume.errors import FileError, InputError
from exhume.sweep.cell import Cell
from exhume.sweep.database import Database
from exhume.sweep.outcome import Finished, Outcome
from exhume.sweep.record import Counts, Record

__all__ = ["Counts", "Record", "Store"]

_COLUMNS = "config, state, outcome, error, seconds, worker, versions, finished_at, cells.key"


class Store:
    """Cells by their key, and the sweeps that they belong to; a cell of two sweeps is kept, and computed, once."""

    def __init__(self, path: Path, create: bool = True) -> None:
        self.path = Path(path)
        self._database = Database(self.path, create)

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def locked(self) -> AbstractContextManager[None]:
        """Keeps other runs out for a block, in this process and in others."""
        return self._database.locked()

    def register(self, sweep: str, cells: Iterable[Cell]) -> None:
        """Makes these cells the sweep's; new ones wait, others keep what is known of them."""
        rows = [(cell.key, json.dumps(cell.to_json(), sort_keys=True)) for cell in cells]
        with self._database.transaction() as connection:
            connection.executemany("INSERT OR IGNORE INTO cells (key, config) VALUES (?, ?)", rows)
            connection.execute("DELETE FROM members WHERE sweep = ?", (sweep,))
            members = [(sweep, key, position) for position, (key, _) in enumerate(rows)]
            connection.executemany("INSERT OR IGNORE INTO members VALUES (?, ?, ?)", members)

    def sweeps(self) -> list[str]:
        """The names of all sweeps."""
        return [name for (name,) in self._database.read("SELECT DISTINCT sweep FROM members ORDER BY sweep")]

    def records(self, sweep: str | None = None, keys: Iterable[str] | None = None) -> list[Record]:
        """The records of a sweep in its order, or of all cells; or only those with these keys."""
        if sweep is None:
            rows = self._database.read(f"SELECT {_COLUMNS} FROM cells ORDER BY cells.rowid")
        else:
            self._check_known(sweep)
            joined = "cells JOIN members ON members.key = cells.key WHERE sweep = ? ORDER BY position"
            rows = self._database.read(f"SELECT {_COLUMNS} FROM {joined}", (sweep,))
        wanted = None if keys is None else set(keys)
        return [self._record(row) for row in rows if wanted is None or row[-1] in wanted]

    def begin(self, key: str, worker: str) -> None:
        """A worker has taken the cell up."""
        self._note(key, "started", worker)

    def lose(self, key: str, why: str) -> None:
        """The worker that had taken it up is gone."""
        self._note(key, "lost", why)

    def lose_unfinished(self) -> int:
        """Notes as lost what an earlier run had started and not finished; returns how many."""
        # A cell waits again only if whatever came after its last start was a loss.
        unfinished = """SELECT key, SUM(event = 'started') - SUM(event IN ('done', 'failed', 'lost')) AS open
            FROM events JOIN cells USING (key) WHERE state = 'waiting' GROUP BY key HAVING open > 0"""
        rows = self._database.read(unfinished)
        with self._database.transaction() as connection:
            for key, _ in rows:
                _insert_event(connection, key, "lost", "the run ended")
        return len(rows)

    def finish(
        self, key: str, finished: Finished, *, seconds: float, worker: str = "", versions: Mapping[str, str] = {}
    ) -> bool:
        """Keeps an outcome; False if the cell was done already, whose outcome then stays."""
        row = {
            "outcome": json.dumps(finished.outcome.to_json()),
            "pictures": finished.pictures,
            "error": None,
            "seconds": seconds,
            "worker": worker,
            "versions": json.dumps(dict(versions)),
        }
        return self._end(key, "done", row)

    def fail(
        self, key: str, error: str, *, seconds: float | None = None, worker: str = "", versions: Mapping[str, str] = {}
    ) -> bool:
        """Keeps the reason why there is no outcome; False if there is one."""
        row = {"error": error, "seconds": seconds, "worker": worker, "versions": json.dumps(dict(versions))}
        return self._end(key, "failed", row)

    def retry(self, sweep: str) -> int:
        """Lets the failed cells of a sweep wait again; returns how many. The event keeps the error."""
        failed = [(record.cell.key, record.error) for record in self.records(sweep) if record.state == "failed"]
        with self._database.transaction() as connection:
            for key, error in failed:
                connection.execute("UPDATE cells SET state = 'waiting', error = NULL WHERE key = ?", (key,))
                _insert_event(connection, key, "retried", error)
        return len(failed)

    def counts(self, sweep: str) -> Counts:
        """How far a sweep is."""
        self._check_known(sweep)
        states = dict(
            self._database.read(
                "SELECT state, COUNT(*) FROM cells JOIN members USING (key) WHERE sweep = ? GROUP BY state", (sweep,)
            )
        )
        events = dict(
            self._database.read(
                "SELECT event, COUNT(*) FROM events JOIN members USING (key) WHERE sweep = ? GROUP BY event", (sweep,)
            )
        )
        twice = """SELECT COUNT(*) FROM (SELECT key FROM events JOIN members USING (key)
            WHERE sweep = ? AND event IN ('done', 'repeated') GROUP BY key HAVING COUNT(*) > 1)"""
        spent = "SELECT TOTAL(seconds) FROM cells JOIN members USING (key) WHERE sweep = ? AND state = 'done'"
        return Counts(
            total=sum(states.values()),
            done=states.get("done", 0),
            failed=states.get("failed", 0),
            waiting=states.get("waiting", 0),
            started=events.get("started", 0),
            lost=events.get("lost", 0),
            computed_twice=self._database.read(twice, (sweep,))[0][0],
            seconds=self._database.read(spent, (sweep,))[0][0],
        )

    def _end(self, key: str, state: str, row: Mapping[str, Any]) -> bool:
        row = {**row, "state": state, "finished_at": _now()}
        changes = ", ".join(f"{name} = :{name}" for name in row)
        with self._database.transaction() as connection:
            if not connection.execute("SELECT COUNT(*) FROM cells WHERE key = ?", (key,)).fetchone()[0]:
                raise InputError(f"no cell has the key {key!r}")
            update = f"UPDATE cells SET {changes} WHERE key = :key AND state != 'done'"
            changed = connection.execute(update, {**row, "key": key}).rowcount == 1
            event = state if changed else "repeated"
            _insert_event(connection, key, event, row["error"] if changed else f"{state} again, ignored")
        return changed

    def _note(self, key: str, event: str, detail: str) -> None:
        with self._database.transaction() as connection:
            _insert_event(connection, key, event, detail)

    def _record(self, row: tuple[Any, ...]) -> Record:
        config, state, outcome, error, seconds, worker, versions, finished_at, key = row
        try:
            return Record(
                cell=Cell.model_validate_json(config),
                state=state,
                outcome=None if outcome is None else Outcome.model_validate(json.loads(outcome)),
                error=error,
                seconds=seconds,
                worker=worker,
                versions=json.loads(versions) if versions else {},
                finished_at=datetime.fromisoformat(finished_at) if finished_at else None,
                load_pictures=partial(_pictures, self.path, key),
            )
        except (ValidationError, ValueError) as problem:
            raise FileError(f"{self.path}: cell {key} is not one that this exhume can read: {problem}") from problem

    def _check_known(self, sweep: str) -> None:
        if not self._database.read("SELECT 1 FROM members WHERE sweep = ? LIMIT 1", (sweep,)):
            raise InputError(f"{self.path} has no sweep {sweep!r}; valid: {', '.join(self.sweeps()) or 'none yet'}")


def _pictures(path: Path, key: str) -> bytes | None:
    """The pictures of a cell, read by a connection of their own: a record outlives its store."""
    database = Database(path, create=False)
    try:
        rows = database.read("SELECT pictures FROM cells WHERE key = ?", (key,))
    finally:
        database.close()
    return rows[0][0] if rows else None


def _insert_event(connection: sqlite3.Connection, key: str, event: str, detail: str | None) -> None:
    connection.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (_now(), key, event, detail))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
