"""Scans whose abilities do not fit their table are refused before anything runs, with the place."""

from __future__ import annotations

from typing import Any

import pytest

from stateplan.common.errors import PlanError, RunError
from stateplan.execnodes.graph import ExecGraph
from stateplan.runtime.operators import operator_of
from stateplan.runtime.plan_tables import check_scan
from tests.execnodes.node_plans import edited, frozen

SCAN = "/nodes/0/scanTableSource"
ABILITIES = f"{SCAN}/abilities"
SCHEMA = f"{SCAN}/table/resolvedTable"


def checked(plan: dict[str, Any]) -> None:
    graph = ExecGraph.from_json(plan)
    node = next(n for n in graph.nodes if graph.position(n) == 0)
    check_scan(node, "/nodes/0")  # type: ignore[arg-type]


def test_distinct_values_of_nothing_are_not_summed() -> None:
    plan = frozen("stream-exec-local-group-aggregate_1", "distinct-retract")
    node = next(n for n in plan["nodes"] if n["type"] == "stream-exec-local-group-aggregate_1")
    call = next(c for c in node["aggCalls"] if c["distinct"])
    call |= {"internalName": "$SUM$1", "argList": []}
    graph = ExecGraph.from_json(plan)
    local = graph.node(node["id"])
    with pytest.raises(RunError, match="SUM of 0 arguments cannot be run"):
        operator_of(local, graph.input_types(local), {})


def test_a_sink_gets_a_value_for_each_column() -> None:
    plan = frozen("stream-exec-group-aggregate_1", "append")
    sink = next(n for n in plan["nodes"] if "dynamicTableSink" in n)
    sink["dynamicTableSink"]["table"]["resolvedTable"]["schema"]["columns"].pop()
    graph = ExecGraph.from_json(plan)
    node = graph.node(sink["id"])
    with pytest.raises(PlanError) as raised, graph.placing(node):
        operator_of(node, graph.input_types(node), {})
    assert raised.value.code == "PLAN064"
    assert raised.value.place is not None and raised.value.place.pointer == graph.pointer(node)


def test_the_plans_that_follow_are_good_before() -> None:
    checked(frozen("stream-exec-group-aggregate_1", "append"))
    checked(frozen("stream-exec-over-aggregate_1", "rowtime-range"))


@pytest.mark.parametrize(
    ("pointer", "value", "code", "at"),
    [
        (f"{ABILITIES}/0/projectedFields", [[7]], "PLAN049", f"{ABILITIES}/0/projectedFields/0"),
        (f"{ABILITIES}/0/projectedFields", [[]], "PLAN049", f"{ABILITIES}/0/projectedFields/0"),
        (f"{ABILITIES}/0/projectedFields", [[0, 1]], "PLAN035", f"{ABILITIES}/0/projectedFields/0"),
        (f"{ABILITIES}/0/projectedFields", [], "PLAN064", "/nodes/0/outputType"),
        (f"{SCHEMA}/partitionKeys", ["nobody"], "PLAN049", f"{SCHEMA}/partitionKeys/0"),
        (f"{SCHEMA}/schema/columns", [], "PLAN049", f"{ABILITIES}/0/projectedFields/0"),
        (
            f"{SCHEMA}/schema/primaryKey",
            {"name": "k", "type": "PRIMARY_KEY", "columns": ["nobody"]},
            "PLAN074",
            f"{SCHEMA}/schema/primaryKey/columns/0",
        ),
        (
            f"{ABILITIES}/-",
            {
                "type": "FilterPushDown",
                "predicates": [{"kind": "INPUT_REF", "inputIndex": 9, "type": "BOOLEAN"}],
            },
            "PLAN049",
            f"{ABILITIES}/{{last}}/predicates/0",
        ),
    ],
)
def test_what_does_not_fit_is_refused(pointer: str, value: Any, code: str, at: str) -> None:
    plan = frozen("stream-exec-group-aggregate_1", "append")
    last = len(plan["nodes"][0]["scanTableSource"]["abilities"])
    with pytest.raises(PlanError) as caught:
        checked(edited(plan, pointer, value))
    assert caught.value.code == code, str(caught.value)
    assert caught.value.place is not None
    assert caught.value.place.pointer == at.format(last=last)
    assert caught.value.expected


def test_columns_with_long_names_do_not_make_an_error_long() -> None:
    plan = frozen("stream-exec-group-aggregate_1", "append")
    schema = plan["nodes"][0]["scanTableSource"]["table"]["resolvedTable"]["schema"]
    schema["primaryKey"] = {"name": "k", "type": "PRIMARY_KEY", "columns": ["nobody"]}
    for position, column in enumerate(schema["columns"]):
        column["name"] = f"c{position}" * 50_000
    with pytest.raises(PlanError) as raised:
        ExecGraph.from_json(plan)
    assert raised.value.code == "PLAN074"
    assert len(str(raised.value)) < 4500
