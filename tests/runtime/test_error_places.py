"""Errors of tasks name the table, and of its files the file, the line and the column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from stateplan.common.errors import DataError, StateplanError, find_encoded
from stateplan.common.types import parse_type
from stateplan.connectors.protocol import SinkTable, SourceTable
from stateplan.connectors.registry import CONNECTORS, FORMATS
from stateplan.functions.rex import InputRef
from stateplan.runtime.exchange import Blob, Rows, blob_batch, encode
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.jobgraph import JobGraph, Pipeline, SourceSpec
from stateplan.runtime.kernel import Transform
from stateplan.runtime.sinks import write_sinks
from stateplan.runtime.source_tasks import read_source
from stateplan.runtime.transforms.calc import WatermarkTransform
from stateplan.runtime.translate import translate
from stateplan.runtime.worker import MicroBatch, WorkerError
from stateplan.session.environment import TableEnvironment
from tests.support.local import LocalRun

FILES = CONNECTORS["filesystem"]


Task = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def raised(task: Task, batch: pa.RecordBatch) -> StateplanError:
    with pytest.raises(WorkerError) as error:
        list(task([batch]))
    found = find_encoded(str(error.value))
    assert found is not None
    return found


def read(path: Path, *transforms: Transform) -> StateplanError:
    fields = (("id", parse_type("INT")), ("at", parse_type("TIMESTAMP(3)")))
    options = {"connector": "filesystem", "path": str(path), "format": "json"}
    table = SourceTable("orders", FILES, options, fields, FORMATS["json"], projection=(0, 1))
    source = SourceSpec("u", "orders", "filesystem", FILES.source(table), Pipeline(transforms, ()))
    batch = pa.RecordBatch.from_pylist([{"path": str(path), "now": 0, "seq": "0"}])
    return raised(read_source(MicroBatch(JobGraph((source,), (), (), 8)), 0), batch)


@pytest.mark.parametrize(
    ("line", "code", "where"), [("{oops", "DATA111", "line 2, column 2"), ('{"id": "x"}', "DATA112", "line 2")]
)
def test_what_cannot_be_read(line: str, code: str, where: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(f'{{"id": 1}}\n{line}\n')
    error = read(path)
    assert (error.code, str(error.place)) == (code, f"{path}, {where}, table orders")


def test_a_row_without_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"id": 1}\n')
    error = read(path, WatermarkTransform(InputRef(parse_type("TIMESTAMP(3)"), 1), 1, "at"))
    assert (error.code, str(error.place)) == ("DATA330", f"{path}, row 1, table orders")
    assert "'at'" in error.message


CAST = "CAST(a AS BIGINT)"


@pytest.mark.parametrize(
    ("query", "operator"),
    [
        (f"SELECT {CAST} FROM t", "calc[2]"),
        (f"SELECT SUM({CAST}) FROM t GROUP BY b", "calc[2]"),
        (f"SELECT x FROM t, UNNEST(ARRAY[{CAST}]) AS v(x)", "correlate[2]"),
        (f"SELECT b FROM t JOIN u ON b = d AND {CAST} > d", "join[5]"),
        (f"SELECT b FROM t LEFT JOIN u ON b = d AND {CAST} > d", "join[5]"),
    ],
)
def test_a_row_that_cannot_be_computed_with(query: str, operator: str) -> None:
    env = TableEnvironment.create({})
    for name, columns in (("t", "a STRING, b INT"), ("u", "d INT")):
        env.execute_sql(
            f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'replay', 'path' = '/x', 'format' = 'json')"
        )
    env.execute_sql("CREATE TABLE snk (x BIGINT) WITH ('connector' = 'blackhole')")
    graph = translate(env.compile_plan_sql(f"INSERT INTO snk {query}").document.graph, {}, 8, job_id="j", start_time=0)
    local = LocalRun(graph)
    row = {"c0": pl.Series(["abc"]), "c1": pl.Series([1], dtype=pl.Int32)}
    rows = [pl.DataFrame(row)], [pl.DataFrame({"c0": pl.Series([1], dtype=pl.Int32)})]
    with pytest.raises((WorkerError, DataError)) as raised:
        local.batch({i: rows[i] for i in range(len(graph.sources))}, 0)
    error = find_encoded(str(raised.value)) or raised.value
    assert isinstance(error, DataError) and error.place is not None
    assert (error.code, error.place.operator) == ("DATA301", operator)
    assert error.place.expression == CAST


def test_what_cannot_be_written(tmp_path: Path) -> None:
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "json"}
    table = SinkTable("totals", FILES, options, (("m", parse_type("MAP<STRING, INT>")),), FORMATS["json"], uid="u")
    entry = pl.List(pl.Struct({"key": pl.String, "value": pl.Int32}))
    frame = pl.DataFrame({"c0": pl.Series([[{"key": None, "value": 1}]], dtype=entry)})
    task = write_sinks([(FILES.sink(table), "totals", "u")], 0, [3])
    error = raised(task, blob_batch([Blob(slot_label(3), 0, "", 0, Rows(1, encode(frame)))]))
    assert (error.code, str(error.place)) == ("DATA201", "table totals")
    assert "'m'" in error.message


def test_a_value_that_a_function_refuses_has_a_file_and_a_row(tmp_path: Path) -> None:
    """Also behind a filter, in a later file, and in the middle of many rows."""
    (tmp_path / "1.json").write_text('{"s": "1"}\n')
    lines = [f'{{"s": "{n}"}}' for n in range(900)]
    lines[701] = '{"s": "x7"}'
    (tmp_path / "2.json").write_text("\n".join(lines))
    env = TableEnvironment.create({})
    env.execute_sql(
        f"CREATE TABLE t (s STRING) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json')"
    )
    with pytest.raises(DataError, match=r"\[DATA301\] CAST failed: 'x7'") as error:
        env.execute_sql("SELECT CAST(s AS INT) FROM t WHERE s <> '8'").to_polars()
    assert f"{tmp_path}/2.json, row 702, calc[" in str(error.value)
