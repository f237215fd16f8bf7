"""The store of a sweep: one SQLite file with every cell and its outcome, written in one transaction per cell.

The rollback journal and synchronous=FULL keep committed transactions through SIGKILL and power cuts, and leave a single
file that can be copied. One run writes at a time; others may read meanwhile.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ValidationError

from exhume.errors import FileError, InputError
from exhume.sweep.cell import Cell
from exhume.sweep.experiment import Finished, Outcome

# "exhS" in the header of the file tells a store from other SQLite files.
_APPLICATION = 0x65786853
# Stores of schema 1 (exhume 0.1.0) also have a table of events, which nothing reads any more.
_SCHEMA = 2
_READABLE_SCHEMAS = (1, 2)
# Seconds for which a reader and the writer wait for each other.
_BUSY_TIMEOUT = 30.0

_TABLES = (
    """CREATE TABLE cells (
        key TEXT PRIMARY KEY, config TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'done', 'failed')),
        outcome TEXT, error TEXT, seconds REAL, worker TEXT, versions TEXT, finished_at TEXT, pictures BLOB)""",
    """CREATE TABLE members (
        sweep TEXT NOT NULL, key TEXT NOT NULL REFERENCES cells (key), position INTEGER NOT NULL,
        PRIMARY KEY (sweep, key))""",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_SCHEMA}",
)
_COLUMNS = "config, state, outcome, error, seconds, worker, versions, finished_at, cells.key"


@dataclass(frozen=True)
class Record:
    """One cell and its result.

    Attributes:
        cell: its configuration.
        state: waiting, done or failed.
        outcome: the numbers of a done cell.
        error: why a failed cell failed.
        seconds: how long its experiment took.
        worker: address of the worker that computed it.
        versions: of exhume, Python and torch on that worker.
        finished_at: when the result was stored, in UTC.
        read_pictures: opens the store and reads the pictures, as in `Finished`.
    """

    cell: Cell
    state: Literal["waiting", "done", "failed"]
    outcome: Outcome | None
    error: str | None
    seconds: float | None
    worker: str | None
    versions: dict[str, str]
    finished_at: datetime | None
    read_pictures: Callable[[], bytes | None]


@dataclass(frozen=True)
class Counts:
    """Progress of a sweep.

    Attributes:
        total: number of cells; each is done, failed or waiting.
        seconds: computing time of the done cells together.
    """

    total: int
    done: int
    failed: int
    waiting: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The counts as plain JSON."""
        return asdict(self)


class Store:
    """Cells by key, and the sweeps that they belong to. A cell of two sweeps is stored and computed once.

    Args:
        path: of the SQLite file.
        create: whether a missing file is created; otherwise it is a FileError.
    """

    def __init__(self, path: Path, create: bool = True) -> None:
        self.path = Path(path)
        self._has_lock = False
        with _errors_naming(self.path, "open"):
            if create:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            elif not self.path.is_file():
                raise FileError(f"{self.path} does not exist")
            # SQLite opens a file that may not be written for reading.
            uri = f"{self.path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
            self._connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT, isolation_level=None)
            try:
                self._connection.execute("PRAGMA synchronous = FULL")
                self._connection.execute("PRAGMA foreign_keys = ON")
                self._check_schema(create)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other runs, of this process and of others, from writing during the block; may be nested."""
        if self._has_lock:
            yield
            return
        # A file beside the store: closing a second handle of the store itself would drop the locks of SQLite.
        path = self.path.with_name(f"{self.path.name}.lock")
        with _errors_naming(path, "open"):
            file = path.open("w")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise FileError(f"another run is writing to {self.path}; wait for it, or use another store") from error
            found = self._read("PRAGMA quick_check(1)")[0][0]
            if found != "ok":
                reason = " ".join(found.split())
                raise FileError(f"{self.path} is damaged ({reason}); restore a copy, or use another store")
            self._has_lock = True
            try:
                yield
            finally:
                self._has_lock = False

    def register(self, sweep: str, cells: Iterable[Cell]) -> None:
        """Sets the cells of a sweep. New cells wait; cells that the store has keep their results."""
        rows = [(cell.key, json.dumps(cell.to_json(), sort_keys=True)) for cell in cells]
        with self._transaction() as connection:
            connection.executemany("INSERT OR IGNORE INTO cells (key, config) VALUES (?, ?)", rows)
            connection.execute("DELETE FROM members WHERE sweep = ?", (sweep,))
            members = [(sweep, key, position) for position, (key, _) in enumerate(rows)]
            connection.executemany("INSERT OR IGNORE INTO members VALUES (?, ?, ?)", members)

    def sweeps(self) -> list[str]:
        """The names of all sweeps."""
        return [name for (name,) in self._read("SELECT DISTINCT sweep FROM members ORDER BY sweep")]

    def records(self, sweep: str | None = None, keys: Iterable[str] | None = None) -> list[Record]:
        """The records of a sweep in its order, or of all cells; with `keys`, only of these cells."""
        if sweep is None:
            rows = self._read(f"SELECT {_COLUMNS} FROM cells ORDER BY cells.rowid")
        else:
            self._require_sweep(sweep)
            joined = "cells JOIN members ON members.key = cells.key WHERE sweep = ? ORDER BY position"
            rows = self._read(f"SELECT {_COLUMNS} FROM {joined}", (sweep,))
        wanted = None if keys is None else set(keys)
        return [self._record(row) for row in rows if wanted is None or row[-1] in wanted]

    def finish(
        self, key: str, finished: Finished, *, seconds: float, worker: str = "", versions: Mapping[str, str] = {}
    ) -> bool:
        """Stores an outcome; returns False, and changes nothing, if the cell is already done."""
        outcome = json.dumps(finished.outcome.to_json())
        row = {"state": "done", "outcome": outcome, "pictures": finished.pictures, "error": None}
        return self._write_result(key, {**row, "seconds": seconds, "worker": worker}, versions)

    def fail(
        self, key: str, error: str, *, seconds: float | None = None, worker: str = "", versions: Mapping[str, str] = {}
    ) -> bool:
        """Stores why a cell has no outcome; returns False, and changes nothing, if the cell is already done."""
        row = {"state": "failed", "error": error, "seconds": seconds, "worker": worker}
        return self._write_result(key, row, versions)

    def retry(self, sweep: str) -> int:
        """Sets the failed cells of a sweep back to waiting; returns how many."""
        members = "key IN (SELECT key FROM members WHERE sweep = ?)"
        with self._transaction() as connection:
            update = f"UPDATE cells SET state = 'waiting', error = NULL WHERE state = 'failed' AND {members}"
            return connection.execute(update, (sweep,)).rowcount

    def counts(self, sweep: str) -> Counts:
        """Progress of a sweep."""
        self._require_sweep(sweep)
        query = """SELECT COUNT(*), SUM(state = 'done'), SUM(state = 'failed'), SUM(state = 'waiting'),
            TOTAL(seconds) FILTER (WHERE state = 'done') FROM cells JOIN members USING (key) WHERE sweep = ?"""
        return Counts(*self._read(query, (sweep,))[0])

    def _write_result(self, key: str, row: Mapping[str, Any], versions: Mapping[str, str]) -> bool:
        finished_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        row = {**row, "versions": json.dumps(dict(versions)), "finished_at": finished_at}
        changes = ", ".join(f"{name} = :{name}" for name in row)
        with self._transaction() as connection:
            if not connection.execute("SELECT COUNT(*) FROM cells WHERE key = ?", (key,)).fetchone()[0]:
                raise InputError(f"no cell has the key {key!r}")
            update = f"UPDATE cells SET {changes} WHERE key = :key AND state != 'done'"
            return connection.execute(update, {**row, "key": key}).rowcount == 1

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
                read_pictures=partial(_read_pictures, self.path, key),
            )
        except (ValidationError, ValueError) as problem:
            raise FileError(f"{self.path}: cell {key} is not one that this exhume can read: {problem}") from problem

    def _require_sweep(self, sweep: str) -> None:
        if not self._read("SELECT 1 FROM members WHERE sweep = ? LIMIT 1", (sweep,)):
            raise InputError(f"{self.path} has no sweep {sweep!r}; valid: {', '.join(self.sweeps()) or 'none yet'}")

    def _check_schema(self, create: bool) -> None:
        """Gives an empty file its tables; refuses files that are not stores of a schema that this code reads."""
        (application,) = self._read("PRAGMA application_id")[0]
        (schema,) = self._read("PRAGMA user_version")[0]
        (tables,) = self._read("SELECT COUNT(*) FROM sqlite_master")[0]
        if create and (application, schema, tables) == (0, 0, 0):
            with self._transaction() as connection:
                for statement in _TABLES:
                    connection.execute(statement)
        elif application != _APPLICATION:
            raise FileError(f"{self.path} is not a sweep store")
        elif schema not in _READABLE_SCHEMAS:
            valid = " and ".join(map(str, _READABLE_SCHEMAS))
            raise FileError(f"{self.path} is a sweep store of schema {schema}; this exhume reads schema {valid}")

    def _read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with _errors_naming(self.path, "read"):
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Commits all changes of the block, or none if it raises."""
        connection = self._connection
        with _errors_naming(self.path, "write"):
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # SQLite itself has rolled back after some errors, such as a full disk.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise


def _read_pictures(path: Path, key: str) -> bytes | None:
    """The pictures of a cell, through a connection of their own because records outlive their store."""
    with Store(path, create=False) as store:
        rows = store._read("SELECT pictures FROM cells WHERE key = ?", (key,))
    return rows[0][0] if rows else None


@contextmanager
def _errors_naming(path: Path, action: str) -> Iterator[None]:
    """Turns errors of SQLite and of the system into a FileError that names the path."""
    try:
        yield
    except OSError as error:
        raise FileError(f"cannot {action} {path}: {error.strerror or error}") from error
    except sqlite3.OperationalError as error:
        more = "; what it holds is intact" if action == "write" else ""
        raise FileError(f"cannot {action} {path}: {error}{more}") from error
    except sqlite3.DatabaseError as error:
        raise FileError(f"{path} is not a sweep store, or it is damaged: {error}") from error
