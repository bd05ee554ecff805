"""How a plan says that rows are looked up again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stateplan.common.errors import StateplanError
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.nodes.lookup_join import LookupJoin
from tests.execnodes.node_plans import FROZEN


def plan(**changes: Any) -> dict[str, Any]:
    path = FROZEN / "stream-exec-lookup-join_1" / "retry.json"
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    node = next(n for n in loaded["nodes"] if n["type"] == LookupJoin.type_name())
    node["retryOptions"] |= changes
    return loaded


def test_what_is_said_of_it() -> None:
    graph = ExecGraph.from_json(plan())
    node = next(n for n in graph.nodes if isinstance(n, LookupJoin))
    assert node.retry_options is not None
    assert node.retry_options.summary == "lookup_miss, FIXED_DELAY, 10000ms, 3"
    assert "(again 3 times after 10 s)" in node.describe([i.output_type for i in graph.inputs(node)])


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("retry-predicate", "exception", "lookup_miss"),
        ("retry-strategy", "BACKOFF", "FIXED_DELAY"),
        ("fixed-delay", 0, "0"),
        ("fixed-delay", "10 s", "10 s"),
        ("max-attempts", -1, "-1"),
        ("retries", 3, "retries"),
    ],
)
def test_retries_that_make_no_sense(key: str, value: object, said: str) -> None:
    with pytest.raises(StateplanError) as caught:
        ExecGraph.from_json(plan(**{key: value}))
    assert caught.value.code.startswith("PLAN")
    assert said in str(caught.value)
    assert key in str(caught.value)
