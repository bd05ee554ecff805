"""A plan and its shadow as one plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from stateplan.common.errors import OptionError, RunError
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.shadows import SIDES, Side, has_shadow, shadow_pairs, side_of
from stateplan.plans.document import PlanDocument
from stateplan.runtime.active_plan import with_active_plan
from stateplan.runtime.jobgraph import JobGraph, ToOperator, ToReader, ToSink, targets
from stateplan.runtime.shadows import ShadowSink
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.shadow import ShadowPlan

TABLES = (
    "CREATE TABLE src (k INT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')",
    "CREATE TABLE counts (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'print')",
    "CREATE TABLE discarded (k INT, n BIGINT) WITH ('connector' = 'blackhole')",
    "CREATE TABLE lines (k INT, v BIGINT) WITH ('connector' = 'print')",
    "CREATE TABLE rows_of_slot (a INT, b INT, c TIMESTAMP(3), PRIMARY KEY (a) NOT ENFORCED) WITH ("
    "'connector' = 'postgres-cdc', 'hostname' = 'h', 'username' = 'u', 'password' = '${env:PW}', "
    "'database-name' = 'd', 'schema-name' = 's', "
    "'table-name' = 't', 'slot.name' = 'x')",
    "CREATE TABLE late (row_json STRING) WITH ('connector' = 'print')",
)
COUNTS = "INSERT INTO counts SELECT k, COUNT(*) FROM src GROUP BY k"
LINES = "INSERT INTO lines SELECT k, v FROM src"


def plan(*inserts: str, tables: Sequence[str] = TABLES, **options: str) -> PlanDocument:
    env = TableEnvironment.create({key.replace("__", "-").replace("_", "."): text for key, text in options.items()})
    for statement in tables:
        env.execute_sql(statement)
    compiled = env.compile_plan_sql(f"EXECUTE STATEMENT SET BEGIN {'; '.join(inserts)}; END")
    return PlanDocument.parse(compiled.as_json_string())


def test_both_plans_are_one_whose_sinks_say_to_which_they_belong() -> None:
    old, new = plan(COUNTS, LINES), plan(COUNTS, f"{LINES} WHERE v > 3")
    shadow = ShadowPlan.of(old, new)
    graph = shadow.document.graph
    assert has_shadow(graph) and not has_shadow(old.graph)
    pairs = shadow_pairs(graph)
    assert [(pair.name, pair.key) for pair in pairs] == [("counts", ("k",)), ("lines", ())]
    assert all(pair.old is not None and pair.new is not None for pair in pairs)
    common = set(shadow.places["old"].values()) & set(shadow.places["new"].values())
    assert {"stream-exec-group-aggregate", "stream-exec-exchange"} <= {graph.node(number).name for number in common}
    assert not any(isinstance(graph.node(number), Sink) for number in common)
    for side, document in shadow.plans.items():
        continuation = shadow.alone(side)
        for node in document.graph.nodes:
            was = graph.node(continuation.operators[node.id])
            assert was.meaning() == node.meaning()
            assert not isinstance(node, Sink) or side_of(was) == side


def open_sinks(job: JobGraph) -> list[str]:
    """What gets rows: the names of tables, and of what is compared."""
    open_ways = (to for part in (*job.sources, *job.operators) for to in targets(part.pipeline))
    sinks = {to.sink for to in open_ways if isinstance(to, ToSink) and job.sinks[to.sink].is_open(job.active_plan)}
    return sorted(job.sinks[number].name.removeprefix("default_catalog.default_database.") for number in sinks)


def test_the_new_plan_writes_nothing_and_both_are_recorded(tmp_path: Path) -> None:
    graph = ShadowPlan.of(plan(COUNTS, LINES), plan(COUNTS, f"{LINES} WHERE v > 3")).document.graph
    job = translate(graph, {"execution.checkpointing.dir": str(tmp_path)}, 4)
    of_both = [f"{table} of the {side} plan" for table in ("counts", "lines") for side in ("new", "old")]
    assert open_sinks(job) == sorted((*of_both, "counts", "lines")), "by the old plan"
    folders = [sink.writer.record.folder.name for sink in job.sinks if isinstance(sink.writer, ShadowSink)]
    assert sorted(folders) == ["0", "0", "1", "1"]
    written_sides = [side_of(graph.node(sink.node)) for sink in job.sinks if sink.node >= 0 and sink.is_open("both")]
    assert written_sides == ["old", "old"]


@pytest.mark.parametrize("side", SIDES)
def test_one_plan_runs_alone(side: Side) -> None:
    """It writes all of its tables, and nothing is sent to operators of the other plan, nor read from its tables."""
    summed = "INSERT INTO counts SELECT k, SUM(v) FROM (SELECT DISTINCT k, v FROM src) GROUP BY k"
    current = "INSERT INTO lines SELECT k, v FROM src WHERE ts > CURRENT_WATERMARK(ts)"
    shadow = ShadowPlan.of(plan(COUNTS, LINES), plan(summed, current))
    both = translate(shadow.document.graph, {}, 4)
    job = with_active_plan(both, side)
    assert open_sinks(job) == ["counts", "lines"]
    assert {side_of(shadow.document.graph.node(s.node)) for s in job.sinks if s.is_open(side)} == {side}
    reached = {to for part in (*job.sources, *job.operators) for to in targets(part.pipeline)}
    operators = {job.operators[to.operator].uid for to in reached if isinstance(to, ToOperator)}
    alone = translate(shadow.plans[side].graph, {}, 4)
    assert operators == {spec.uid for spec in alone.operators}
    assert {s.uid for s in job.sources if s.pipeline.outputs} == {s.uid for s in alone.sources}
    assert len({to.reader for to in reached if isinstance(to, ToReader)}) == len(alone.readers) == (side == "new")
    assert {s.uid for s in both.sinks if s.is_open(side)} == {s.uid for s in alone.sinks}, (
        "so each micro-batch counts once"
    )
    assert with_active_plan(both, "both") == both


def test_both_plans_survive_in_the_checkpoint(tmp_path: Path) -> None:
    shadow = ShadowPlan.of(plan(COUNTS), plan(COUNTS.replace("COUNT(*)", "MAX(v)")))
    shadow.write(tmp_path)
    again = ShadowPlan.in_checkpoint(tmp_path)
    assert again.places == shadow.places and again.document.text == shadow.document.text


@pytest.mark.parametrize("other", [(COUNTS, LINES), (LINES, COUNTS)])
def test_a_plan_that_does_the_same_is_refused(other: tuple[str, ...]) -> None:
    with pytest.raises(RunError) as error:
        ShadowPlan.of(plan(COUNTS, LINES), plan(*other))
    assert error.value.code == "RUN068"


def test_tables_that_cannot_be_compared_are_refused() -> None:
    window = (
        "INSERT INTO counts SELECT CAST(1 AS INT), COUNT(*) FROM "
        "TABLE(TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
    )
    with pytest.raises(RunError, match="late"):
        ShadowPlan.of(plan(COUNTS), plan(window, late__rows_table="late"))
    with pytest.raises(OptionError) as error:
        ShadowPlan.of(
            plan("INSERT INTO discarded SELECT k, COUNT(*) FROM src GROUP BY k"),
            plan("INSERT INTO discarded SELECT k + 1, COUNT(*) FROM src GROUP BY k"),
        )
    assert error.value.code == "OPT169"
    with pytest.raises(RunError, match="by other columns"):
        ShadowPlan.of(
            plan("INSERT INTO discarded SELECT k, COUNT(*) FROM src GROUP BY k"),
            plan("INSERT INTO discarded SELECT CAST(COUNT(*) AS INT), v FROM src GROUP BY v"),
        )


def test_a_table_with_one_reader_is_read_once() -> None:
    query = "INSERT INTO counts SELECT a, COUNT(*) FROM rows_of_slot WHERE {0} > 1 GROUP BY a"
    assert ShadowPlan.of(plan(query.format("b")), plan(query.format("a")))
    timed = [table.replace("c TIMESTAMP(3),", "c TIMESTAMP(3), WATERMARK FOR c AS c,") for table in TABLES]
    with pytest.raises(RunError, match="its replication slot serves one reader"):
        ShadowPlan.of(plan(query.format("b")), plan(query.format("a"), tables=timed))
