"""User-defined functions in a job, in this process and on Spark: by module, by value, and an error inside."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.planner.catalog.udf import AggregateFunction, udaf, udf
from stateplan.session.environment import TableEnvironment
from tests.e2e.arriving import until


@pytest.fixture(params=["here", pytest.param("spark", marks=pytest.mark.spark)])
def env(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TableEnvironment]:
    rows = [{"a": 1, "c": "x y"}, {"a": 2, "c": None}, {"a": 0, "c": "z"}]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text("".join(json.dumps(r) + "\n" for r in rows))
    sentences: list[str] = []
    made = TableEnvironment.create(console=sentences.append)
    for name, columns in (("t", "a INT, c STRING"), ("snk", "a BIGINT, c STRING")):
        folder = tmp_path / ("in" if name == "t" else "out")
        made.execute_sql(
            f"CREATE TABLE {name} ({columns}) WITH ('connector'='filesystem', 'path'='{folder}', 'format'='json')"
        )
    yield made
    assert any("runs in this process" in sentence for sentence in sentences) is (request.param == "here")


def written(tmp_path: Path) -> list[dict[str, object]]:
    files = (tmp_path / "out").glob("part-*")
    rows = [json.loads(line) for f in files for line in f.read_text().splitlines()]
    return sorted(rows, key=lambda r: str(r["a"]))


def test_functions_run_by_module_and_by_value(
    env: TableEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"shop_{uuid.uuid4().hex}"
    (tmp_path / f"{module}.py").write_text(
        "from stateplan.planner.catalog.udf import udf\n\n\n"
        "@udf(input_types=['STRING'], result_type='STRING')\n"
        "def slug(text):\n    return None if text is None else text.replace(' ', '-')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    env.execute_sql(f"CREATE FUNCTION slug AS '{module}.slug' LANGUAGE PYTHON")
    shift = 100
    env.create_temporary_function("plus", udf(lambda v: v + shift, ["BIGINT"], "BIGINT", func_type="pandas"))
    env.execute_sql("INSERT INTO snk SELECT plus(a), slug(c) FROM t").wait()
    assert written(tmp_path) == [{"a": 100, "c": "z"}, {"a": 101, "c": "x-y"}, {"a": 102, "c": None}]


def test_functions_on_pandas_run_over_frames(env: TableEnvironment, tmp_path: Path) -> None:
    env.create_temporary_function(
        "length", udaf(lambda column: column.fillna("").str.len().max(), ["STRING"], "BIGINT", func_type="pandas")
    )
    env.execute_sql(
        "CREATE TABLE p (a INT, c STRING, pt AS PROCTIME()) "
        f"WITH ('connector'='filesystem', 'path'='{tmp_path / 'in'}', 'format'='json')"
    )
    env.execute_sql(
        "INSERT INTO snk SELECT length(c) OVER (ORDER BY pt ROWS BETWEEN 1 PRECEDING AND CURRENT ROW), c FROM p"
    ).wait()
    assert written(tmp_path) == [{"a": 1, "c": "z"}, {"a": 3, "c": "x y"}, {"a": 3, "c": None}]


def test_asynchronous_functions_run_together(env: TableEnvironment, tmp_path: Path) -> None:
    async def later(number: int) -> int:
        await asyncio.sleep(0.01 * (3 - number))
        return number + 10

    env.create_temporary_function("later", udf(later, ["BIGINT"], "BIGINT"))
    env.execute_sql("SET 'table.exec.async-scalar.max-concurrent-operations' = '2'")
    env.execute_sql("INSERT INTO snk SELECT later(later(a) - 10), c FROM t WHERE later(a) > 10").wait()
    assert written(tmp_path) == [{"a": 11, "c": "x y"}, {"a": 12, "c": None}]


def test_an_exception_stops_the_job_with_its_code(env: TableEnvironment) -> None:
    env.create_temporary_function("inverse", udf(lambda v: 10 // v, ["BIGINT"], "BIGINT"))
    with pytest.raises(StateplanError) as caught:
        env.execute_sql("INSERT INTO snk SELECT inverse(a), c FROM t").wait()
    assert caught.value.code == "DATA310"
    assert "inverse raised ZeroDivisionError" in caught.value.message
    assert "default_catalog.default_database.t" in caught.value.message


class Brittle(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return []

    def accumulate(self, accumulator: list[int], value: int) -> None:
        raise ValueError("brittle")

    def get_value(self, accumulator: list[int]) -> int:
        return 0


@pytest.mark.parametrize("env", [pytest.param("spark", marks=pytest.mark.spark)], indirect=True)
def test_the_trace_of_an_error_names_operator_and_key_group(env: TableEnvironment) -> None:
    """As the log of an executor does."""
    env.create_temporary_function("brittle", udaf(Brittle(), ["INT"], "INT"))
    env.execute_sql("CREATE TABLE shown (a INT, c STRING) WITH ('connector'='print')")
    with pytest.raises(StateplanError) as caught:
        env.execute_sql("INSERT INTO shown SELECT brittle(a), c FROM t GROUP BY c").wait()
    assert "brittle raised ValueError" in caught.value.message
    assert re.search(r"in python-group-aggregate\[\d+\], key group \d+", str(caught.value.__cause__))


class Numbering:
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, value: int) -> int:
        self.calls += 1
        return self.calls


def test_jobs_share_no_object(env: TableEnvironment, tmp_path: Path) -> None:
    numbering = Numbering()
    env.create_temporary_function("numbered", udf(numbering, ["INT"], "BIGINT"))
    for _ in range(2):
        env.execute_sql("INSERT INTO snk SELECT numbered(a), CAST(NULL AS STRING) FROM t").wait()
    assert numbering.calls == 0
    assert [row["a"] for row in written(tmp_path)] == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("env", ["here"], indirect=True)
def test_a_function_that_does_not_return_is_left_behind(
    env: TableEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, may_return = threading.Event(), threading.Event()
    monkeypatch.setattr("stateplan.runtime.local.job._PATIENCE", 0.1)
    env.create_temporary_function("waiting", udf(lambda v: Signals.wait(v), ["BIGINT"], "BIGINT"))
    Signals.called, Signals.may_return = called, may_return
    job = env.execute_sql("INSERT INTO snk SELECT waiting(a), c FROM t").job
    assert job is not None and called.wait(60)
    job.stop()
    assert job.has_ended and job.status.value == "CANCELED" and job.error is None
    may_return.set()
    until(lambda: not any(thread.name == f"job {job.job_id}" for thread in threading.enumerate()), "its thread ends")
    assert written(tmp_path) == []


class Signals:
    """Of one test and the function that it calls."""

    called: threading.Event
    may_return: threading.Event

    @classmethod
    def wait(cls, value: int) -> int:
        cls.called.set()
        cls.may_return.wait()
        return value
