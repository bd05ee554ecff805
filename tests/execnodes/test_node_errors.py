"""Bad plans: the code, the place and the hint of each error."""

from __future__ import annotations

from typing import Any

import pytest

from stateplan.common.errors import PlanError, StateplanError
from stateplan.common.types import parse_type
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.opaque import unknown_keys
from stateplan.runtime.operators import operator_of
from tests.execnodes.node_plans import REMOVE, aggregate_plan, edited, frozen, join_plan

STATE = "/nodes/4/state"
TTL = {"index": 0, "ttl": "1 h", "name": "leftState"}


def refused(plan: Any, strict: bool = True) -> PlanError:
    with pytest.raises(PlanError) as caught:
        ExecGraph.from_json(plan, strict_unknown=strict)
    error = caught.value
    assert error.place is not None
    assert error.expected
    return error


@pytest.mark.parametrize(
    ("pointer", "value", "code", "place"),
    [
        (f"{STATE}/0/ttl", "abc", "PLAN053", f"{STATE}/0/ttl"),
        (f"{STATE}/1/ttl", "-1 d", "PLAN054", f"{STATE}/1/ttl"),
        (f"{STATE}/0/ttl", "1 parsec", "PLAN055", f"{STATE}/0/ttl"),
        (f"{STATE}/0/ttl", 10**30, "PLAN056", f"{STATE}/0/ttl"),
        (f"{STATE}/0/ttl", "", "PLAN052", f"{STATE}/0/ttl"),
        (f"{STATE}/0/ttl", None, "PLAN051", f"{STATE}/0/ttl"),
        (f"{STATE}/0/ttl", False, "PLAN050", f"{STATE}/0/ttl"),
        (f"{STATE}/0/ttl", REMOVE, "PLAN051", f"{STATE}/0"),
        (f"{STATE}/0/name", REMOVE, "PLAN058", f"{STATE}/0"),
        (f"{STATE}/0/name", None, "PLAN058", f"{STATE}/0/name"),
        (f"{STATE}/1/index", -1, "PLAN060", f"{STATE}/1/index"),
        (f"{STATE}/1/index", "one", "PLAN060", f"{STATE}/1/index"),
        (f"{STATE}/1/index", True, "PLAN060", f"{STATE}/1/index"),
        (f"{STATE}/1", REMOVE, "PLAN061", STATE),
        (f"{STATE}/-", {"index": 2, "ttl": "0 ms", "name": "x"}, "PLAN061", STATE),
        (f"{STATE}/1/index", 0, "PLAN062", f"{STATE}/1/index"),
        (f"{STATE}/1/index", REMOVE, "PLAN062", f"{STATE}/1/index"),
        (f"{STATE}/1/index", 2, "PLAN063", f"{STATE}/1/index"),
        (f"{STATE}/0/index", 7, "PLAN063", f"{STATE}/0/index"),
        (f"{STATE}/1/name", "leftState", "PLAN057", f"{STATE}/1/index"),
        (STATE, {"index": 0}, "PLAN040", STATE),
        (f"{STATE}/0", "1 h", "PLAN040", f"{STATE}/0"),
        (f"{STATE}/0/updateType", "OnWrite", "PLAN046", f"{STATE}/0/updateType"),
        (f"{STATE}/0/visibility", 1, "PLAN046", f"{STATE}/0/visibility"),
        ("/nodes/4/type", REMOVE, "PLAN031", "/nodes/4"),
        ("/nodes/4/type", None, "PLAN031", "/nodes/4"),
        ("/nodes/4/type", "stream-exec-join", "PLAN032", "/nodes/4/type"),
        ("/nodes/4/type", "stream-exec-join_2", "PLAN033", "/nodes/4/type"),
        ("/nodes/4/type", "stream-exec-jion_1", "PLAN034", "/nodes/4/type"),
        ("/nodes/4", None, "PLAN031", "/nodes/4"),
        ("/nodes/4/id", REMOVE, "PLAN041", "/nodes/4"),
        ("/nodes/4/id", "5", "PLAN040", "/nodes/4/id"),
        ("/nodes/4/id", 1.0, "PLAN040", "/nodes/4/id"),
        ("/nodes/4/id", 1, "PLAN036", "/nodes/4/id"),
        ("/nodes/4/outputType", REMOVE, "PLAN041", "/nodes/4"),
        ("/nodes/4/outputType", "BIGINT", "PLAN043", "/nodes/4/outputType"),
        ("/nodes/4/outputType", "ROW<`a` BIGINT", "TYPE001", "/nodes/4/outputType"),
        ("/nodes/5/outputType", "ROW<`a` BIGINT>", "PLAN064", "/nodes/5/outputType"),
        ("/nodes/5/outputType", "ROW<`a` BIGINT, `b` DATE>", "PLAN068", "/nodes/5/outputType"),
        ("/nodes/4/joinSpec", REMOVE, "PLAN041", "/nodes/4"),
        ("/nodes/4/joinSpec", [], "PLAN040", "/nodes/4/joinSpec"),
        ("/nodes/4/joinSpec/joinType", "INNNER", "PLAN046", "/nodes/4/joinSpec/joinType"),
        ("/nodes/4/joinSpec/leftKeys", [0, 1], "PLAN044", "/nodes/4/joinSpec"),
        ("/nodes/4/joinSpec/leftKeys", [1], "PLAN049", "/nodes/4/joinSpec/leftKeys/0"),
        ("/nodes/4/joinSpec/rightKeys/0", "0", "PLAN040", "/nodes/4/joinSpec/rightKeys/0"),
        ("/nodes/4/rightUpsertKeys", [[5]], "PLAN049", "/nodes/4/rightUpsertKeys/0/0"),
        ("/nodes/4/joinSpec/nonEquiCondition", {"kind": "CAL"}, "PLAN030", "/nodes/4/joinSpec/nonEquiCondition"),
        ("/nodes/4/inputProperties", [], "PLAN047", "/nodes/4/inputProperties"),
        ("/nodes/1/inputProperties/0/requiredDistribution/keys/0", 8, "PLAN049",
         "/nodes/1/inputProperties/0/requiredDistribution/keys/0"),
        ("/nodes/1/inputProperties/0/requiredDistribution/type", "HASHED", "PLAN046",
         "/nodes/1/inputProperties/0/requiredDistribution/type"),
        ("/nodes/5/projection/1/inputIndex", 3, "PLAN049", "/nodes/5/projection/1"),
        ("/nodes/5/projection/1/type", "INT", "PLAN068", "/nodes/5/projection/1/type"),
        ("/nodes/5/projection/1/type", "WORD", "TYPE001", "/nodes/5/projection/1"),
        ("/nodes/0/scanTableSource/table", REMOVE, "PLAN041", "/nodes/0/scanTableSource"),
        ("/nodes/0/scanTableSource/abilities/0/type", "ProjectPush", "PLAN046", "/nodes/0/scanTableSource/abilities/0"),
        ("/nodes/0/scanTableSource/abilities/0/projectedFields", REMOVE, "PLAN041",
         "/nodes/0/scanTableSource/abilities/0"),
        ("/nodes/0/scanTableSource/table/resolvedTable/options/path", [], "PLAN040",
         "/nodes/0/scanTableSource/table/resolvedTable/options/path"),
        ("/nodes/6/inputChangelogMode", ["INSERT", "UPSERT"], "PLAN046", "/nodes/6/inputChangelogMode/1"),
        ("/nodes", [], "PLAN048", "/nodes"),
        ("/nodes", {}, "PLAN040", "/nodes"),
        ("/nodes", REMOVE, "PLAN041", ""),
        ("/edges", REMOVE, "PLAN041", ""),
        ("/flinkVersion", REMOVE, "PLAN041", ""),
        ("/flinkVersion", 2.3, "PLAN040", "/flinkVersion"),
        ("/flinkVersion", "2.3.0", "PLAN066", "/flinkVersion"),
        ("/flinkVersion", "9.9", "PLAN066", "/flinkVersion"),
        ("/stateplan", {}, "PLAN045", "/stateplan"),
        ("/edges/0/target", 99, "PLAN037", "/edges/0/target"),
        ("/edges/0/source", "1", "PLAN040", "/edges/0/source"),
        ("/edges/0/source", REMOVE, "PLAN041", "/edges/0"),
        ("/edges/0", 1, "PLAN040", "/edges/0"),
        ("/edges/0", REMOVE, "PLAN047", "/nodes/1"),
        ("/edges/0/shuffle/type", "HASH", "PLAN067", "/edges/0/shuffle"),
        ("/edges/0/shuffleMode", "BATCH", "PLAN067", "/edges/0/shuffleMode"),
        ("/edges/0/sources", 1, "PLAN045", "/edges/0/sources"),
        ("/edges/-", {"source": 6, "target": 2}, "PLAN039", "/edges/2"),
        ("/edges/-", {"source": 6, "target": 6}, "PLAN039", "/edges/6"),
        ("/edges/-", {"source": 1, "target": 6}, "PLAN047", "/nodes/5"),
        ("/edges/5/source", 4, "PLAN038", "/nodes/0"),
    ],
)  # fmt: skip
def test_refused(pointer: str, value: Any, code: str, place: str) -> None:
    error = refused(edited(join_plan(), pointer, value))
    assert (error.code, error.place and error.place.pointer) == (code, place), str(error)


@pytest.mark.parametrize(
    ("pointer", "value", "code", "place"),
    [
        ("/nodes/2/aggCalls/0/argList", [7], "PLAN049", "/nodes/2/aggCalls/0/argList/0"),
        ("/nodes/2/aggCalls/0/filterArg", 7, "PLAN049", "/nodes/2/aggCalls/0/filterArg"),
        ("/nodes/2/aggCalls/0/filterArg", -2, "PLAN040", "/nodes/2/aggCalls/0/filterArg"),
        ("/nodes/2/aggCalls/0/internalName", REMOVE, "PLAN044", "/nodes/2/aggCalls/0"),
        ("/nodes/2/aggCalls/0/systemName", "F", "PLAN044", "/nodes/2/aggCalls/0"),
        ("/nodes/2/aggCallNeedRetractions", [], "PLAN044", "/nodes/2/aggCallNeedRetractions"),
        ("/nodes/2/grouping", [4], "PLAN049", "/nodes/2/grouping/0"),
        ("/nodes/2/generateUpdateBefore", "true", "PLAN040", "/nodes/2/generateUpdateBefore"),
        ("/nodes/2/generateUpdateBefore", REMOVE, "PLAN041", "/nodes/2"),
        ("/nodes/2/configuration/table.exec.state.ttl", None, "PLAN040", "/nodes/2/configuration/table.exec.state.ttl"),
        ("/nodes/2/configuration/table.exec.state.ttl", "1 wek", "PLAN055",
         "/nodes/2/configuration/table.exec.state.ttl"),
        ("/nodes/2/outputType", "ROW<`a` DATE, `b` BIGINT, `c` INT>", "PLAN068", "/nodes/2/outputType"),
    ],
)  # fmt: skip
def test_refused_aggregates(pointer: str, value: Any, code: str, place: str) -> None:
    error = refused(edited(aggregate_plan(), pointer, value))
    assert (error.code, error.place and error.place.pointer) == (code, place), str(error)


def test_a_sort_by_time_has_a_field() -> None:
    plan = edited(frozen("stream-exec-temporal-sort_1", "rowtime"), "/nodes/3/orderBy/fields", [])
    error = refused(plan)
    assert (error.code, error.place and error.place.pointer) == ("PLAN044", "/nodes/3/orderBy/fields")


OPERAND = "/nodes/1/functionCall/operands/0"


@pytest.mark.parametrize(
    ("pointer", "value", "expected"),
    [
        (f"{OPERAND}/name", "xz", "one of a, b, xs, rs, m, x"),
        (f"{OPERAND}/expr/type", "ROW<`a` INT>", "one of a"),
        (f"{OPERAND}/expr/type", "INT", "a row with fields"),
    ],
)
def test_a_correlate_reads_fields_of_the_outer_row(pointer: str, value: str, expected: str) -> None:
    error = refused(edited(frozen("stream-exec-correlate_1", "left"), pointer, value))
    assert (error.code, error.expected) == ("PLAN030", expected)
    assert error.place is not None
    assert (error.place.pointer or "").startswith("/nodes/1/functionCall")


def test_a_correlate_reads_fields_of_its_input() -> None:
    graph = ExecGraph.from_json(edited(frozen("stream-exec-correlate_1", "left"), f"{OPERAND}/name", "x"))
    node = next(node for node in graph.nodes if node.title == "correlate")
    with pytest.raises(PlanError, match="reads 'x', field 5 of the outer row, and the input has 5 fields"):
        operator_of(node, graph.input_types(node), {})


@pytest.mark.parametrize("plan", [None, [], [1, 2], "plan", 3])
def test_a_plan_that_is_not_an_object(plan: Any) -> None:
    assert refused(plan).code == "PLAN065"


@pytest.mark.parametrize(
    ("pointer", "hint"),
    [
        ("/nodes/4/stat", "did you mean 'state'"),
        ("/nodes/4/leftUpsertKey", "did you mean 'leftUpsertKeys'"),
        (f"{STATE}/0/updatetype", "did you mean 'updateType'"),
        ("/nodes/4/joinSpec/leftkeys", "did you mean 'leftKeys'"),
        ("/nodes/0/scanTableSource/table/resolvedTable/option", "did you mean 'options'"),
        ("/nodes/0/scanTableSource/table/resolvedTable/schema/columns/1/datatype", "did you mean 'dataType'"),
        ("/nodes/0/scanTableSource/abilities/0/projectedField", "did you mean 'projectedFields'"),
        ("/nodes/0/scanTableSource/abilities/1/metadataKey", "did you mean 'metadataKeys'"),
        ("/nodes/4/inputProperties/0/priorty", "did you mean 'priority'"),
        ("/nodes/4/~0a~1b", None),
    ],
)
def test_unknown_keys(pointer: str, hint: str | None) -> None:
    """Refused where they matter; let through with a warning, kept and written back where Flink wrote the plan."""
    plan = edited(join_plan(), pointer.replace("~1", "\0").replace("~0", "~"), "kept")
    plan = json_unescape(plan)
    error = refused(plan)
    assert (error.code, error.place and error.place.pointer) == ("PLAN045", pointer)
    assert (error.hint or "").startswith(hint or "")
    graph = ExecGraph.from_json(plan, strict_unknown=False)
    (warning,) = graph.warnings
    assert warning.pointer == pointer
    assert (warning.hint or "").startswith(hint or "")
    assert graph.to_json() == plan


def json_unescape(value: Any) -> Any:
    """Keys with NUL for a slash, as :func:`edited` splits pointers at slashes."""
    if isinstance(value, dict):
        return {k.replace("\0", "/"): json_unescape(v) for k, v in value.items()}
    return [json_unescape(v) for v in value] if isinstance(value, list) else value


def test_an_unknown_key_explains_a_missing_one() -> None:
    plan = edited(edited(join_plan(), f"{STATE}/0/ttl", REMOVE), f"{STATE}/0/ttll", "1 h")
    assert refused(plan).code == "PLAN045"
    assert refused(plan, strict=False).code == "PLAN051"


def test_several_unknown_keys_are_all_reported() -> None:
    plan = edited(edited(join_plan(), f"{STATE}/0/a", 1), "/nodes/4/b", {"c": 2})
    plan = edited(edited(plan, "/nodes/0/d", []), "/edges/0/e", None)
    graph = ExecGraph.from_json(plan, strict_unknown=False)
    assert {w.pointer for w in graph.warnings} == {f"{STATE}/0/a", "/nodes/4/b", "/nodes/0/d", "/edges/0/e"}
    assert graph.node(5).to_json() == plan["nodes"][4]


def test_state_on_a_node_without_state_is_an_unknown_key() -> None:
    plan = edited(join_plan(), "/nodes/5/state", [TTL])
    assert refused(plan).code == "PLAN045"
    assert len(ExecGraph.from_json(plan, strict_unknown=False).warnings) == 1


def test_nodes_that_do_not_run_here_are_checked_as_far_as_they_are_known() -> None:
    plan = join_plan()
    plan["nodes"][4] = {
        "id": 5,
        "type": "stream-exec-delta-join_1",
        "condition": "anything",
        "leftJoinKey": True,
        "inputProperties": plan["nodes"][4]["inputProperties"],
        "outputType": plan["nodes"][4]["outputType"],
        "description": "",
    }
    error = refused(plan)
    assert (error.code, error.hint) == ("PLAN045", "did you mean 'leftJoinKeys' or 'rightJoinKeys'?")
    graph = ExecGraph.from_json(plan, strict_unknown=False)
    assert [w.pointer for w in graph.warnings] == ["/nodes/4/leftJoinKey"]
    assert unknown_keys(graph.node(5)) == ("/leftJoinKey",)
    assert graph.to_json() == plan
    with pytest.raises(PlanError, match="delta-join") as caught:
        operator_of(graph.node(5), graph.input_types(5), {})
    assert caught.value.code == "PLAN035"


def test_the_innermost_bad_operand_is_named() -> None:
    plan = frozen("stream-exec-calc_1", "expressions")
    pointer = "/nodes/1/projection/1/operands/0/operands/1"
    error = refused(edited(plan, f"{pointer}/kind", "CAL"))
    assert error.place is not None
    assert error.place.pointer == pointer


def test_messages_are_for_people() -> None:
    error = refused(edited(join_plan(), f"{STATE}/1", REMOVE))
    assert str(error) == (
        "[PLAN061] the state of join has 1 entry\n"
        "  --> at /nodes/4/state\n"
        "  expected: 2 entries for join: 0 leftState, 1 rightState\n"
        "  hint: without any entries the TTL of the configuration applies"
    )
    cycle = refused(edited(join_plan(), "/edges/-", {"source": 6, "target": 2}))
    assert cycle.message == "the nodes 5 (join) -> 6 (calc) -> 2 (exchange) -> 5 (join) form a cycle"


def test_a_type_whose_values_cannot_be_held() -> None:
    with pytest.raises(StateplanError, match="TYPE002") as caught:
        parse_type("RAW('java.lang.Object', 'AAAA')").polars()
    assert caught.value.expected == "a type other than RAW and SYMBOL"
