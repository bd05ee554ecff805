"""``postgres-cdc`` with a PostgreSQL server: what comes out of a source, added up, is what the tables hold."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stateplan.common.changelog import INSERT_ONLY, RETRACT, UPSERT
from stateplan.common.errors import OptionError
from stateplan.connectors import registry, retries
from stateplan.connectors.pace import Pace
from stateplan.connectors.protocol import Offset
from stateplan.connectors.retries import interruptible
from tests.connectors.postgres_changes import ITEMS, Job, first_offset, job, options, source_of
from tests.support.postgres import Database, refused, running
from tests.support.waiting import until

# ---- rows and changes ------------------------------------------------------------------------------------------


def test_rows_and_then_their_changes(items: Database, tmp_path: Path) -> None:
    with job(options(items), tmp_path) as mine:
        assert [kind for kind, *_ in mine.step()] == ["+I"] * 5
        assert mine.step() == []
        items.execute("UPDATE items SET note = 'x' WHERE id = 1", "DELETE FROM items WHERE id = 2")
        items.execute("UPDATE items SET id = 9 WHERE id = 3", "INSERT INTO items VALUES (7, NULL)")
        assert mine.until_quiet() == [
            ("-U", 1, "n1"),
            ("+U", 1, "x"),
            ("-D", 2, "n2"),
            ("-D", 3, "n3"),
            ("+I", 9, "n3"),
            ("+I", 7, None),
        ]
        assert mine.rows() == sorted(items.rows("SELECT * FROM items"), key=repr)
        assert list(tmp_path.iterdir()) == []


def test_changes_that_do_not_count_hold_up_nothing(items: Database, tmp_path: Path) -> None:
    items.execute("CREATE TABLE others (id INT PRIMARY KEY)", "CREATE PUBLICATION p FOR ALL TABLES")
    given = options(items, **{"debezium.publication.name": "p", "scan.max-changes": "3"})
    with job(given, tmp_path) as mine:
        mine.until_quiet()
        for number in range(9):
            items.execute(f"INSERT INTO others VALUES ({number})")
        items.execute("INSERT INTO items VALUES (7, 'x')")
        assert mine.until_quiet() == [("+I", 7, "x")]


def _writer(database: Database, seed: int, stop: threading.Event, pause: float) -> None:
    """Many transactions, some long, some rolled back, some with subtransactions."""
    chance = random.Random(seed)
    with database.connect() as connection, connection.cursor() as cursor:
        while not stop.is_set():
            for _ in range(chance.randint(1, 6)):
                at = seed * 1000 + chance.randint(0, 60)
                cursor.execute("SAVEPOINT s") if chance.random() < 0.2 else None
                what = chance.random()
                if what < 0.4:
                    cursor.execute(f"INSERT INTO items VALUES ({at}, 'i') ON CONFLICT (id) DO UPDATE SET note = 'u'")
                elif what < 0.7:
                    cursor.execute(f"UPDATE items SET note = note || '{chance.randint(0, 9)}' WHERE id = {at}")
                elif what < 0.8:
                    cursor.execute(f"DELETE FROM items WHERE id BETWEEN {at} AND {at + 3} AND id < {seed + 1} * 1000")
                else:
                    fresh = seed * 1000 + 100 + chance.randint(0, 800)
                    moved = f"NOT EXISTS (SELECT 1 FROM items WHERE id = {fresh})"
                    cursor.execute(f"UPDATE items SET id = {fresh} WHERE id = {at} AND {moved}")
                if pause:
                    time.sleep(chance.random() * pause)
            connection.rollback() if chance.random() < 0.1 else connection.commit()


@pytest.mark.parametrize("mode", ["all", "upsert"])
def test_no_change_is_lost_or_doubled_while_rows_are_copied(items: Database, tmp_path: Path, mode: str) -> None:
    items.execute("INSERT INTO items SELECT g, repeat('x', 50) FROM generate_series(100000, 160000) AS g")
    stop = threading.Event()
    writers = [
        threading.Thread(target=_writer, args=(items, seed, stop, pause))
        for seed, pause in ((1, 0.0), (2, 0.001), (3, 0.05), (4, 0.2))
    ]
    for writer in writers:
        writer.start()
    try:
        given = options(items, **{"scan.max-changes": "700", "changelog-mode": mode})
        with job(given, tmp_path) as mine:
            time.sleep(0.2)
            mine.step()
            time.sleep(0.5)
            for _ in range(3):
                mine.step()
            stop.set()
            for writer in writers:
                writer.join()
            mine.until_quiet()
            expected = sorted(items.rows("SELECT * FROM items"), key=repr)
            assert mine.rows() == expected if mode == "all" else mine.by_key() == expected
            assert len(mine.changes) > 60_005
    finally:
        stop.set()


def test_a_transaction_that_is_open_while_rows_are_copied_comes_after_them(items: Database, tmp_path: Path) -> None:
    given = options(items, **{"debezium.publication.autocreate.mode": "disabled", "debezium.publication.name": "p"})
    items.execute("CREATE PUBLICATION p FOR ALL TABLES")
    items.rows(f"SELECT pg_create_logical_replication_slot('{items.name}_slot', 'pgoutput')::text")
    with items.connect() as connection, connection.cursor() as cursor, job(given, tmp_path) as mine:
        cursor.execute("INSERT INTO items VALUES (10, 'open')")
        items.execute("INSERT INTO items VALUES (11, 'closed')")
        assert [r[1] for r in mine.until_quiet()] == [1, 2, 3, 4, 5, 11]
        cursor.execute("UPDATE items SET note = 'still open' WHERE id = 1")
        connection.commit()
        assert mine.until_quiet() == [("+I", 10, "open"), ("-U", 1, "n1"), ("+U", 1, "still open")]


def test_a_micro_batch_that_runs_again_reads_the_same(items: Database, tmp_path: Path) -> None:
    with job(options(items), tmp_path) as mine:
        start = mine.source.initial_offset()
        end = mine.source.latest_offset(start)
        items.execute("DELETE FROM items")
        assert len(mine.read(start, end)) == len(mine.read(start, end)) == 5
        mine.source.close()
        again = mine.source.latest_offset(end)
        assert [kind for kind, *_ in mine.read(end, again)] == ["-D"] * 5
        mine.source.committed(end)
        items.execute("INSERT INTO items VALUES (1, 'new')")
        assert [kind for kind, *_ in mine.read(end, again)] == ["-D"] * 5
        mine.source.committed(again)
        last = mine.source.latest_offset(again)
        assert mine.read(again, last) == [("+I", 1, "new")]
        error = refused("RUN165", lambda: mine.read(end, again))
        assert str(tmp_path) in str(error)


def test_a_copy_that_was_killed_begins_anew(items: Database, tmp_path: Path) -> None:
    with job(options(items), tmp_path) as killed:
        killed.source.latest_offset({})
    items.execute("DELETE FROM items WHERE id > 3")
    with job(options(items), tmp_path) as mine:
        assert len(mine.until_quiet()) == 3
        assert list(tmp_path.iterdir()) == []


def test_a_job_that_is_killed_anywhere_is_exact(items: Database, tmp_path: Path) -> None:
    """As Spark does it: an offset is recorded before its rows are read, and its micro-batch runs until it is done."""
    chance, done, pending = random.Random(7), Offset(), None
    changes: list[tuple[object, ...]] = []
    given = options(items, **{"scan.max-changes": "40"})
    for _ in range(16):
        at = chance.randint(0, 80)
        items.execute(
            f"INSERT INTO items SELECT g, 'i' FROM generate_series({at}, {at + 9}) AS g ON CONFLICT DO NOTHING",
            f"UPDATE items SET note = note || '{at % 10}' WHERE id BETWEEN {at} AND {at + 5}",
            f"DELETE FROM items WHERE id % 9 = {at % 9}",
        )
        with job(given, tmp_path) as mine:
            while chance.random() < 0.8:
                end = pending or mine.source.latest_offset(done)
                if end == done or chance.random() < 0.2:
                    break  # killed before the offset is recorded
                pending = end
                found = mine.read(done, end)
                if chance.random() < 0.2:
                    break  # killed before the micro-batch is done
                changes += found
                done, pending = end, None
                if chance.random() < 0.8:
                    mine.source.committed(end)
    with job(given, tmp_path) as mine:
        mine.changes = changes + (mine.read(done, pending) if pending else [])
        mine.offset = pending or done
        mine.until_quiet()
        assert mine.rows() == sorted(items.rows("SELECT * FROM items"), key=repr)
        assert len(mine.changes) > 150


def test_lost_connections_are_made_again(items: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(retries, "pause", waits.append)
    with job(options(items), tmp_path) as mine:
        mine.until_quiet()
        for i in range(3):
            items.execute(f"INSERT INTO items VALUES (10 + {i}, 'x')")
            assert items.terminate("application_name = 'stateplan'") == 1
            assert mine.until_quiet() == [("+I", 10 + i, "x")]
    assert waits == [1000, 1000, 1000]


def test_a_server_that_is_started_again_ends_no_job(tmp_path: Path) -> None:
    with running() as server:
        database = server.database()
        database.execute("CREATE TABLE items (id int PRIMARY KEY, note text)")
        with job(options(database), tmp_path) as mine, ThreadPoolExecutor() as threads:
            mine.until_quiet()
            database.execute("INSERT INTO items VALUES (1, 'x')")
            server.stop()
            found, checked = threads.submit(mine.step), threads.submit(mine.source.check, "items")
            time.sleep(2)
            server.start()
            assert found.result() == [("+I", 1, "x")]
            checked.result()


def test_a_job_that_is_stopped_does_not_wait_for_its_server(items: Database, tmp_path: Path) -> None:
    def stop() -> None:
        if time.monotonic() > began + 0.3:
            raise InterruptedError

    with job({**options(items), "port": "1", "connect.max-retries": "1000"}, tmp_path) as mine:
        for call in (mine.step, lambda: mine.source.check("items")):
            began = time.monotonic()
            with interruptible(stop), pytest.raises(InterruptedError):
                call()
            assert time.monotonic() < began + 3
        mine.source.committed({"lsn": 1})  # may be done later


def test_micro_batches_are_bounded_and_transactions_whole(items: Database, tmp_path: Path) -> None:
    with job(options(items, **{"scan.max-changes": "11"}), tmp_path) as mine:
        mine.until_quiet()
        for i in range(6):
            items.execute(f"INSERT INTO items SELECT g, 'x' FROM generate_series({i}0 + 10, {i}0 + 16) AS g")
        sizes = [len(mine.step()) for _ in range(4)]
        assert sizes[-1] == 0 and sum(sizes) == 42 and max(sizes) <= 21
        items.execute("INSERT INTO items SELECT g, 'x' FROM generate_series(1000, 71000) AS g")
        end = mine.source.latest_offset(mine.offset)
        assert len(mine.source.plan(mine.offset, end)) >= 2
        assert len(mine.until_quiet()) == 70_001
        assert mine.rows() == sorted(items.rows("SELECT * FROM items"), key=repr)


def test_micro_batches_follow_the_pace_of_the_job(items: Database, tmp_path: Path) -> None:
    with job(options(items), tmp_path) as mine:
        mine.until_quiet()
        mine.source.pace = Pace(tmp_path / "rows")
        mine.source.pace.decide(11)
        for i in range(6):
            items.execute(f"INSERT INTO items SELECT g, 'x' FROM generate_series({i}0 + 10, {i}0 + 16) AS g")
        sizes = [len(mine.step()) for _ in range(4)]
        assert sizes[-1] == 0 and sum(sizes) == 42 and max(sizes) <= 21


# ---- values ----------------------------------------------------------------------------------------------------

_EVERYTHING = {
    "b": ("boolean", "BOOLEAN", "true"),
    "i2": ("smallint", "SMALLINT", "-32768"),
    "i4": ("integer", "INT", "2147483647"),
    "i8": ("bigint", "BIGINT", "-9223372036854775808"),
    "f4": ("real", "FLOAT", "0.1"),
    "f8": ("double precision", "DOUBLE", "'-Infinity'"),
    "n": ("numeric(20, 5)", "DECIMAL(20, 5)", "123456789012345.67891"),
    "short": ("numeric", "DECIMAL(10, 2)", "1.005"),
    "c": ("char(5)", "CHAR(5)", "'ab'"),
    "v": ("varchar(10)", "VARCHAR(10)", "'ünï'"),
    "t": ("text", "STRING", "E'a\\nb\\\\'"),
    "y": ("bytea", "BYTES", "'\\x00ff'"),
    "d": ("date", "DATE", "'1969-07-20'"),
    "tm": ("time", "TIME(3)", "'23:59:59.123456'"),
    "ts": ("timestamp", "TIMESTAMP(6)", "'1900-01-01 00:00:00.000001'"),
    "tz": ("timestamptz", "TIMESTAMP_LTZ(6)", "'2024-03-31 02:30:00+05:30'"),
    "u": ("uuid", "STRING", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
    "j": ("jsonb", "STRING", "'{\"a\": [1]}'"),
    "ip": ("inet", "STRING", "'10.0.0.1'"),
    "iv": ("interval", "STRING", "'1 day 02:00'"),
    "m": ("mood", "STRING", "'happy'"),
    "dom": ("positive", "INT", "5"),
    "ai": ("int[]", "ARRAY<INT>", "'{1,NULL}'"),
    "at": ("text[]", "ARRAY<STRING>", "ARRAY['a,b', NULL, 'NULL', '']"),
    "an": ("numeric(5, 2)[]", "ARRAY<DECIMAL(5, 2)>", "'{1.5}'"),
    "Mixed": ("int", "INT", "1"),
    "lower": ("int", "INT", "1"),
}


def test_rows_that_are_copied_have_the_values_of_changes(database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TYPE mood AS ENUM ('happy')",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        "CREATE TABLE items (id int, " + ", ".join(f'"{n}" {kind}' for n, (kind, _, _) in _EVERYTHING.items()) + ")",
        "ALTER TABLE items REPLICA IDENTITY FULL",
    )
    insert = "INSERT INTO items VALUES (1, " + ", ".join(value for *_, value in _EVERYTHING.values()) + ")"
    database.execute(insert, "INSERT INTO items (id) VALUES (1)")
    columns = ", ".join(
        f"`{n.upper() if n == 'LOWER' else n}` {declared}" for n, (_, declared, _) in _EVERYTHING.items()
    )
    with job(options(database), tmp_path, "id INT, " + columns, key=()) as mine:
        copied = mine.until_quiet()
        database.execute(insert, "INSERT INTO items (id) VALUES (1)")
        assert mine.until_quiet() == copied
        full, empty = dict(zip(_EVERYTHING, copied[0][2:], strict=True)), copied[1][2:]
        assert set(empty) == {None}
        assert (full["c"], full["v"], full["y"], full["ip"]) == ("ab   ", "ünï", b"\x00\xff", "10.0.0.1")
        assert (str(full["n"]), str(full["short"])) == ("123456789012345.67891", "1.01")
        assert full["at"] == ["a,b", None, "NULL", ""]
        assert full["tz"].isoformat() == "2024-03-30T21:00:00+00:00"


def test_numbers_with_more_digits_than_a_decimal_are_rounded(database: Database, tmp_path: Path) -> None:
    database.execute("CREATE TABLE items (id int, n numeric, a numeric[])", "ALTER TABLE items REPLICA IDENTITY FULL")
    whole = "123456789012345678901234567890123456"
    with job(options(database), tmp_path, "id INT, n DECIMAL(38, 2), a ARRAY<DECIMAL(38, 2)>", key=()) as mine:
        mine.until_quiet()
        database.execute(f"INSERT INTO items VALUES (1, {whole}.785, '{{-{whole}.785, 0.{'0' * 40}5}}')")
        ((_, _, number, array),) = mine.until_quiet()
        assert [str(value) for value in (number, *array)] == [f"{whole}.79", f"-{whole}.79", "0.00"]


def test_numbers_that_are_out_of_range(database: Database, tmp_path: Path) -> None:
    """Infinity itself is a number of FLOAT and DOUBLE; one that is too large for them does not become it."""
    kinds = "d double precision, n numeric, a double precision[]"
    database.execute(f"CREATE TABLE items (id int, {kinds})", "ALTER TABLE items REPLICA IDENTITY FULL")
    infinite = (float("inf"), float("-inf"), [float("-inf"), None, 1.5])
    with job(options(database), tmp_path, "id INT, d FLOAT, n DOUBLE, a ARRAY<FLOAT>", key=()) as mine:
        mine.until_quiet()
        database.execute(
            "INSERT INTO items VALUES (1, 'Infinity', '-Infinity', '{-Infinity,NULL,1.5}')",
            "INSERT INTO items VALUES (2)",
        )
        assert mine.until_quiet() == [("+I", 1, *infinite), ("+I", 2, None, None, None)]
        database.execute("INSERT INTO items VALUES (3, 'NaN', 'NaN', '{3e38}')")
        assert [str(value) for value in mine.until_quiet()[0][2:4]] == ["nan", "nan"]
    for value in ("1e300, 0, '{}'", "-1e39, 0, '{}'", "0, 1e400, '{}'", "0, 0, '{1e300}'"):
        database.execute("TRUNCATE items", f"INSERT INTO items VALUES (4, {value})")
        given = options(database, **{"scan.startup.mode": "snapshot"})
        with job(given, tmp_path / value, "id INT, d FLOAT, n DOUBLE, a ARRAY<FLOAT>", key=()) as copy:
            refused("DATA443", copy.until_quiet)


def test_metadata(items: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ("row_kind", "table_name", "schema_name", "database_name", "op_ts")
    monkeypatch.setenv("CDC_DATABASE", items.name)
    given = options(items, **{"database-name": "${env:CDC_DATABASE}"})
    with job(given, tmp_path, ITEMS, ("id",), keys, (0,)) as mine:
        before = time.time()
        copied = mine.until_quiet()[0]
        assert copied[1:6] == (1, "+I", "items", "public", items.name) and copied[6].timestamp() == 0
        items.execute("DELETE FROM items WHERE id = 1")
        ((*found, when),) = mine.until_quiet()
        assert found == ["-D", 1, "-D", "items", "public", items.name]
        assert before - 1 < when.timestamp() < time.time() + 1


def test_changes_as_insertions(items: Database, tmp_path: Path) -> None:
    given = options(items, **{"scan.read-changelog-as-append-only.enabled": "true"})
    with job(given, tmp_path, ITEMS, ("id",), ("row_kind",)) as mine:
        mine.until_quiet()
        items.execute("UPDATE items SET note = 'x' WHERE id = 1")
        assert mine.until_quiet() == [("+I", 1, "n1", "-U"), ("+I", 1, "x", "+U")]
    assert registry.source_changelog_mode(given) == INSERT_ONLY


# ---- old rows --------------------------------------------------------------------------------------------------


def test_updates_without_old_rows(items: Database, tmp_path: Path) -> None:
    items.execute("ALTER TABLE items REPLICA IDENTITY DEFAULT")
    with job(options(items), tmp_path) as mine:
        mine.until_quiet()
        items.execute("INSERT INTO items VALUES (8, 'x')")
        assert len(mine.until_quiet()) == 1
        items.execute("UPDATE items SET note = 'x' WHERE id = 1")
        error = refused("DATA441", mine.step)
        assert error.hint == 'ALTER TABLE "public"."items" REPLICA IDENTITY FULL'


def test_upserts_without_old_rows(items: Database, tmp_path: Path) -> None:
    items.execute("ALTER TABLE items REPLICA IDENTITY DEFAULT")
    given = options(items, **{"changelog-mode": "upsert"})
    assert registry.source_changelog_mode(given) == UPSERT and registry.source_gives_key_deletes(given)
    assert registry.source_changelog_mode(options(items)) == RETRACT
    with job(given, tmp_path) as mine:
        mine.until_quiet()
        items.execute("UPDATE items SET note = 'x'", "UPDATE items SET id = 9 WHERE id = 1")
        items.execute("DELETE FROM items WHERE id = 2")
        mine.until_quiet()
        assert mine.by_key() == [(3, "x"), (4, "x"), (5, "x"), (9, "x")]
    with pytest.raises(OptionError, match="PRIMARY KEY"):
        source_of(given, key=())


def test_large_values_that_do_not_change(items: Database, tmp_path: Path) -> None:
    items.execute(
        "ALTER TABLE items ADD COLUMN large text, ALTER COLUMN large SET STORAGE EXTERNAL",
        "UPDATE items SET large = repeat(id::text, 20000)",
    )
    columns = ITEMS + ", large STRING"
    with job(options(items), tmp_path, columns) as mine:
        mine.until_quiet()
        items.execute("UPDATE items SET note = 'x' WHERE id = 3")
        assert [r[3] for r in mine.until_quiet()] == ["3" * 20_000] * 2
        items.execute("ALTER TABLE items REPLICA IDENTITY DEFAULT")
    upserts = options(items, **{"changelog-mode": "upsert", "slot.name": f"{items.name}_2"})
    with job(upserts, tmp_path, columns) as mine:
        mine.until_quiet()
        items.execute("UPDATE items SET note = 'y' WHERE id = 3")
        assert "REPLICA IDENTITY FULL" in str(refused("DATA442", mine.step))
        part = Job(source_of(upserts, columns, projection=(0, 1)), tmp_path)
        assert part.read(mine.offset, mine.source.latest_offset(mine.offset)) == [("+U", 3, "y")]


def test_truncate(items: Database, tmp_path: Path) -> None:
    with job(options(items), tmp_path) as mine:
        mine.until_quiet()
        items.execute("TRUNCATE items", "INSERT INTO items VALUES (1, 'x')")
        refused("DATA445", mine.step)
        skipping = source_of(options(items, **{"debezium.skipped.operations": "t"}))
        again = Job(skipping, tmp_path)
        assert again.read(mine.offset, mine.source.latest_offset(mine.offset)) == [("+I", 1, "x")]


# ---- definitions -----------------------------------------------------------------------------------------------


def test_columns_that_come_and_go(items: Database, tmp_path: Path) -> None:
    with job(options(items), tmp_path) as mine:
        mine.until_quiet()
        items.execute("ALTER TABLE items ADD COLUMN more int", "INSERT INTO items VALUES (6, 'x', 1)")
        items.execute("ALTER TABLE items DROP COLUMN more", "INSERT INTO items VALUES (7, 'y')")
        items.execute("ALTER TABLE items ALTER COLUMN id TYPE bigint", "INSERT INTO items VALUES (8, 'z')")
        assert [r[1] for r in mine.until_quiet()] == [6, 7, 8]
        items.execute("ALTER TABLE items ALTER COLUMN id TYPE text", "INSERT INTO items VALUES ('9', 'z')")
        assert "text since a change" in str(refused("DATA444", mine.step))
    other = options(items, **{"slot.name": f"{items.name}_2"})
    with job(other, tmp_path, "id STRING, note STRING") as mine:
        mine.until_quiet()
        items.execute("ALTER TABLE items RENAME COLUMN note TO remark", "INSERT INTO items VALUES ('10', 'z')")
        assert "no column 'note'" in str(refused("RUN144", mine.step))


def test_a_column_of_a_type_that_is_made_while_the_job_runs(items: Database, tmp_path: Path) -> None:
    with job(options(items), tmp_path) as mine:
        mine.until_quiet()
        items.execute("CREATE DOMAIN short AS int CHECK (VALUE < 100)", "ALTER TABLE items ALTER id TYPE short")
        items.execute("INSERT INTO items VALUES (6, 'x')")
        assert mine.until_quiet() == [("+I", 6, "x")]


def test_partitions_and_several_tables(database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TABLE items_a (id int, note text) PARTITION BY RANGE (id)",
        "CREATE TABLE items_a1 PARTITION OF items_a FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE items_a2 (note text, more int, id int)",
        "ALTER TABLE items_a2 DROP COLUMN more",
        "ALTER TABLE items_a ATTACH PARTITION items_a2 FOR VALUES FROM (100) TO (200)",
        "CREATE TABLE items_b (more int, note text, id int)",
        "CREATE TABLE items_c () INHERITS (items_b)",
        "CREATE TABLE other (id int, note text)",
        *(f"ALTER TABLE {t} REPLICA IDENTITY FULL" for t in ("items_a", "items_a1", "items_b", "items_c")),
        *(f"INSERT INTO {t} (id, note) VALUES (1, 'x')" for t in ("items_a", "items_b", "items_c", "other")),
    )
    with job(options(database, "items_.*"), tmp_path, ITEMS, (), ("table_name",)) as mine:
        assert "items_a2" in str(refused("RUN159", mine.step))
        database.execute("ALTER TABLE items_a2 REPLICA IDENTITY FULL")
        assert sorted(mine.until_quiet()) == [("+I", 1, "x", f"items_{t}") for t in "abc"]
        database.execute(
            "UPDATE items_a SET id = 150",
            *(f"INSERT INTO {t} (id, note) VALUES (2, 'y')" for t in ("items_c", "items_b", "other", "items_a")),
        )
        assert mine.until_quiet() == [
            ("-D", 1, "x", "items_a"),
            ("+I", 150, "x", "items_a"),
            ("+I", 2, "y", "items_c"),
            ("+I", 2, "y", "items_b"),
            ("+I", 2, "y", "items_a"),
        ]


def test_generated_columns(items: Database, tmp_path: Path) -> None:
    items.execute("ALTER TABLE items ADD COLUMN twice int GENERATED ALWAYS AS (id * 2) STORED")
    with job(options(items), tmp_path, "id INT, twice INT") as mine:
        mine.until_quiet()
        items.execute("INSERT INTO items VALUES (30, 'x')")
        assert mine.until_quiet() == [("+I", 30, 60)]


# ---- where it begins -------------------------------------------------------------------------------------------


def test_the_ways_to_begin(items: Database, tmp_path: Path) -> None:
    snapshot = options(items, **{"scan.startup.mode": "snapshot"})
    assert registry.find_connector(snapshot).is_bounded(snapshot)
    with job(snapshot, tmp_path) as mine:
        assert len(mine.until_quiet()) == 5
    slots = "SELECT 1 FROM pg_replication_slots WHERE database = current_database()"
    until(lambda: items.rows(slots) == [], 10)
    refused("RUN155", lambda: first_offset(options(items, **{"scan.startup.mode": "committed-offset"}), tmp_path))
    latest = options(items, **{"scan.startup.mode": "latest-offset"})
    with job(latest, tmp_path) as mine:
        assert mine.until_quiet() == []
        items.execute("INSERT INTO items VALUES (6, 'x')")
        assert len(mine.until_quiet()) == 1
        items.execute("INSERT INTO items VALUES (7, 'x')")
    for key, mode in (("scan.startup.mode", "committed-offset"), ("debezium.snapshot.mode", "never")):
        with job(options(items, **{key: mode}), tmp_path) as mine:
            start = mine.source.latest_offset({})
            assert mine.read(start, mine.source.latest_offset(start)) == [("+I", 7, "x")]
    with job(latest, tmp_path) as mine:
        assert mine.until_quiet() == []


def test_a_quiet_table_lets_the_server_forget_its_log(items: Database, tmp_path: Path) -> None:
    items.execute("CREATE TABLE other (note text)")
    confirmed = "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots"
    confirmed += f" WHERE slot_name = '{items.name}_slot'"
    with job(options(items, **{"heartbeat.interval.ms": "1 ms"}), tmp_path) as mine:
        mine.until_quiet()
        before = items.rows(confirmed)[0][0]
        items.execute("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 2500)")
        assert mine.until_quiet() == []
        assert items.rows(confirmed)[0][0] > before + 2_000_000
        items.execute("INSERT INTO items VALUES (6, 'x')")
        assert len(mine.until_quiet()) == 1
    with job(options(items, **{"scan.max-log": "100 kb", "slot.name": f"{items.name}_2"}), tmp_path) as mine:
        mine.until_quiet()
        items.execute("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 2500)")
        items.execute("INSERT INTO items VALUES (7, 'x')")
        assert mine.until_quiet() == [("+I", 7, "x")]
