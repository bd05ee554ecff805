"""OVER windows in plans: what is said of them, how long their state lives, and those that cannot be run."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from stateplan.common.changelog import INSERT_ONLY, RowKind
from stateplan.common.errors import StateplanError
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.over_aggregate import OverAggregate, range_ttl
from stateplan.runtime.operators import operator_of
from tests.execnodes.node_plans import FROZEN

ALL_CHANGES = frozenset(RowKind)


def data(name: str) -> dict[str, Any]:
    path = FROZEN / "stream-exec-over-aggregate_1" / f"{name}.json"
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def over(plan: dict[str, Any]) -> dict[str, Any]:
    node: dict[str, Any] = next(n for n in plan["nodes"] if n["type"] == OverAggregate.type_name())
    return node


def node_of(plan: dict[str, Any]) -> tuple[OverAggregate, ExecGraph]:
    graph = ExecGraph.from_json(plan)
    node = next(n for n in graph.nodes if isinstance(n, OverAggregate))
    return node, graph


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("proctime-rows", "adds COUNT(v), $SUM0(v), COUNT(*) over the 2 rows before and itself, by pt ASC, of each g"),
        (
            "rowtime-range",
            "adds MAX(v), MIN(v) over the rows of the last INTERVAL '10' SECOND, by ts ASC, of each g",
        ),
        ("lag", "adds LAG(v), LAG(v, 2, 0) over the rows so far, by pt ASC, of each g"),
        ("non-time-rank", "adds RANK(), SUM(w) over the rows so far, by v ASC, of each g"),
    ],
)
def test_what_is_said_of_it(name: str, text: str) -> None:
    node, graph = node_of(data(name))
    assert node.describe([i.output_type for i in graph.inputs(node)]).replace(" NULLS FIRST", "") == text


def test_the_state_of_a_range_lives_as_long_as_its_frame() -> None:
    session = {"table.exec.state.ttl": "1 h"}
    assert node_of(data("proctime-rows"))[0].ttls(session) == (3_600_000,)
    assert node_of(data("rowtime-range"))[0].ttls(session) == (0,)
    node, _ = node_of(data("proctime-rows"))
    spec = node.over_spec
    ten_seconds = node_of(data("rowtime-range"))[0].over_spec
    group = spec.groups[0].model_copy(update={"is_rows": False})
    ranged = spec.model_copy(update={"groups": (group,), "constants": ten_seconds.constants})
    assert node.replace(over_spec=ranged).ttls(session) == (range_ttl(10_000),)


def broken(change: str) -> dict[str, Any]:
    plan = data("proctime-rows")
    spec = over(plan)["overSpec"]
    (group,) = spec["groups"]
    match change:
        case "windows":
            spec["groups"].append({**copy.deepcopy(group), "aggCalls": []})
        case "descending":
            group["orderBy"]["fields"][0]["isAscending"] = False
        case "orders":
            group["orderBy"]["fields"] *= 2
        case "no time":
            group["orderBy"]["fields"][0]["index"] = 0
        case "following":
            group["upperBound"] = {"kind": "UNBOUNDED_FOLLOWING"}
        case "bound":
            group["lowerBound"]["offset"] = {"kind": "INPUT_REF", "inputIndex": 2, "type": "INT"}
        case "lag":
            return lag_by_value()
    return plan


def lag_by_value() -> dict[str, Any]:
    plan = data("non-time-rank")
    call = over(plan)["overSpec"]["groups"][0]["aggCalls"][1]
    call["internalName"] = "$LAG$1"
    return plan


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("windows", "different windows"),
        ("descending", "another order"),
        ("orders", "another order"),
        ("no time", "with a bound in the order of a field that is not a time attribute"),
        ("lag", "LAG in the order of a field that is not a time attribute"),
        ("following", "after the current one"),
        ("bound", "not a constant"),
    ],
)
def test_windows_that_cannot_be_run(change: str, words: str) -> None:
    node, graph = node_of(broken(change))
    with pytest.raises(StateplanError, match=words) as caught:
        operator_of(node, [i.output_type for i in graph.inputs(node)], {})
    assert caught.value.code == "PLAN035"


def test_changes_that_it_takes_and_emits() -> None:
    by_time, _ = node_of(data("lag"))
    assert by_time.takes(0) == by_time.changelog_mode([INSERT_ONLY], True) == INSERT_ONLY
    assert not by_time.needs_update_before(0, True)
    by_value, _ = node_of(data("non-time-rank"))
    assert by_value.takes(0) is None and by_value.needs_update_before(0, False)
    assert by_value.changelog_mode([INSERT_ONLY], False) == ALL_CHANGES


def test_a_constant_that_is_not_there() -> None:
    plan = data("lag")
    over(plan)["overSpec"]["constants"].pop()
    with pytest.raises(StateplanError, match="refers to field 5") as caught:
        ExecGraph.from_json(plan)
    assert caught.value.code == "PLAN044"
