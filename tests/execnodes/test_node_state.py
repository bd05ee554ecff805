"""State entries of a node, and which TTL rules."""

from __future__ import annotations

from typing import Any

import pytest

from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.base import STATE_TTL
from stateplan.execnodes.nodes.sink import Sink
from stateplan.execnodes.specs import StateMetadata
from tests.execnodes.node_plans import edited, frozen, join_plan

HOUR, DAY = 3_600_000, 86_400_000


def join(state: Any, configuration: dict[str, Any] | None = None) -> Any:
    plan = edited(join_plan(), "/nodes/4/state", state)
    if configuration is not None:
        plan["nodes"][4]["configuration"] = configuration
    return ExecGraph.from_json(plan).node(5)


BOTH = [{"index": 0, "ttl": "7 d", "name": "leftState"}, {"index": 1, "ttl": "1 d", "name": "rightState"}]


def test_the_plans_entries_win() -> None:
    node = join(BOTH, {STATE_TTL: "1 h"})
    assert node.ttls({STATE_TTL: "2 h"}) == (7 * DAY, DAY)
    assert [entry.name for entry in node.states] == ["leftState", "rightState"]


@pytest.mark.parametrize("state", [None, []])
def test_without_entries_the_node_then_the_session_decides(state: Any) -> None:
    assert join(state, {STATE_TTL: "1 h"}).ttls({STATE_TTL: "2 h"}) == (HOUR, HOUR)
    assert join(state).ttls({STATE_TTL: "2 h"}) == (2 * HOUR, 2 * HOUR)
    assert join(state).ttls({}) == (0, 0)
    assert join(state).ttls() == (0, 0)
    assert "state" not in join(state).to_json()


def test_a_number_in_the_configuration_is_milliseconds() -> None:
    assert join([], {STATE_TTL: 3_600_000}).ttls() == (HOUR, HOUR)


def test_entries_may_stand_in_any_order_and_keep_it() -> None:
    node = join(BOTH[::-1])
    assert node.ttls() == (7 * DAY, DAY)
    assert [entry["index"] for entry in node.to_json()["state"]] == [1, 0]


def test_an_entry_without_index_is_the_first() -> None:
    node = join([{"ttl": "7 d", "name": "leftState"}, {"index": "1", "ttl": 86400000, "name": "other"}])
    assert node.ttls() == (7 * DAY, DAY)
    assert node.to_json()["state"] == [
        {"index": 0, "ttl": "7 d", "name": "leftState"},
        {"index": 1, "ttl": "1 d", "name": "other"},
    ]


def test_ttls_are_written_in_the_largest_unit() -> None:
    entry = StateMetadata(index=0, ttl=5_400_000, name="leftState")
    assert entry.to_json() == {"index": 0, "ttl": "90 min", "name": "leftState"}
    assert entry.model_dump(by_alias=True, exclude_none=True) == entry.to_json()


def test_further_fields_of_a_state_are_kept() -> None:
    data = {"index": 0, "ttl": "1 h", "name": "s", "updateType": "OnReadAndWrite",
            "visibility": "ReturnExpiredIfNotCleanedUp", "timeCharacteristic": "EventTime"}  # fmt: skip
    assert StateMetadata.model_validate(data).to_json() == data


def test_only_a_sink_that_materializes_has_state() -> None:
    plan = frozen("stream-exec-sink_2", "materialize")
    (sink,) = ExecGraph.from_json(plan).sinks
    assert isinstance(sink, Sink)
    assert (sink.state_names, sink.ttls()) == (("sinkMaterializeState",), (2 * DAY,))
    plan["nodes"][-1]["requireUpsertMaterialize"] = False
    (plain,) = ExecGraph.from_json(plan).sinks
    assert plain.state_names == ()
