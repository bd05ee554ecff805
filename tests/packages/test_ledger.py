"""A connector of another package: found by its entry point, and exact through kills, restarts and rescaling."""

from __future__ import annotations

import importlib
import pickle
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from stateplan.common.types import parse_type
from stateplan.connectors.protocol import SourceTable
from stateplan.runtime.spark.split_source import SplitReader
from tests.support.packages import install

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OWNERS = ("ann", "bob", "cid")


class Books:
    """A database with entries of accounts, and what the jobs over it have written."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "books.db"
        self.entries = 0
        with self.open() as database:
            database.execute("CREATE TABLE entries (id, account, amount)")
            database.execute("CREATE TABLE accounts (account, owner)")
            accounts = [(f"a{i}", OWNERS[i % len(OWNERS)]) for i in range(7)]
            database.executemany("INSERT INTO accounts VALUES (?, ?)", accounts)

    def open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=60)

    def enter(self, count: int) -> None:
        rows = [(i, f"a{i % 7}", i * i % 101) for i in range(self.entries, self.entries + count)]
        self.entries += count
        with self.open() as database:
            database.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)

    def check(self) -> None:
        """Every entry has been copied once, and the totals are those of all entries."""
        with self.open() as database:
            copies = database.execute("SELECT kind, id FROM copies ORDER BY id").fetchall()
            changes = database.execute("SELECT * FROM totals ORDER BY rowid").fetchall()
            expected = database.execute(
                "SELECT owner, COUNT(*), SUM(amount) FROM entries JOIN accounts USING (account) GROUP BY owner"
            ).fetchall()
        assert copies == [("+I", i) for i in range(self.entries)]
        left: Counter[tuple[object, ...]] = Counter()
        for kind, *row in changes:
            left[tuple(row)] += 1 if kind[0] == "+" else -1
            assert left[tuple(row)] >= 0, f"{kind}{row} takes back what is not there"
        assert sorted((+left).elements()) == sorted(expected)


def run(books: Books, env: dict[str, str], mode: str, parallelism: int, kill: str = "") -> int:
    """Runs a job until it has copied all entries, or is killed; its exit code."""
    checkpoint = str(books.path.parent / mode)
    given = [str(books.path), checkpoint, mode, str(parallelism), str(books.entries), *([kill] if kill else [])]
    command = [sys.executable, str(HERE / "ledger_job.py"), *given]
    done = subprocess.run(command, env=env, cwd=books.path.parent, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 9), done.stderr
    return done.returncode


@pytest.mark.long
@pytest.mark.spark
def test_a_stream_is_exact_through_kills_and_another_parallelism(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    env, books = install(tmp_path / "site", "stateplan_ledger"), Books(tmp_path)
    books.enter(200)
    assert run(books, env, "stream", 2, "before") == 9
    books.enter(100)
    assert run(books, env, "stream", 3, "after") == 9
    books.enter(60)
    assert run(books, env, "stream", 2) == 0
    books.check()


@pytest.mark.long
@pytest.mark.spark
def test_a_snapshot_ends_and_goes_on_with_what_has_come(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    env, books = install(tmp_path / "site", "stateplan_ledger"), Books(tmp_path)
    for count, parallelism in ((150, 2), (90, 4)):
        books.enter(count)
        assert run(books, env, "snapshot", parallelism) == 0
        books.check()


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(HERE / "stateplan_ledger"))
    return importlib.import_module("stateplan_ledger")


def table(books: Books, ledger: Any, name: str, columns: str, **options: str) -> SourceTable:
    given = {"connector": "ledger", "path": str(books.path), "table": name, **options}
    fields = tuple((f.name, f.type) for f in parse_type(f"ROW<{columns}>").fields)
    return SourceTable(name, ledger.Ledger(), given, fields, projection=tuple(range(len(fields))))


def test_a_micro_batch_that_is_planned_again_is_the_same(tmp_path: Path, ledger: Any) -> None:
    books = Books(tmp_path)
    books.enter(250)
    source = ledger.Ledger().source(table(books, ledger, "entries", "id BIGINT", **{"scan.max-rows": "230"}))
    reader = pickle.loads(pickle.dumps(SplitReader(source, 2)))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert (start, end) == ({"row": 0}, {"row": 230})
    tasks = reader.partitions(start, end)
    books.enter(100)
    assert [t.value for t in reader.partitions(start, end)] == [t.value for t in tasks]
    assert [len(t.value) for t in tasks] == [1, 2]
    read = [batch for task in tasks for batch in reader.read(task)]
    splits = [s for b in read for s in source.splits(b.append_column("now", pa.repeat(0, b.num_rows)))]
    assert [s.seq for s in splits] == ["0000000000", "0000000001", "0000000002"]
    assert [i for s in splits for frame in source.read(s.split) for i in frame["c0"]] == list(range(230))
    assert reader.partitions(end, end) == []


def test_only_the_keys_that_are_asked_for_are_looked_up(tmp_path: Path, ledger: Any) -> None:
    books = Books(tmp_path)
    found = ledger.Ledger().lookup(table(books, ledger, "accounts", "account STRING, owner STRING"))
    assert found.rows(0, pl.DataFrame({"c0": ["a1", "a9", None]})).rows() == [("a1", "bob")]
    assert found.rows(0, None).height == 7


def test_an_epoch_is_committed_once(tmp_path: Path, ledger: Any) -> None:
    books = Books(tmp_path)
    sink = ledger.LedgerSink(str(books.path), "out", ("a",), "uid")
    frame = pl.DataFrame({"c0": [1, 2]})
    for _ in range(2):  # the second time as after a kill behind the commit
        sink.prepare(0)
        sink.commit([sink.write(frame, 0, "p")], 0)
    sink.prepare(1)
    sink.write(frame, 1, "left behind")
    sink.prepare(1)
    sink.commit([sink.write(frame, 1, "p")], 1)
    with books.open() as database:
        assert database.execute("SELECT * FROM out").fetchall() == [("+I", 1), ("+I", 2)] * 2
        assert database.execute("SELECT * FROM staged").fetchall() == []
