"""The copy of a table of PostgreSQL in a checkpoint: what it serves, its ranges, connections that break."""

from __future__ import annotations

import pickle
import threading
import time
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import StateplanError
from stateplan.common.types import BOOLEAN, INT
from stateplan.connectors import retries
from stateplan.connectors.jdbc.scan import JdbcSource, Ranges
from stateplan.connectors.retries import interruptible
from stateplan.functions.rex import Call, InputRef, Literal
from tests.connectors.jdbc_tables import lookup, read, source
from tests.support.postgres import Database, fresh_lookups, refused


def splits_of(found: JdbcSource) -> list[dict[str, Any]]:
    """All splits of a source with a checkpoint, as a restarted process plans them."""
    found = pickle.loads(pickle.dumps(found))
    start, out = found.initial_offset(), []
    while (end := found.latest_offset(start)) != start:
        out += found.plan(start, end)
        start = end
    return out


POSITIVE = Call(BOOLEAN, (InputRef(INT, 0), Literal(INT, 0)), internal_name="$>$1", syntax="BINARY")


def rows_of(found: JdbcSource, splits: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [row for split in splits for frame in found.read(split) for row in frame.rows()]


def test_a_micro_batch_that_runs_again_reads_the_same_rows(database: Database, tmp_path: Path) -> None:
    database.execute("CREATE TABLE t AS SELECT i AS id, i::text AS name FROM generate_series(1, 1000) AS i")
    found = source(database, "t", "name STRING, id INT", projection=(1,))
    found.folder = tmp_path / "source"
    splits = splits_of(found)
    before = rows_of(found, splits)
    database.execute("DELETE FROM t WHERE id % 2 = 0", "INSERT INTO t VALUES (2000, 'new')")
    assert splits_of(found) == splits
    assert rows_of(found, splits) == before == [(i,) for i in range(1, 1001)]
    found.committed({"files": len(splits)})
    assert not list((tmp_path / "source").rglob("*.arrow"))
    again = pickle.loads(pickle.dumps(found))
    assert again.latest_offset({"files": len(splits)}) == {"files": len(splits)}
    with pytest.raises(StateplanError, match="RUN149"):
        rows_of(found, splits)


@pytest.mark.parametrize(
    ("columns", "more", "same"),
    [
        ("id INT, other INT, n DECIMAL(10, 2)", {"projection": (0, 2)}, True),
        ("id INT, other INT, n DECIMAL(10, 2)", {"projection": (1, 2)}, False),
        ("id INT, other INT, n DECIMAL(10, 4)", {"projection": (0, 2)}, False),
        ("id INT, other INT, n DECIMAL(10, 2)", {"projection": (0, 2), "limit": 2}, False),
        ("id INT, other INT, n DECIMAL(10, 2)", {"projection": (0, 2), "filters": (POSITIVE,)}, False),
    ],
)
def test_a_copy_serves_the_query_that_it_was_made_for(
    database: Database, tmp_path: Path, columns: str, more: dict[str, Any], same: bool
) -> None:
    database.execute("CREATE TABLE t AS SELECT i AS id, -i AS other, 1.2345 AS n FROM generate_series(1, 3) AS i")
    first = source(database, "t", "id INT, other INT, n DECIMAL(10, 2)", projection=(0, 2))
    first.folder = tmp_path
    splits = splits_of(first)
    again = source(database, "t", columns, **more)
    again.folder = tmp_path
    if same:
        assert rows_of(again, splits_of(again)) == [(i, Decimal("1.23")) for i in (1, 2, 3)]
        return
    end = {"files": len(splits)}
    for call in (again.latest_offset, lambda start: again.plan(start, end)):
        error = refused("RUN149", partial(call, again.initial_offset()))
        assert error.hint is not None and "new checkpoint" in error.hint
    assert again.latest_offset(end) == end  # all of it has been read


def test_a_copy_that_was_not_finished_is_made_anew(database: Database, tmp_path: Path) -> None:
    database.execute("CREATE TABLE t AS SELECT i AS id FROM generate_series(1, 10) AS i")
    found = source(database, "t", "id INT")
    found.folder = tmp_path / "source"
    (tmp_path / "source" / "rows-old").mkdir(parents=True)
    (tmp_path / "source" / "rows-old" / "000000.arrow").write_bytes(b"half")
    assert sorted(rows_of(found, splits_of(found))) == [(i,) for i in range(1, 11)]
    assert not (tmp_path / "source" / "rows-old").exists()


RANGES = {
    "scan.partition.column": "id",
    "scan.partition.num": "3",
    "scan.partition.lower-bound": "1",
    "scan.partition.upper-bound": "100",
}


def test_a_snapshot_is_kept_while_others_read_it(database: Database, tmp_path: Path) -> None:
    """The connection that made it has nothing to do meanwhile."""
    database.execute(
        "CREATE TABLE t AS SELECT i AS id FROM generate_series(1, 12) AS i",
        "CREATE FUNCTION slow(n int) RETURNS int LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(0.6); RETURN n; END$$",
        "CREATE VIEW v AS SELECT slow(id) AS n, id FROM t",
        f"ALTER DATABASE {database.name} SET idle_in_transaction_session_timeout = '300ms'",
    )
    ranges = {"column": "id", "num": "12", "lower-bound": "1", "upper-bound": "12"}
    found = source(database, "v", "n INT, id INT", {f"scan.partition.{key}": text for key, text in ranges.items()})
    found.folder = tmp_path
    assert sorted(rows_of(found, splits_of(found))) == [(i, i) for i in range(1, 13)]


def test_ranges_are_read_in_one_snapshot(database: Database, tmp_path: Path) -> None:
    database.execute("CREATE TABLE t AS SELECT i AS id, 0 AS batch FROM generate_series(1, 100) AS i")
    stop = threading.Event()

    def move() -> None:  # every row of the table is always of one batch
        with database.connect() as connection, connection.cursor() as cursor:
            while not stop.is_set():
                cursor.execute("UPDATE t SET batch = batch + 1")
                connection.commit()

    mover = threading.Thread(target=move)
    mover.start()
    try:
        for number in range(3):
            found = source(database, "t", "id INT, batch INT", RANGES)
            found.folder = tmp_path / str(number)
            got = rows_of(found, splits_of(found))
            assert sorted(row[0] for row in got) == list(range(1, 101))
            assert len({row[1] for row in got}) == 1
    finally:
        stop.set()
        mover.join()


def test_a_connection_that_breaks_in_the_copy_is_made_again(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute("CREATE TABLE t AS SELECT i AS id FROM generate_series(1, 10) AS i")
    found = source(database, "t", "id INT")
    found.folder = tmp_path / "source"
    whole, broken = JdbcSource._files, []

    def breaking(self: JdbcSource, connection: Any, *rest: Any) -> Any:
        if not broken:
            broken.append(database.terminate("pid <> pg_backend_pid()"))
        return whole(self, connection, *rest)

    monkeypatch.setattr(JdbcSource, "_files", breaking)
    waits: list[float] = []
    monkeypatch.setattr(retries, "pause", waits.append)
    assert sorted(rows_of(found, splits_of(found))) == [(i,) for i in range(1, 11)]
    assert (broken, waits) == ([1], [1000])


ENDS = "CREATE VIEW v AS SELECT i AS id, pg_terminate_backend(pg_backend_pid()) AS b FROM generate_series(1, 9) AS i"
"""A view that no connection outlives."""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("RUN148", "could not extend file: No space left on device"),
        ("RUN147", "permission denied for table other"),
        ("RUN146", "canceling statement due to conflict with recovery"),
    ],
)
def test_an_error_that_comes_after_rows_has_its_code(database: Database, code: str, said: str) -> None:
    database.execute(
        "CREATE FUNCTION failing(n int) RETURNS int LANGUAGE plpgsql AS "
        f"$$BEGIN IF n > 50000 THEN RAISE EXCEPTION '{said}'; END IF; RETURN n; END$$",
        "CREATE VIEW v AS SELECT failing(i) AS id FROM generate_series(1, 60000) AS i",
    )
    error = refused(code, lambda: read(source(database, "v", "id INT")))
    assert error.message.endswith(said)
    assert "libpq" not in error.message


def test_a_copy_that_never_succeeds_is_given_up(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(ENDS)
    waits: list[float] = []
    monkeypatch.setattr(retries, "pause", waits.append)
    for name, more, code in (("lost", {}, "RUN146"), ("gone", {"url": "jdbc:postgresql://127.0.0.1:1/db"}, "RUN140")):
        found = source(database, "v", "id INT, b BOOLEAN", more)
        found.folder = tmp_path / name
        refused(code, lambda found=found: splits_of(found))
        assert waits == [1000, 2000, 3000]
        waits.clear()


def test_a_job_that_is_stopped_does_not_wait_for_the_next_copy(database: Database, tmp_path: Path) -> None:
    database.execute(ENDS)
    found = source(database, "v", "id INT, b BOOLEAN")
    found.folder = tmp_path / "source"
    began = time.monotonic()

    def stop() -> None:
        if time.monotonic() > began + 0.3:
            raise RuntimeError("stopped")

    with interruptible(stop), pytest.raises(RuntimeError, match="stopped"):
        splits_of(found)
    assert time.monotonic() < began + 1


def test_a_connection_that_breaks_while_rows_come(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(
        "CREATE TABLE breaks AS SELECT TRUE AS now",
        "CREATE VIEW v AS SELECT i AS id, CASE WHEN i = 150000 AND (SELECT now FROM breaks) "
        "THEN pg_terminate_backend(pg_backend_pid())::text ELSE repeat('x', 100) END AS s "
        "FROM generate_series(1, 150000) AS i",
    )

    def again(breaks: bool) -> None:
        database.execute(f"UPDATE breaks SET now = {breaks}")

    monkeypatch.setattr(retries, "pause", lambda ms: again(False))
    copied, there = source(database, "v", "id INT, s STRING"), source(database, "v", "id INT, s STRING")
    copied.folder = tmp_path / "source"
    assert sorted(row[0] for row in rows_of(copied, splits_of(copied))) == [*range(1, 150_001)]
    again(True)
    with fresh_lookups():
        assert lookup(database, "v", "id INT, s STRING").rows(0, None).height == 150_000
    monkeypatch.undo()
    again(True)
    refused("RUN146", lambda: read(there))
    again(False)
    assert len(read(there)) == 150_000


def test_ranges_leave_no_gap_and_nothing_twice(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id numeric)",
        "INSERT INTO t VALUES (0.5), (1), (33.5), (34), (34.2), (67.5), (99.9), (100), (100.5), (NULL)",
    )
    assert sorted(read(source(database, "t", "id DECIMAL(5, 1)", RANGES))) == [
        (Decimal(text),) for text in ("1", "33.5", "34", "34.2", "67.5", "99.9", "100")
    ]
    texts = {**RANGES, "scan.partition.column": "relname"}
    refused("RUN145", lambda: source(database, "pg_class", "relname STRING", texts).check("t"))


@given(st.integers(-1000, 1000), st.integers(0, 300), st.integers(1, 40))
def test_ranges_cut_all_numbers_once(lower: int, more: int, count: int) -> None:
    conditions = Ranges("x", count, lower, lower + more).conditions("x")
    assert len(conditions) == min(count, more + 1)
    for x in (lower, lower + more, lower + more // 2, lower + more / 3):
        assert sum(eval(c.replace("AND", "and"), {"x": x}) for c in conditions) == 1
    for x in (lower - 1, lower + more + 1):
        assert not any(eval(c.replace("AND", "and"), {"x": x}) for c in conditions)
