"""Plans that Flink 1.19 and 2.3 wrote, changed by hand, go on from the state of the plans as they were."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from stateplan.plans.document import PlanDocument
from stateplan.session.compiled_plan import PlanReference
from stateplan.session.environment import TableEnvironment
from tests.support.command import Command
from tests.support.evolving import plan_goes_on
from tests.support.shop import Shop

Plan = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]
Edit = Callable[[Plan], None]

PLANS = {
    "1.19 aggregate": "plans/stream-exec-group-aggregate_1/group-aggregate-simple.json",
    "1.19 join": "plans/stream-exec-join_1/join-non-window-inner-join.json",
    "1.19 rank": "plans/stream-exec-rank_1/rank-test-append-fast-strategy.json",
    "2.3 aggregate": "cases/group_agg_retract/plan.json",
    "2.3 join": "cases/join_inner_append/plan.json",
    "2.3 rank": "cases/topn_updatefast_with_rownum/plan.json",
}


def flink_plan(shared: Path, name: str) -> Plan:
    """A plan as Flink wrote it, of the version that its name begins with."""
    plan: Plan = json.loads((shared / PLANS[name]).read_text())
    assert plan["flinkVersion"] == name.split(" ")[0]
    return plan


def node(plan: Plan, kind: str, number: int = 0) -> Any:
    """An operator, by its type and its number among those of this type."""
    return [n for n in plan["nodes"] if n["type"].startswith(f"stream-exec-{kind}_")][number]


def edited(plan: Plan, *edits: Edit) -> Plan:
    plan = copy.deepcopy(plan)
    for edit in edits:
        edit(plan)
    return plan


def tables(plan: Plan) -> dict[str, Plan]:
    """The tables of a plan, by name."""
    parts = [n[key] for n in plan["nodes"] for key in ("scanTableSource", "dynamicTableSink") if key in n]
    return {part["table"]["identifier"].split("`")[-2]: part["table"]["resolvedTable"] for part in parts}


# edits, as a user makes them in the file


def hashed_by(exchange: Any, *keys: int) -> None:
    exchange["inputProperties"][0]["requiredDistribution"]["keys"] = list(keys)


def literal(value: object, type_: str) -> Plan:
    return {"kind": "LITERAL", "value": value, "type": type_}


def greater(field: int, value: int, type_: str) -> Plan:
    operands = [{"kind": "INPUT_REF", "inputIndex": field, "type": type_}, literal(value, f"{type_} NOT NULL")]
    return {"kind": "CALL", "syntax": "BINARY", "internalName": "$>$1", "operands": operands, "type": "BOOLEAN"}


def without_call(position: int) -> Edit:
    """Removes an aggregate; the projection behind it writes NULL."""

    def edit(plan: Plan) -> None:
        aggregate, calc = node(plan, "group-aggregate"), node(plan, "calc", -1)
        del aggregate["aggCalls"][position], aggregate["aggCallNeedRetractions"][position]
        fields = aggregate["outputType"].removeprefix("ROW<").removesuffix(">").split(", ")
        removed = len(aggregate["grouping"]) + position
        aggregate["outputType"] = f"ROW<{', '.join(fields[:removed] + fields[removed + 1 :])}>"
        for place, value in enumerate(calc["projection"]):
            field = value["operands"][0] if "operands" in value else value
            if field.get("inputIndex") == removed:
                calc["projection"][place] = literal(None, value["type"])
            elif field.get("inputIndex", 0) > removed:
                field["inputIndex"] -= 1

    return edit


def call(position: int, **fields: object) -> Edit:
    return lambda plan: node(plan, "group-aggregate")["aggCalls"][position].update(fields)


def condition(expression: Plan) -> Edit:
    return lambda plan: node(plan, "calc").update(condition=expression)


def join(**fields: object) -> Edit:
    return lambda plan: node(plan, "join")["joinSpec"].update(fields)


def changes(plan: Plan) -> None:
    node(plan, "sink")["inputChangelogMode"] = ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"]


def ttl(kind: str, *ttls: str) -> Edit:
    def edit(plan: Plan) -> None:
        for state, text in zip(node(plan, kind)["state"], ttls, strict=True):
            state["ttl"] = text

    return edit


def rank_end(end: int) -> Edit:
    return lambda plan: node(plan, "rank")["rankRange"].update(end=end)


def semi(plan: Plan) -> None:
    join(joinType="SEMI")(plan)
    node(plan, "join")["outputType"] = "ROW<`a` INT, `b` BIGINT, `c` VARCHAR(2147483647)>"
    text = {"kind": "INPUT_REF", "inputIndex": 2, "type": "VARCHAR(2147483647)"}
    node(plan, "calc", -1)["projection"] = [{"kind": "INPUT_REF", "inputIndex": 0, "type": "INT"}, text, text]


def joined_by_b(plan: Plan) -> None:
    join(leftKeys=[1], rightKeys=[1])(plan)
    for number in (0, 1):
        hashed_by(node(plan, "exchange", number), 1)


def grouped_by_v(plan: Plan) -> None:
    """Groups by ``v`` instead of ``g``; the projection behind it writes a text for ``g``."""
    aggregate = node(plan, "group-aggregate")
    hashed_by(node(plan, "exchange"), 1)
    aggregate["grouping"] = [1]
    aggregate["outputType"] = aggregate["outputType"].replace("`g` VARCHAR(2147483647)", "`v` INT")
    node(plan, "calc")["projection"][0] = literal("all", "VARCHAR(2147483647)")


def without_group_key(plan: Plan) -> None:
    """Counts by ``g`` alone; the projection behind it writes 7 for ``u``."""
    aggregate, calc = node(plan, "group-aggregate"), node(plan, "calc")
    hashed_by(node(plan, "exchange"), 1)
    aggregate.update(grouping=[1], outputType="ROW<`g` VARCHAR(2147483647), `c` BIGINT NOT NULL>")
    group, _, count = calc["projection"]
    calc["projection"] = [{**group, "inputIndex": 0}, literal(7, "INT"), {**count, "inputIndex": 1}]
    node(plan, "rank")["rankStrategy"]["primaryKeys"] = [0]


EDITS: tuple[tuple[str, str, str, tuple[Edit, ...]], ...] = (
    ("1.19 aggregate", "an aggregate removed", "rewrite", (without_call(1),)),
    ("1.19 aggregate", "a filter on the key", "derive", (condition(greater(1, 0, "BIGINT")),)),
    (
        "1.19 aggregate",
        "a filter, and an aggregate removed",
        "backfill",
        (condition(greater(0, 1, "INT")), without_call(2)),
    ),
    ("1.19 aggregate", "FILTER removed", "backfill", (call(1, filterArg=-1),)),
    ("1.19 aggregate", "MIN to MAX", "backfill", (call(2, internalName="$MAX$1"),)),
    ("1.19 join", "INNER to FULL", "derive", (join(joinType="FULL"), changes)),
    ("1.19 join", "INNER to SEMI", "derive", (semi, changes)),
    ("1.19 join", "no condition, and LEFT", "derive", (join(joinType="LEFT", nonEquiCondition=None), changes)),
    ("1.19 join", "another key", "backfill", (joined_by_b,)),
    ("1.19 rank", "first row to first two", "backfill", (rank_end(2),)),
    ("2.3 aggregate", "two aggregates removed", "derive", (without_call(6), without_call(2))),
    ("2.3 aggregate", "the argument of COUNT", "derive", (call(1, argList=[2]),)),
    ("2.3 aggregate", "another group key, and an aggregate removed", "backfill", (grouped_by_v, without_call(2))),
    ("2.3 join", "a condition of a join with TTLs", "derive", (join(nonEquiCondition=None),)),
    ("2.3 join", "INNER to LEFT with TTLs", "backfill", (join(joinType="LEFT"), changes)),
    ("2.3 rank", "top 3 to top 2, and a TTL", "backfill", (rank_end(2), ttl("rank", "2 h"))),
    ("2.3 rank", "a group key removed", "backfill", (without_group_key,)),
)

ROWS: Mapping[str, Rows] = {
    "source_t": [{"a": n % 5, "b": n % 3, "c": "zyx"[n % 3] + str(n % 4)} for n in range(12)],
    "T1": [{"a": n % 4, "b": n % 3 + 2, "c": f"l{n}"} for n in range(10)],
    "T2": [{"a": n % 5, "b": n % 2 + 2, "c": f"r{n}"} for n in range(10)],
    "MyTable": [{"a": n % 4, "b": str(n % 2), "c": 7 * n % 5} for n in range(12)],
    "src": [
        {"id": n, "g": "xy"[n % 2], "v": n * n % 5, "d": n / 2 if n % 3 else None, "u": n * n % 5} for n in range(12)
    ],
    "Orders": [{"order_id": n, "k": n % 4, "product": "pqr"[n % 3]} for n in range(10)],
    "Lg": [{"k": n % 5, "t": "pq"[n % 2]} for n in range(10)],
}
"""The rows of tables, by their names in the plans."""


def retracting(rows: Rows) -> list[dict[str, Any]]:
    """The rows as insertions, some of which are taken back."""
    inserted = [{"_op": "+I", **row} for row in rows]
    return [*inserted[:6], {**inserted[2], "_op": "-D"}, *inserted[6:], {**inserted[7], "_op": "-D"}]


def replayed(plan: Plan, folder: Path) -> Plan:
    """The plan over replay tables, a row at an instant, with a sink that prints."""
    plan = copy.deepcopy(plan)
    for name, table in tables(plan).items():
        if name not in ROWS:
            mode = "upsert" if "primaryKey" in table["schema"] else "retract"
            table["options"] = {"connector": "print", "changelog-mode": mode}
            continue
        rows, options = ROWS[name], {"connector": "replay", "path": str(folder / name), "format": "json"}
        if table.get("options", {}).get("format") == "debezium-json":
            rows, options = retracting(rows), {**options, "format": "op-json", "op-json.mode": "retract"}
        text = "".join(json.dumps({"@at": 1_000 * at, **row}) + "\n" for at, row in enumerate(rows, 1))
        (folder / name).write_text(text)
        table["options"] = options
    return plan


@pytest.mark.parametrize(("name", "verdict", "edits"), [pytest.param(n, v, e, id=f"{n}: {t}") for n, t, v, e in EDITS])
def test_a_plan_of_flink_that_was_edited_goes_on(
    name: str, verdict: str, edits: Sequence[Edit], shared: Path, tmp_path: Path
) -> None:
    old = replayed(flink_plan(shared, name), tmp_path)
    documents = [PlanDocument.parse(json.dumps(plan, indent=2)) for plan in (old, edited(old, *edits))]
    assert plan_goes_on(*documents, stops=(1, 4, 8)) == verdict


# on Spark, over files


def arrive(folder: Path, table: str, name: str, rows: Rows) -> None:
    (folder / table).mkdir(exist_ok=True)
    (folder / table / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.spark
def test_a_join_of_flink_1_19_gets_another_key_and_becomes_outer_and_its_sink_is_corrected(
    spark: object, shared: Path, tmp_path: Path, stateplan: Command
) -> None:
    """By the command line. The plan has no options of its tables: they are those of the session."""
    old = flink_plan(shared, "1.19 join")
    assert all("options" not in table for table in tables(old).values())
    (tmp_path / "old.json").write_text(json.dumps(old, indent=2))
    new = edited(old, joined_by_b, join(joinType="LEFT", nonEquiCondition=None), changes)
    (tmp_path / "new.json").write_text(json.dumps(new, indent=2))

    def declared(sink: str, output: str = "debezium-json") -> Path:
        script = tmp_path / f"{sink}.sql"
        lines = [
            f"CREATE TABLE {name} ({columns}) "
            f"WITH ('connector' = 'filesystem', 'format' = '{fmt}', 'path' = '{tmp_path / path}');\n"
            for name, columns, fmt, path in (
                ("T1", "a INT, b BIGINT, c STRING", "json", "T1"),
                ("T2", "a INT, b BIGINT, c STRING", "json", "T2"),
                ("MySink", "a INT, c1 STRING, c2 STRING", output, sink),
            )
        ]
        script.write_text("SET 'parallelism.default' = '2';\n" + "".join(lines))
        return script

    def run(plan: str, checkpoint: str, script: Path) -> None:
        folder = f"execution.checkpointing.dir={tmp_path / checkpoint}"
        answer = stateplan("plan", "execute", tmp_path / plan, "-f", script, "-D", folder)
        assert answer.code == 0, answer.err

    def evolve(script: Path) -> tuple[int, str]:
        places = ("--checkpoint", tmp_path / "first", "--to", tmp_path / "second", "--output", "corrections")
        answer = stateplan("plan", "evolve", tmp_path / "new.json", "-f", script, *places)
        return answer.code, answer.out + answer.err

    for name in ("T1", "T2"):
        arrive(tmp_path, name, "1.json", ROWS[name])
    run("old.json", "first", declared("sink"))
    code, text = evolve(declared("rows", output="json"))
    assert code != 0 and "[CAT055]" in text and not (tmp_path / "second").exists()
    code, text = evolve(declared("sink"))
    assert code == 0, text
    assert "the state of join[7] is made from the history of its inputs" in text
    for name in ("T1", "T2"):
        arrive(tmp_path, name, "2.json", [{**row, "a": n, "b": row["b"] + 1} for n, row in enumerate(ROWS[name])])
    run("new.json", "second", declared("sink"))
    run("new.json", "whole", declared("whole"))
    assert Shop(tmp_path).holds("sink") == Shop(tmp_path).holds("whole")
    assert any(row[1] is None for row in Shop(tmp_path).holds("whole")), "rows without a match"


@pytest.mark.spark
def test_an_aggregate_of_flink_2_3_groups_by_another_column(spark: object, shared: Path, tmp_path: Path) -> None:
    """The options of the tables are in the plan."""

    def run(plan: Plan, sink: str, checkpoint: str, origin: str | None = None) -> None:
        plan = copy.deepcopy(plan)
        tables(plan)["src"]["options"]["path"] = str(tmp_path / "src")
        sink_options = {"connector": "filesystem", "format": "debezium-json", "path": str(tmp_path / sink)}
        tables(plan)["snk"]["options"] = sink_options
        settings = {"parallelism.default": "2", "execution.checkpointing.dir": str(tmp_path / checkpoint)}
        compiled = TableEnvironment.create(settings).load_plan(PlanReference.from_json_string(json.dumps(plan)))
        if origin is not None:
            _, notes = compiled.evolve(tmp_path / origin)
            assert any("group-aggregate[3] is made from the history" in note for note in notes), notes
        compiled.execute().wait()

    def events(*numbers: int, op: str = "c") -> Rows:
        rows = [{"id": n, "g": "xyz"[n % 3], "v": n * n % 5, "d": n / 2 if n % 4 else None} for n in numbers]
        return [{"op": op, "before": None if op == "c" else row, "after": row if op == "c" else None} for row in rows]

    old = flink_plan(shared, "2.3 aggregate")
    new = edited(old, grouped_by_v, without_call(2), ttl("group-aggregate", "2 h"))
    arrive(tmp_path, "src", "1.json", [*events(*range(20)), *events(4, 5, op="d")])
    run(old, "old", "first")
    run(new, "half", "half")
    arrive(tmp_path, "src", "2.json", [*events(*range(20, 30)), *events(0, 7, 9, 21, op="d")])
    run(new, "new", "second", "first")
    run(new, "whole", "whole")
    assert Shop(tmp_path).holds("half", "new") == Shop(tmp_path).holds("whole")
