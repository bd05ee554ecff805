"""Process table functions from SQL to rows: restarted, with edited TTLs, with timers that wait for their time."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chaos import folded
from stateplan.common.errors import StateplanError
from stateplan.plans.document import PlanDocument
from stateplan.plans.state import CheckpointReader
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs
from tests.support.local import fold

MODULE = """
from datetime import timedelta

from stateplan import ArgumentHint, ProcessTableFunction, StateHint, udptf


class RunningTotal(ProcessTableFunction):
    def eval(self, ctx, memory, last, orders, step):
        memory.total = (memory.total or 0) + step * orders.amount
        yield memory.total, last.amount
        last.amount = orders.amount


class Idle(ProcessTableFunction):
    def eval(self, ctx, visit, clicks):
        visit.clicks = (visit.clicks or 0) + 1
        time = ctx.time_context()
        time.register_on_time("idle", time.time() + timedelta(seconds=10))

    def on_timer(self, ctx, visit):
        yield visit.clicks
        ctx.clear_all()


class Words(ProcessTableFunction):
    def eval(self, ctx, lines):
        yield from lines.text.split()


SET = ArgumentHint("SET_SEMANTIC_TABLE")
running_total = udptf(
    RunningTotal(),
    arguments={"orders": SET, "step": ArgumentHint(type="INT", default=1)},
    states={"memory": StateHint("ROW<total BIGINT>", ttl="1 d"), "last": StateHint("ROW<amount INT>")},
    result_type="ROW<total BIGINT, before INT>",
)
idle = udptf(
    Idle(),
    arguments={"clicks": SET},
    states={"visit": StateHint("ROW<clicks BIGINT>")},
    result_type="ROW<clicks BIGINT>",
)
words = udptf(Words(), arguments={"lines": ArgumentHint("ROW_SEMANTIC_TABLE")}, result_type="ROW<word STRING>")
"""
HOUR = 3_600_000


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"shop_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def environment(folder: Path, module: str, *tables: str) -> TableEnvironment:
    options = {"pipeline.max-parallelism": "2", "execution.checkpointing.dir": str(folder / "checkpoint")}
    made = TableEnvironment.create({**options, "execution.checkpointing.interval": "200 ms"}, jobs=Jobs())
    for table in tables:
        made.execute_sql(table)
    for name in ("running_total", "idle", "words"):
        made.execute_sql(f"CREATE FUNCTION {name} AS '{module}.{name}' LANGUAGE PYTHON")
    return made


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_states_on_spark_with_a_restart_and_an_edited_ttl(
    tmp_path: Path, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, plan = tmp_path / "rows.json", tmp_path / "plan.json"
    tables = (
        "CREATE TABLE orders (product STRING, amount INT) "
        f"WITH ('connector'='replay', 'path'='{rows}', 'format'='json')",
        "CREATE TABLE totals (product STRING, total BIGINT, earlier INT) WITH ('connector'='print')",
    )

    def arrive(at: int, *orders: tuple[str | None, int]) -> None:
        with rows.open("a") as out:
            out.writelines(json.dumps({"product": p, "amount": a, "@at": at}) + "\n" for p, a in orders)

    def run() -> list[str]:
        environment(tmp_path, module, *tables).execute_sql(f"EXECUTE PLAN '{plan}'").wait()
        return fold(capsys.readouterr().out.splitlines())

    arrive(0, ("pen", 3), ("ink", 9), ("pen", 5), (None, 1))
    query = "SELECT * FROM running_total(orders => TABLE orders PARTITION BY product, step => 2)"
    environment(tmp_path, module, *tables).execute_sql(f"COMPILE PLAN '{plan}' FOR INSERT INTO totals {query}")
    assert run() == ["[ink, 18, null]", "[null, 2, null]", "[pen, 16, 3]", "[pen, 6, null]"]
    arrive(HOUR, ("pen", 1))
    assert run() == ["[pen, 18, 5]"]
    report = CheckpointReader.read(tmp_path / "checkpoint").show()
    assert [(s.state.selector, s.total.keys) for s in report.states] == [
        ("process-table-function.memory", 3),
        ("process-table-function.last", 3),
    ]
    PlanDocument.load(str(plan)).set_ttl(3, "last", "30 min").write(str(plan), overwrite=True)
    arrive(2 * HOUR, ("pen", 1))
    arrive(25 * HOUR, ("ink", 1), ("pen", 1))
    assert run() == ["[ink, 2, null]", "[pen, 20, null]", "[pen, 22, null]"]


def come(folder: Path, wanted: Sequence[tuple[str, int]]) -> None:
    """Waits for the rows that a sink has."""
    until = time.monotonic() + 60
    while (found := sorted(written(folder))) != sorted(wanted):
        assert time.monotonic() < until, f"{found} instead of {wanted}"
        time.sleep(0.1)


def written(folder: Path) -> list[tuple[str, int]]:
    found = folded(folder) if folder.is_dir() else Counter()
    rows = [json.loads(text) for text in found.elements()]
    return [(row["u"], row["clicks"]) for row in rows]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_timers_outlive_the_job_and_need_no_rows_of_their_partition(tmp_path: Path, module: str) -> None:
    tables = (
        "CREATE TABLE clicks (u STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem', "
        f"'path'='{tmp_path}/in', 'format'='json', 'source.monitor-interval'='200 ms')",
        "CREATE TABLE visits (u STRING, clicks BIGINT, ended TIMESTAMP(3)) WITH ('connector'='filesystem', "
        f"'path'='{tmp_path}/out', 'format'='json')",
    )

    def arrive(name: str, *clicks: tuple[str, int]) -> None:
        text = [json.dumps({"u": u, "ts": f"2024-01-01 00:00:{s:02}"}) + "\n" for u, s in clicks]
        (tmp_path / name).write_text("".join(text))
        (tmp_path / "in").mkdir(exist_ok=True)
        os.replace(tmp_path / name, tmp_path / "in" / name)

    def started() -> Any:
        query = "SELECT * FROM idle(clicks => TABLE clicks PARTITION BY u, on_time => DESCRIPTOR(ts))"
        return environment(tmp_path, module, *tables).execute_sql(f"INSERT INTO visits {query}").job

    arrive("a", ("ann", 0), ("bob", 3), ("ann", 4))
    job = started()
    arrive("b", ("cem", 13))
    come(tmp_path / "out", [("bob", 1)])
    job.stop()
    job = started()
    arrive("c", ("cem", 20))
    come(tmp_path / "out", [("bob", 1), ("ann", 2)])
    arrive("d", ("dan", 59))
    come(tmp_path / "out", [("bob", 1), ("ann", 2), ("cem", 2)])
    job.stop()


def test_a_function_without_state_and_the_error_of_one_row(
    tmp_path: Path, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"lines": ["to be", "or not"], "broken": [None]}
    for name, found in texts.items():
        (tmp_path / name).write_text("".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(found)))
    tables = (
        *(
            f"CREATE TABLE {name} (id INT, text STRING) WITH ('connector'='filesystem', 'path'='{tmp_path / name}', "
            "'format'='json')"
            for name in texts
        ),
        "CREATE TABLE found (word STRING) WITH ('connector'='print')",
    )
    env = environment(tmp_path, module, *tables)
    env.execute_sql("INSERT INTO found SELECT word FROM words(TABLE lines) WHERE word <> 'not'").wait()
    assert fold(capsys.readouterr().out.splitlines()) == ["[be]", "[or]", "[to]"]
    env = environment(tmp_path / "other", module, *tables)
    with pytest.raises(StateplanError) as caught:
        env.execute_sql("INSERT INTO found SELECT word FROM words(TABLE broken)").wait()
    assert caught.value.code == "DATA310"
    assert "Row(id=0, text=None)" in caught.value.message
    assert "called" in caught.value.message
