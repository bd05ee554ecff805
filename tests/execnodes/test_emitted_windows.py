"""Windows in GROUP BY that are emitted early or late, in plans."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from stateplan.common.changelog import INSERT_ONLY, RowKind, updating
from stateplan.common.errors import StateplanError
from stateplan.execnodes.fingerprint import fingerprints
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.window_aggregates import GroupWindowAggregate
from stateplan.runtime.kernels.window_aggregate import WindowAggregateKernel
from stateplan.runtime.kernels.window_emission import WindowEmissionKernel
from stateplan.runtime.operators import Stateful, operator_of
from tests.execnodes.node_plans import frozen

EARLY = {"table.exec.emit.early-fire.enabled": "true", "table.exec.emit.early-fire.delay": "1 s"}
LATE = {"table.exec.emit.late-fire.enabled": "true", "table.exec.emit.late-fire.delay": "0 s"}


def plan(emit: str = "") -> dict[str, Any]:
    data = copy.deepcopy(frozen("stream-exec-group-window-aggregate_1", "emitted-early"))
    for node in data["nodes"]:
        if node["type"] == GroupWindowAggregate.type_name():
            text = node["description"]
            at = text.index(", emit=[")
            node["description"] = text[:at] + (f", emit=[{emit}])" if emit else ")")
    return data


def node_of(data: dict[str, Any]) -> tuple[GroupWindowAggregate, ExecGraph]:
    graph = ExecGraph.from_json(data)
    return next(n for n in graph.nodes if isinstance(n, GroupWindowAggregate)), graph


def test_flinks_plan_says_it_in_the_description() -> None:
    node, graph = node_of(frozen("stream-exec-group-window-aggregate_1", "emitted-early"))
    assert node.changelog_mode([INSERT_ONLY], True) == updating(True, deletes=False)
    assert RowKind.UPDATE_BEFORE not in (node.changelog_mode([INSERT_ONLY], False) or ())
    part = operator_of(node, [i.output_type for i in graph.inputs(node)], EARLY)
    assert isinstance(part, Stateful) and isinstance(part.kernel, WindowEmissionKernel)
    assert part.kernel.emission.early == 1000 and part.kernel.emission.late is None


def test_without_it_windows_are_emitted_once() -> None:
    node, graph = node_of(plan())
    assert node.changelog_mode([INSERT_ONLY], True) == INSERT_ONLY
    part = operator_of(node, [i.output_type for i in graph.inputs(node)], {})
    assert isinstance(part, Stateful) and isinstance(part.kernel, WindowAggregateKernel)


def test_state_is_not_shared_between_ways_of_emission() -> None:
    emits = ["", "early no delay", "early delay 1000 millisecond", "late no delay"]
    uids = {fingerprints(graph)[node.id] for node, graph in map(node_of, map(plan, emits))}
    assert len(uids) == 4


@pytest.mark.parametrize(
    ("emit", "options", "code", "words"),
    [
        ("", EARLY, "OPT006", "at their end only, and the options of the session say 'early delay 1000 millisecond'"),
        ("early no delay", EARLY, "OPT006", "emits windows 'early no delay'"),
        ("early no delay", {}, "OPT006", "emits windows 'early no delay'"),
        ("late no delay", LATE, "PLAN035", "late results of windows that are not kept"),
    ],
)
def test_options_that_do_not_fit(emit: str, options: dict[str, str], code: str, words: str) -> None:
    node, graph = node_of(plan(emit))
    with pytest.raises(StateplanError) as caught:
        operator_of(node, [i.output_type for i in graph.inputs(node)], options)
    assert caught.value.code == code and words in str(caught.value)


@pytest.mark.parametrize(("size", "told"), [("PT0S", "0"), (-5, "-5")])
def test_a_window_without_length(size: str | int, told: str) -> None:
    data = plan()
    node = next(node for node in data["nodes"] if node["type"] == GroupWindowAggregate.type_name())
    node["window"]["size"] = size
    with pytest.raises(StateplanError) as caught:
        node_of(data)
    assert caught.value.code == "PLAN044" and f"the size of a window is {told} ms" in str(caught.value)
    assert f"/nodes/{data['nodes'].index(node)}/window" in str(caught.value)


def test_lateness_is_the_ttl_of_state_where_no_other_is_given() -> None:
    node, graph = node_of(plan("late no delay"))
    for options, lateness in (
        ({"table.exec.state.ttl": "1 h"}, 3_600_000),
        ({"table.exec.state.ttl": "1 h", "table.exec.emit.allow-lateness": "5 s"}, 5000),
    ):
        part = operator_of(node, [i.output_type for i in graph.inputs(node)], LATE | options)
        assert isinstance(part, Stateful) and isinstance(part.kernel, WindowEmissionKernel)
        assert part.kernel.emission.lateness == lateness
