"""A SQLite file that stays whole: transactions, a lock for runs, and errors that name the file.

The rollback journal and synchronous=FULL make what was committed stay through SIGKILL and power cuts, and leave one
file that can be copied.
"""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from exhume.errors import FileError

# "exhS" in the header of the file tells a store from other SQLite files.
_APPLICATION = 0x65786853
_SCHEMA = 1
# Seconds for which a reader and the writer wait for each other.
_PATIENCE = 30.0

_TABLES = (
    """CREATE TABLE cells (
        key TEXT PRIMARY KEY, config TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'done', 'failed')),
        outcome TEXT, error TEXT, seconds REAL, worker TEXT, versions TEXT, finished_at TEXT, pictures BLOB)""",
    """CREATE TABLE members (
        sweep TEXT NOT NULL, key TEXT NOT NULL REFERENCES cells (key), position INTEGER NOT NULL,
        PRIMARY KEY (sweep, key))""",
    """CREATE TABLE events (
        time TEXT NOT NULL, key TEXT NOT NULL REFERENCES cells (key),
        event TEXT NOT NULL CHECK (event IN ('started', 'done', 'failed', 'lost', 'repeated', 'retried')),
        detail TEXT)""",
    "CREATE INDEX events_of ON events (key, event)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_SCHEMA}",
)


class Database:
    """The file, opened; a new one gets its tables, and anything else than a store of this schema is refused."""

    def __init__(self, path: Path, create: bool) -> None:
        self.path = path
        with explained(path, "open"):
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not path.is_file():
                raise FileError(f"{path} does not exist")
            # A file that may not be written is opened all the same, for reading.
            uri = f"{path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
            self._connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)
            try:
                self._connection.execute("PRAGMA synchronous = FULL")
                self._connection.execute("PRAGMA foreign_keys = ON")
                self._check(create)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows."""
        with explained(self.path, "read"):
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of the block, or nothing of it."""
        connection = self._connection
        with explained(self.path, "write"):
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # SQLite itself has rolled back after some errors, such as a full disk.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other runs out for the block, in this process and in others."""
        # Not the file itself: closing a second handle of it would drop the locks of SQLite.
        path = self.path.with_name(f"{self.path.name}.lock")
        with explained(path, "open"):
            file = path.open("w")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise FileError(f"another run is writing to {self.path}; wait for it, or use another store") from error
            found = self.read("PRAGMA quick_check(1)")[0][0]
            if found != "ok":
                words = " ".join(found.split())
                raise FileError(f"{self.path} is damaged ({words}); restore a copy, or use another store")
            yield

    def _check(self, create: bool) -> None:
        (application,) = self.read("PRAGMA application_id")[0]
        (schema,) = self.read("PRAGMA user_version")[0]
        (tables,) = self.read("SELECT COUNT(*) FROM sqlite_master")[0]
        if create and (application, schema, tables) == (0, 0, 0):
            with self.transaction() as connection:
                for statement in _TABLES:
                    connection.execute(statement)
        elif application != _APPLICATION:
            raise FileError(f"{self.path} is not a sweep store")
        elif schema != _SCHEMA:
            raise FileError(f"{self.path} is a sweep store of schema {schema}; this exhume reads schema {_SCHEMA}")


@contextmanager
def explained(path: Path, what: str) -> Iterator[None]:
    """Turns what SQLite and the system say into a FileError that names the path."""
    try:
        yield
    except OSError as error:
        raise FileError(f"cannot {what} {path}: {error.strerror or error}") from error
    except sqlite3.OperationalError as error:
        more = "; what it holds is intact" if what == "write" else ""
        raise FileError(f"cannot {what} {path}: {error}{more}") from error
    except sqlite3.DatabaseError as error:
        raise FileError(f"{path} is not a sweep store, or it is damaged: {error}") from error
