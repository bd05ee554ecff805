"""Compares a compiled plan with an expected one."""

from __future__ import annotations

import json
from collections.abc import Collection

from tests.planner.conftest import compiled, plain


def check(script: str, plan: str, left_out: Collection[str] = ()) -> None:
    got, expected = (
        {**p, "nodes": [{k: v for k, v in node.items() if k not in left_out} for node in p["nodes"]]}
        for p in (plain(compiled(script)), json.loads(plan))
    )
    descriptions = [node["description"] for node in expected["nodes"]]
    assert [node["description"] for node in got["nodes"]] == descriptions
    for ours, theirs in zip(got["nodes"], expected["nodes"], strict=True):
        assert list(ours) == list(theirs)
        assert ours == theirs
    assert got == expected
