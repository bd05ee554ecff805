"""Table aggregate functions from SQL to rows: registered in SQL and in Python, restarted, with edited TTLs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stateplan.connectors.print import format_rows
from stateplan.planner.catalog.udf import TableAggregateFunction, udtaf
from stateplan.plans.document import PlanDocument
from stateplan.runtime.translate import translate
from stateplan.runtime.user_functions import bind_functions
from stateplan.session.environment import TableEnvironment
from stateplan.session.restore import restore
from tests.support.local import LocalRun, fold, rows_at

MODULE = """
from stateplan.planner.catalog.udf import TableAggregateFunction, udtaf


class Top2(TableAggregateFunction):
    def create_accumulator(self):
        return []

    def accumulate(self, accumulator, price):
        accumulator.append(price)

    def retract(self, accumulator, price):
        accumulator.remove(price)

    def emit_value(self, accumulator):
        for rank, price in enumerate(sorted(accumulator, reverse=True)[:2], 1):
            yield price, rank


top2 = udtaf(Top2(), input_types=["BIGINT"], result_type="ROW<v BIGINT, r INT>")
"""
INSERT = """INSERT INTO best
    SELECT product, v, r FROM top2(input => TABLE orders PARTITION BY product, args => DESCRIPTOR(price))"""


class Job:
    """One plan over a replay table of changes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.plan = folder / "plan.json"
        self.rows = folder / "rows.json"
        self.rows.touch()
        self.module = f"shop_{uuid.uuid4().hex}"
        (folder / f"{self.module}.py").write_text(MODULE)
        monkeypatch.syspath_prepend(str(folder))

    def environment(self) -> TableEnvironment:
        made = TableEnvironment.create(
            {"pipeline.max-parallelism": "2", "execution.checkpointing.dir": str(self.folder / "checkpoint")}
        )
        made.execute_sql(
            "CREATE TABLE orders (product STRING, price INT, note STRING) WITH ('connector'='replay', "
            f"'path'='{self.rows}', 'format'='op-json', 'op-json.mode'='retract')"
        )
        made.execute_sql("CREATE TABLE best (product STRING, v BIGINT, r INT) WITH ('connector'='print')")
        made.execute_sql(f"CREATE FUNCTION top2 AS '{self.module}.top2' LANGUAGE PYTHON")
        return made

    def compile(self) -> None:
        self.environment().execute_sql(f"COMPILE PLAN '{self.plan}' FOR {INSERT}")

    def edit(self, ttl: str) -> None:
        document = PlanDocument.load(str(self.plan))
        node = next(n for n in document.graph.nodes if n.title == "group-table-aggregate")
        document.set_ttl(node.id, 0, ttl).write(str(self.plan), overwrite=True)

    def arrive(self, at: int, *rows: tuple[str, str, int]) -> None:
        with self.rows.open("a") as out:
            for kind, product, price in rows:
                out.write(json.dumps({"_op": kind, "product": product, "price": price, "@at": at}) + "\n")


@pytest.mark.spark
def test_on_spark_with_a_restart_and_an_edited_ttl(
    spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, monkeypatch)

    def run() -> list[str]:
        job.environment().execute_sql(f"EXECUTE PLAN '{job.plan}'").wait()
        return capsys.readouterr().out.splitlines()

    job.compile()
    job.arrive(0, ("+I", "pen", 3), ("+I", "pen", 5), ("+I", "ink", 9))
    assert fold(run()) == ["[ink, 9, 1]", "[pen, 3, 2]", "[pen, 5, 1]"]
    job.arrive(1_000, ("-D", "pen", 5), ("+I", "pen", 4))
    assert sorted(run()) == ["+I[pen, 4, 1]", "-D[pen, 5, 1]"]
    job.edit("1 h")
    job.arrive(7_200_000, ("+I", "ink", 1))
    assert run() == ["+I[ink, 1, 1]"]


class Last(TableAggregateFunction):
    def create_accumulator(self) -> list[Any]:
        return []

    def accumulate(self, accumulator: list[Any], *args: Any) -> None:
        accumulator[:] = args

    def emit_value(self, accumulator: list[Any]) -> Iterator[Any]:
        yield from (v for v in accumulator if v is not None)


def test_hints_edited_plans_and_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(tmp_path, monkeypatch)
    env = job.environment()
    hinted = env.compile_plan_sql(INSERT.replace("SELECT", "SELECT /*+ STATE_TTL('orders' = '1 h') */"))
    document = PlanDocument.parse(hinted.as_json_string())
    node = next(n for n in document.graph.nodes if n.title == "group-table-aggregate")
    local: LocalRun | None = None

    def run(ttl: str | None, now: int, *rows: tuple[str, str, int]) -> list[str]:
        nonlocal local, document
        job.rows.write_text("")
        job.arrive(now, *rows)
        if ttl is not None:
            document = document.set_ttl(node.id, 0, ttl)
        graph = restore(document, env.catalog, {}).graph
        made = translate(bind_functions(graph, env.functions.of_plan), {}, key_groups=2)
        local = LocalRun(made) if local is None else local.continue_with(made)
        readers: list[Any] = [s.reader for s in made.sources]
        delivered = local.batch({i: rows_at(r, now) for i, r in enumerate(readers)}, now)
        return [line for f in delivered[0] for line in format_rows(f, [t for _, t in made.sinks[0].columns], None)]

    hour = 3_600_000
    assert run(None, 1, ("+I", "pen", 3)) == ["+I[pen, 3, 1]"]
    assert run(None, hour, ("+I", "pen", 5)) == ["-D[pen, 3, 1]", "+I[pen, 5, 1]", "+I[pen, 3, 2]"]
    assert run("3 h", 3 * hour, ("+I", "pen", 1)) == [
        "-D[pen, 5, 1]",
        "-D[pen, 3, 2]",
        "+I[pen, 5, 1]",
        "+I[pen, 3, 2]",
    ]
    assert run("1 h", 5 * hour, ("-D", "pen", 1), ("+I", "pen", 7)) == ["+I[pen, 7, 1]"]
    assert run("0 ms", 9 * hour, ("+I", "pen", 9), ("-D", "pen", 7), ("-D", "pen", 9)) == ["-D[pen, 7, 1]"]


def test_registered_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(tmp_path, monkeypatch)
    env = job.environment()
    env.create_temporary_function("last", udtaf(Last(), ["INT"], "INT"))
    env.execute_sql("CREATE VIEW newest AS SELECT * FROM last(TABLE orders PARTITION BY product, DESCRIPTOR(price))")
    plan = env.compile_plan_sql("INSERT INTO best SELECT product, f0, 1 FROM newest")
    shown = [n.description for n in PlanDocument.parse(plan.as_json_string()).graph.nodes]
    assert "GroupTableAggregate(groupBy=[product], select=[product, last_RETRACT(price) AS (f0)])" in shown
