"""The journal on disk: what survives which kind of death, and what is said about a file that cannot be used."""

import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from controller.core.commands import Remember
from controller.core.events import Remembered
from controller.core.remembered import Avoidance, FactKeys, Facts, RememberedJob
from controller.fabric.model import PortRef
from controller.jobs.collective import Algorithm, Collective, Operation, Phase, QueuePairPorts
from controller.runtime.sqlite_store import VERSION, SqliteStore
from controller.runtime.store import NoStore, StoreError
from controller.runtime.stores import open_store
from controller.simulation.journal import ModelJournal

ROOT = Path(__file__).resolve().parents[2]

LARGEST = 2**64 - 1
COLLECTIVE = Collective(
    "job/1",
    Operation.SEND_RECV,
    Algorithm.DIRECT,
    ("h1", "10.0.0.2"),
    2**63,
    queue_pairs=2,
    ports=(QueuePairPorts(0, 1, (50_001, 50_002)),),
)
TWICE = ((0, 1, 2), (2, 1, 0))
RING = Collective(
    "ring", Operation.ALL_REDUCE, Algorithm.RING, ("a", "b", "c"), 7, rings=TWICE, phase=Phase("train", 2)
)
FACTS = Facts(
    jobs={
        "job/1": RememberedJob(COLLECTIVE, (("h1", "10.0.0.1"), ("h2", "10.0.0.2"))),
        "ring": RememberedJob(RING, (("a", "1.1.1.1"), ("b", "1.1.1.2"), ("c", "fd00::3"))),
    },
    paths={
        ("10.0.0.1", "10.0.0.2", 50_001): (PortRef(LARGEST, 1), PortRef(3, 0xFFFFFF00)),
        ("10.0.0.1", "10.0.0.2", 0): (PortRef(1, 2),),
    },
    hosts={"10.0.0.1": PortRef(LARGEST, 7)},
    switches=frozenset({1, LARGEST}),
    cables=frozenset({(PortRef(1, 2), PortRef(LARGEST, 1)), (PortRef(1, 3), PortRef(3, 0xFFFFFF00))}),
    drains={
        LARGEST: Avoidance("new firmware"),
        (PortRef(1, 2), PortRef(LARGEST, 1)): Avoidance("", forced=True),
        1: Avoidance(),
    },
)


def written(path: Path, facts: Facts = FACTS) -> None:
    store = SqliteStore(str(path))
    assert store.write(Remember(1, facts, FactKeys())) == Remembered(1)
    store.close()


def loaded(path: Path) -> Facts:
    store = SqliteStore(str(path))
    facts = store.load()
    store.close()
    return facts


def test_everything_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "heddle.db"
    written(path)
    assert loaded(path) == FACTS


def test_the_model_and_the_file_agree_on_every_change(tmp_path: Path) -> None:
    store, model = SqliteStore(str(tmp_path / "h.db")), ModelJournal()
    gone = FactKeys(
        ("ring",),
        (("10.0.0.1", "10.0.0.2", 0),),
        ("10.0.0.1",),
        (LARGEST,),
        ((PortRef(1, 2), PortRef(LARGEST, 1)),),
        (LARGEST, (PortRef(1, 2), PortRef(LARGEST, 1))),
    )
    other = Facts(jobs={"ring": RememberedJob(RING, (("x", "1"), ("y", "2"), ("z", "3")))}, hosts={"h": PortRef(9, 9)})
    for change in (
        Remember(1, FACTS, FactKeys()),
        Remember(2, other, FactKeys()),
        Remember(3, Facts(), gone),
        Remember(4, Facts(), gone),
    ):
        assert store.write(change) == model.write(change) == Remembered(change.change_id)
        assert store.load() == model.facts()
    store.close()


@pytest.mark.parametrize(("version", "unknown"), [(1, ("cables", "drains")), (2, ("drains",))])
def test_a_file_of_an_earlier_release_opens_with_all_its_jobs(
    tmp_path: Path, version: int, unknown: tuple[str, ...]
) -> None:
    path = tmp_path / "h.db"
    written(path)
    with sqlite3.connect(path) as file:
        file.executescript(f"{' '.join(f'DROP TABLE {table};' for table in unknown)} PRAGMA user_version = {version};")
    file.close()
    nothing = Facts()
    assert loaded(path) == replace(FACTS, **{table: getattr(nothing, table) for table in unknown})
    written(path)
    assert loaded(path) == FACTS


def test_a_killed_process_loses_nothing_that_it_was_told_is_written(tmp_path: Path) -> None:
    """SIGKILL right after the acknowledgement; the file is left with its write-ahead log and opens again at once."""
    program = (
        "import os, signal, sys; sys.path[:0] = [sys.argv[2], sys.argv[2] + '/tests/unit']\n"
        "from test_runtime_store import *\n"
        "store = SqliteStore(sys.argv[1]); store.write(Remember(1, FACTS, FactKeys()))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = tmp_path / "h.db"
    done = subprocess.run([sys.executable, "-c", program, str(path), str(ROOT)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert loaded(path) == FACTS


def test_a_change_that_fails_half_way_leaves_nothing(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "h.db"))
    store.write(Remember(1, FACTS, FactKeys()))
    # As a disk that fills up in the middle of a change.
    store._file.execute("CREATE TRIGGER full BEFORE INSERT ON hosts BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
    change = Remember(2, Facts(hosts={"new": PortRef(1, 1)}), FactKeys(jobs=("ring",)))
    answer = store.write(change)
    assert "disk is full" in answer.problem
    assert store.name in answer.problem
    assert store.load() == FACTS
    store._file.execute("DROP TRIGGER full")
    assert store.write(change) == Remembered(2)
    assert "ring" not in store.load().jobs
    store.close()


def test_jobs_are_synced_and_paths_are_not(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "h.db"))

    def level(change: Remember) -> int:
        store.write(change)
        return int(store._file.execute("PRAGMA synchronous").fetchone()[0])

    full, normal = 2, 1
    assert level(Remember(1, Facts(jobs=FACTS.jobs), FactKeys())) == full
    assert level(Remember(2, Facts(paths=FACTS.paths), FactKeys())) == normal
    assert level(Remember(3, Facts(), FactKeys(jobs=("ring",)))) == full
    store.close()


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    written(tmp_path / "h.db")
    assert (tmp_path / "h.db").stat().st_mode & 0o077 == 0


# --- files that cannot be used ----------------------------------------------------------------------------


def refused(path: Path, *words: str) -> None:
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError) as error:
        SqliteStore(str(path)).load()
    said = str(error.value)
    assert "\n" not in said
    for word in ("HEDDLE_STATE", str(path), *words):
        assert word in said
    if path.is_file():
        assert path.read_bytes() == before


def test_a_second_controller_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.runtime.sqlite_store._LOCK_WAIT_S", 0.05)
    first = SqliteStore(str(tmp_path / "h.db"))
    with pytest.raises(StoreError, match="in use by another controller"):
        SqliteStore(str(tmp_path / "h.db"))
    first.close()
    loaded(tmp_path / "h.db")


def test_text_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "h.db").write_text("name: leafspine\n" * 100)
    refused(tmp_path / "h.db", "choose another file")


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "h.db")
    other.execute("CREATE TABLE places (url TEXT)")
    other.commit()
    other.close()
    refused(tmp_path / "h.db", "another program", "choose another file")


def test_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    written(tmp_path / "h.db")
    newer = sqlite3.connect(tmp_path / "h.db")
    newer.execute(f"PRAGMA user_version = {VERSION + 1}")
    newer.close()
    refused(tmp_path / "h.db", "newer Heddle", f"schema {VERSION + 1}")


def test_a_torn_file_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    many = {f"10.1.{i >> 8}.{i & 255}": PortRef(i, i) for i in range(4000)}
    written(path, Facts(hosts=many))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused(path, "damaged", f"mv {path}")
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    refused(path, "damaged", f"mv {path}")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE jobs SET record = '{}'",
        "UPDATE jobs SET record = 'x'",
        "UPDATE paths SET path = 'leaf1'",
        "UPDATE hosts SET port = '1'",
        "UPDATE switches SET dpid = 'spine'",
        "DROP TABLE jobs",
    ],
)
def test_records_that_make_no_sense_are_damage(tmp_path: Path, sql: str) -> None:
    written(tmp_path / "h.db", Facts(FACTS.jobs, FACTS.paths, FACTS.hosts, frozenset({1})))
    edited = sqlite3.connect(tmp_path / "h.db")
    edited.execute(sql)
    edited.commit()
    edited.close()
    with pytest.raises(StoreError, match="HEDDLE_STATE"):
        loaded(tmp_path / "h.db")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(tmp_path / "file" / "h.db", "none to forget")
    refused(tmp_path, "none to forget")


def test_none_keeps_nothing_and_holds_up_nobody() -> None:
    store = open_store(None)
    assert isinstance(store, NoStore)
    assert store.write(Remember(3, FACTS, FactKeys())) == Remembered(3)
    assert store.load() == Facts()


def test_the_controller_ends_with_status_2_and_the_cure(tmp_path: Path) -> None:
    (tmp_path / "h.db").write_text("name: leafspine\n" * 100)
    environment = {
        **os.environ,
        "HEDDLE_STATE": str(tmp_path / "h.db"),
        "HEDDLE_SOUTHBOUND": f"unix:{tmp_path}/c.sock",
        "HEDDLE_GRPC": f"unix:{tmp_path}/g.sock",
        "HEDDLE_OVSDB": f"unix:{tmp_path}/no.sock",
    }
    done = subprocess.run(
        [sys.executable, "-m", "controller.runtime"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("heddle: HEDDLE_STATE: ")
    assert "Traceback" not in done.stderr
