"""The embedded store: one SQLite file, written ahead (WAL), used by one controller at a time.

It decides how durable a change is. A change of jobs or drains is on the disk before `write` returns (synchronous=FULL):
its caller is told that it is accepted. Paths, hosts, switches and cables can be worked out again, so they only have to
survive the process (NORMAL), and a repair after a failure does not wait for a disk.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as FilePath

from pydantic import TypeAdapter, ValidationError

from controller.core.commands import Remember
from controller.core.events import Remembered
from controller.core.remembered import Avoidance, Facts, RememberedJob, Target
from controller.fabric.model import Path, PortRef
from controller.runtime.store import StoreError

# "HDLE" in the file's header, so that a file of another program is never taken for ours (sqlite.org/fileformat2.html).
APPLICATION_ID = 0x48444C45
# A controller that is just being stopped lets go within this time.
_LOCK_WAIT_S = 5.0
# Migration i brings a file from schema version i to i + 1. Never change one that has been released: add another.
_MIGRATIONS = (
    """
    CREATE TABLE jobs (job_id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE paths (
        source TEXT, destination TEXT, udp_source_port INTEGER, path TEXT NOT NULL,
        PRIMARY KEY (source, destination, udp_source_port)
    ) WITHOUT ROWID;
    CREATE TABLE hosts (address TEXT PRIMARY KEY, port TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE switches (dpid TEXT PRIMARY KEY) WITHOUT ROWID;
    """,
    "CREATE TABLE cables (a TEXT, b TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID;",
    "CREATE TABLE drains (target TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;",
)
VERSION = len(_MIGRATIONS)

_JOB = TypeAdapter(RememberedJob)
_AVOIDANCE = TypeAdapter(Avoidance)


class SqliteStore:
    """Opens `path`, making it and its folder when missing. Raises StoreError."""

    def __init__(self, path: str) -> None:
        self.name = path
        with self._explained():
            _make_private_file(FilePath(path))
            self._file = sqlite3.connect(path, timeout=_LOCK_WAIT_S, isolation_level=None)
        try:
            with self._explained():
                self._take()
        except StoreError:
            self._file.close()
            raise

    def load(self) -> Facts:
        with self._explained():
            return Facts(
                jobs={job_id: _JOB.validate_json(text) for job_id, text in self._rows("jobs")},
                paths={(source, to, port): _read_path(text) for source, to, port, text in self._rows("paths")},
                hosts={address: _read_port(text) for address, text in self._rows("hosts")},
                switches=frozenset(int(dpid, 16) for (dpid,) in self._rows("switches")),
                cables=frozenset((_read_port(a), _read_port(b)) for a, b in self._rows("cables")),
                drains={_read_target(t): _AVOIDANCE.validate_json(text) for t, text in self._rows("drains")},
            )

    def write(self, change: Remember) -> Remembered:
        new, gone = change.learnt, change.forgotten
        durable = new.jobs or gone.jobs or new.drains or gone.drains
        try:
            self._file.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            with self._transaction():
                self._forget(change)
                self._learn(change)
        except sqlite3.Error as error:
            return Remembered(change.change_id, f"{self.name}: {error}")
        return Remembered(change.change_id)

    def close(self) -> None:
        self._file.close()

    # --- opening -----------------------------------------------------------------------------------------

    def _take(self) -> None:
        """Nobody else may write from now on; the system takes the lock back however this process ends."""
        self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
        (owner,) = self._file.execute("PRAGMA application_id").fetchone()
        (tables,) = self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if owner != APPLICATION_ID and (owner or tables):
            raise StoreError(
                f"HEDDLE_STATE: {self.name} is a database of another program; it is left alone: choose another file"
            )
        self._check()
        self._file.execute("PRAGMA journal_mode = WAL")
        # A read takes the lock only when something is written; now is when a second controller must be told.
        with self._transaction():
            self._migrate()

    def _migrate(self) -> None:
        (version,) = self._file.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise StoreError(
                f"HEDDLE_STATE: {self.name} was written by a newer Heddle (schema {version}, not {VERSION}): "
                "run that release, or move the file away and announce the jobs again"
            )
        for migration in _MIGRATIONS[version:]:
            for statement in filter(str.strip, migration.split(";")):
                self._file.execute(statement)
        self._file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._file.execute(f"PRAGMA user_version = {VERSION}")

    def _check(self) -> None:
        found = [text for (text,) in self._file.execute("PRAGMA quick_check(1)")]
        if found != ["ok"]:
            raise self._damaged("; ".join(found))

    def _damaged(self, why: str) -> StoreError:
        why = " ".join(why.split())
        return StoreError(
            f"HEDDLE_STATE: {self.name} is damaged ({why}): move it away (mv {self.name} {self.name}.damaged), start "
            "again and announce the running jobs again; their flows use ECMP until then"
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What can go wrong with the file, in words that say what to do."""
        try:
            yield
        except (sqlite3.DatabaseError, OSError, ValueError, ValidationError) as error:
            raise self._explain(error) from error

    def _explain(self, error: Exception) -> StoreError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreError(
                f"HEDDLE_STATE: {self.name} is in use by another controller ('fuser {self.name}' tells its process): "
                "stop that one, or choose another file"
            )
        if code == sqlite3.SQLITE_NOTADB:
            return StoreError(f"HEDDLE_STATE: {self.name} is no database; it is left alone: choose another file")
        if code == sqlite3.SQLITE_CORRUPT or isinstance(error, ValueError | ValidationError):
            return self._damaged(str(error))
        return StoreError(
            f"HEDDLE_STATE: {self.name} cannot be used ({error}): make its folder writable for this user, choose "
            "another file, or say none to forget all jobs when the controller ends"
        )

    # --- reading and writing -------------------------------------------------------------------------------

    def _rows(self, table: str) -> sqlite3.Cursor:
        return self._file.execute(f"SELECT * FROM {table}")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._file.execute("BEGIN EXCLUSIVE")
        try:
            yield
            self._file.execute("COMMIT")
        except BaseException:
            # After a full disk SQLite may have rolled back already.
            with contextlib.suppress(sqlite3.Error):
                self._file.execute("ROLLBACK")
            raise

    def _forget(self, change: Remember) -> None:
        gone, many = change.forgotten, self._file.executemany
        many("DELETE FROM jobs WHERE job_id = ?", ((job_id,) for job_id in gone.jobs))
        many("DELETE FROM paths WHERE source = ? AND destination = ? AND udp_source_port = ?", gone.paths)
        many("DELETE FROM hosts WHERE address = ?", ((address,) for address in gone.hosts))
        many("DELETE FROM switches WHERE dpid = ?", ((f"{dpid:x}",) for dpid in gone.switches))
        many("DELETE FROM cables WHERE a = ? AND b = ?", ((str(a), str(b)) for a, b in gone.cables))
        many("DELETE FROM drains WHERE target = ?", ((_target_text(target),) for target in gone.drains))

    def _learn(self, change: Remember) -> None:
        new, many = change.learnt, self._file.executemany
        jobs = ((job_id, _JOB.dump_json(job).decode()) for job_id, job in new.jobs.items())
        many("INSERT OR REPLACE INTO jobs VALUES (?, ?)", jobs)
        many("INSERT OR REPLACE INTO paths VALUES (?, ?, ?, ?)", ((*u, _path_text(p)) for u, p in new.paths.items()))
        many("INSERT OR REPLACE INTO hosts VALUES (?, ?)", ((a, str(port)) for a, port in new.hosts.items()))
        many("INSERT OR REPLACE INTO switches VALUES (?)", ((f"{dpid:x}",) for dpid in new.switches))
        many("INSERT OR REPLACE INTO cables VALUES (?, ?)", ((str(a), str(b)) for a, b in new.cables))
        drains = ((_target_text(target), _AVOIDANCE.dump_json(why).decode()) for target, why in new.drains.items())
        many("INSERT OR REPLACE INTO drains VALUES (?, ?)", drains)


def _make_private_file(path: FilePath) -> None:
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _path_text(path: Path) -> str:
    """Ports as PortRef writes them: dpids have 64 bits, one more than SQLite's integers."""
    return " ".join(map(str, path))


def _target_text(target: Target) -> str:
    """A switch by its datapath id, a cable by its two ports."""
    return f"{target:x}" if isinstance(target, int) else _path_text(target)


def _read_target(text: str) -> Target:
    if " " not in text:
        return int(text, 16)
    a, b = _read_path(text)
    return (a, b)


def _read_path(text: str) -> Path:
    return tuple(map(_read_port, text.split()))


def _read_port(text: str) -> PortRef:
    dpid, _, port_no = text.partition(":")
    return PortRef(int(dpid, 16), int(port_no))
