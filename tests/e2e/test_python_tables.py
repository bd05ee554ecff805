"""In-memory tables and final rows through Spark: every type, updates, limits, and the rows of a notebook."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from stateplan import RowKind, StateplanError, TableEnvironment
from stateplan.session.jobs import Jobs

pytestmark = pytest.mark.spark

ZONE = "Europe/Berlin"
MOMENT = dt.datetime(2024, 2, 29, 23, 59, 58)
COLUMNS = {
    "bo": (pa.bool_(), [True, None]),
    "i1": (pa.int8(), [-128, None]),
    "i2": (pa.int16(), [1, None]),
    "i4": (pa.int32(), [1, None]),
    "i8": (pa.int64(), [2**63 - 1, None]),
    "f4": (pa.float32(), [1.5, None]),
    "f8": (pa.float64(), [float("inf"), None]),
    "st": (pa.string(), ["Zoë 𝄞", None]),
    "bi": (pa.binary(2), [b"\x00\xff", None]),
    "bs": (pa.binary(), [b"", None]),
    "da": (pa.date32(), [dt.date(1, 1, 1), None]),
    "t0": (pa.time32("s"), [dt.time(1, 2, 3), None]),
    "t3": (pa.time32("ms"), [dt.time(1, 2, 3, 4000), None]),
    "t6": (pa.time64("us"), [dt.time(1, 2, 3, 4), None]),
    "s0": (pa.timestamp("s"), [MOMENT, None]),
    "s3": (pa.timestamp("ms"), [MOMENT, None]),
    "s6": (pa.timestamp("us"), [MOMENT.replace(microsecond=1), None]),
    "s9": (pa.timestamp("ns"), [MOMENT, None]),
    "z0": (pa.timestamp("s", ZONE), [MOMENT.replace(tzinfo=dt.UTC), None]),
    "z3": (pa.timestamp("ms", ZONE), [MOMENT.replace(tzinfo=dt.UTC), None]),
    "z6": (pa.timestamp("us", ZONE), [MOMENT.replace(tzinfo=dt.UTC), None]),
    "de": (pa.decimal128(38, 18), [Decimal("1.500000000000000000"), None]),
    "du": (pa.duration("ms"), [dt.timedelta(-1, 1), None]),
    "li": (pa.list_(pa.field("item", pa.int32(), False)), [[1, 2], None]),
    "ma": (pa.map_(pa.string(), pa.list_(pa.string())), [[("a", ["x", None]), ("b", None)], None]),
    "ro": (
        pa.struct([("a", pa.timestamp("ms", ZONE)), ("b", pa.struct([("c", pa.decimal128(3, 1))]))]),
        [{"a": MOMENT.replace(tzinfo=dt.UTC), "b": {"c": None}}, None],
    ),
}


@pytest.fixture
def env(spark: object) -> Iterator[TableEnvironment]:
    options = {"table.local-time-zone": ZONE, "parallelism.default": "2", "table.exec.local.max-input-size": "0"}
    env = TableEnvironment.create(options, jobs=Jobs())
    yield env
    for entry in env.session.jobs.entries():
        if entry.job is not None:
            entry.job.stop()


def test_every_type_comes_back_as_it_was(env: TableEnvironment) -> None:
    schema = pa.schema([pa.field("row_id", pa.int64(), False), *(pa.field(n, t) for n, (t, _) in COLUMNS.items())])
    arrays = [pa.array([1, 2]), *(pa.array(values, kind) for kind, values in COLUMNS.values())]
    given = pa.Table.from_arrays(arrays, schema=schema)
    table = env.from_arrow(given)
    back = table.to_arrow().sort_by("row_id")
    assert back.schema == schema
    assert back.to_pylist() == given.to_pylist()
    with env.sql_query(f"SELECT ro.b.c, ma['a'], li, z3, bs FROM {table} WHERE row_id = 1").execute() as result:
        row = next(result.collect())
    assert row == (None, ["x", None], [1, 2], MOMENT.replace(tzinfo=dt.UTC), b"")


def test_changes_are_folded(env: TableEnvironment) -> None:
    rows = env.from_elements([(i % 7, i) for i in range(1000)], ["k", "v"])
    query = env.sql_query(f"SELECT k, COUNT(*) AS n, SUM(v) AS s FROM {rows} GROUP BY k")
    wanted = [(k, len(range(k, 1000, 7)), sum(range(k, 1000, 7))) for k in range(7)]
    with query.execute() as result:
        assert sorted(result.to_polars().rows()) == wanted
        assert result.to_arrow().num_rows == 7
        assert sorted(result.to_pandas().itertuples(index=False, name=None)) == wanted
        with pytest.raises(StateplanError, match="RUN054"):
            next(result.collect())
    with query.execute() as result:
        changes = list(result.collect())
        assert {row.get_row_kind() for row in changes} <= set(RowKind)
        with pytest.raises(StateplanError, match="RUN054"):
            result.to_arrow()


def test_equal_rows_are_kept_apart(env: TableEnvironment) -> None:
    """A query whose changes take back one of several equal rows: the latest of two groups that are alike."""
    rows = env.from_elements([("a", 1), ("b", 1), ("a", 2), ("c", 1)], ["k", "v"])
    query = env.sql_query(f"SELECT n FROM (SELECT k, COUNT(*) AS n FROM {rows} GROUP BY k)")
    assert sorted(query.to_arrow()["n"].to_pylist()) == [1, 1, 2]


def test_an_insert_of_a_table(env: TableEnvironment, capfd: pytest.CaptureFixture[str]) -> None:
    env.execute_sql("CREATE TABLE s (a BIGINT, b STRING) WITH ('connector' = 'print')")
    table = env.from_elements([(1, "x"), (2, None)])
    env.execute_sql("CREATE DATABASE other")
    env.use_database("other")
    result = table.execute_insert("default_database.s")
    result.wait()
    assert sorted(capfd.readouterr().out.splitlines()) == ["+I[1, x]", "+I[2, null]"]
    assert env.session.jobs.entries()[0].statement.endswith(
        "SELECT * FROM `default_catalog`.`default_database`.`*anonymous_arrow$1*`"
    )
    statements = env.create_statement_set()
    statements.add_insert("default_database.s", env.sql_query(f"SELECT _1 + 10, _2 FROM {table}"))
    statements.add_insert("default_database.s", table)
    statements.execute().wait()
    assert sorted(capfd.readouterr().out.splitlines()) == ["+I[1, x]", "+I[11, x]", "+I[12, null]", "+I[2, null]"]


def test_a_lookup_in_an_in_memory_table(env: TableEnvironment, tmp_path: Path) -> None:
    names = env.from_elements([(1, "one"), (2, "two")], ["id", "name"])
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "a.json").write_text('{"id": 2}\n{"id": 3}\n')
    env.execute_sql(
        "CREATE TABLE orders (id BIGINT, pt AS PROCTIME()) WITH ('connector' = 'filesystem', 'format' = 'json', "
        f"'path' = '{tmp_path}/orders')"
    )
    query = f"SELECT o.id, n.name FROM orders o LEFT JOIN {names} FOR SYSTEM_TIME AS OF o.pt AS n ON o.id = n.id"
    assert env.sql_query(query).to_polars().sort("id").rows() == [(2, "two"), (3, None)]


def test_rows_go_on_where_a_checkpoint_ends(env: TableEnvironment, tmp_path: Path) -> None:
    """A program that runs again with the same rows reads none of them twice; with others it is refused."""

    def run(rows: list[tuple[str, int]]) -> None:
        session = TableEnvironment.create({"execution.checkpointing.dir": str(tmp_path / "ck")}, jobs=Jobs())
        session.execute_sql(
            "CREATE TABLE s (k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'op-json', "
            f"'path' = '{tmp_path}/out')"
        )
        table = session.from_elements(rows, ["k", "v"])
        session.sql_query(f"SELECT k, COUNT(*) FROM {table} GROUP BY k").execute_insert("s").wait()

    def lines() -> list[str]:
        return sorted(line for f in (tmp_path / "out").glob("*") if f.is_file() for line in f.read_text().splitlines())

    run([("a", 1), ("b", 1)])
    first = lines()
    assert len(first) == 2
    run([("a", 1), ("b", 1)])
    assert lines() == first
    with pytest.raises(StateplanError):
        run([("c", 1), ("d", 1)])


def test_a_query_without_an_end_needs_a_limit(env: TableEnvironment) -> None:
    env.execute_sql("CREATE TABLE ticks (n INT) WITH ('connector' = 'datagen', 'rows-per-second' = '500')")
    query = env.sql_query("SELECT n FROM ticks")
    with pytest.raises(StateplanError) as raised:
        query.to_arrow()
    assert raised.value.code == "RUN053"
    assert [entry.status for entry in env.session.jobs.entries()] == ["CANCELED"]
    with query.execute() as result:
        assert result.to_arrow(limit_rows=7).num_rows == 7
        assert result.job is not None
        assert result.job.has_ended
    counted = env.sql_query("SELECT MOD(n, 3) AS k, COUNT(*) AS c FROM ticks GROUP BY MOD(n, 3)").execute()
    began = time.monotonic()
    found = counted.to_polars(timeout_ms=4000)
    assert time.monotonic() - began < 60
    assert found.height <= 5
    assert found["k"].n_unique() == found.height
    assert counted.job is not None
    assert counted.job.has_ended


def test_the_error_of_a_job_is_that_of_its_rows(env: TableEnvironment) -> None:
    table = env.from_elements([("1",), ("x",)], ["t"])
    with env.sql_query(f"SELECT CAST(t AS INT) AS n FROM {table}").execute() as result:
        with pytest.raises(StateplanError) as raised:
            result.to_pandas()
        assert raised.value.code == "DATA301"
        assert "FAILED" in repr(result)
        assert "is not a valid INT" in result._repr_html_()
