"""Every plan is Flink's: scripts that Flink 2.3 compiled, and the plans it made of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.planner_query.conftest import compiled, plain, script_of

GOLDEN = Path(__file__).parent / "golden"
SHARED = (
    "dedup_keep_first_proctime",
    "dedup_keep_last_proctime",
    "group_agg_retract",
    "join_inner_append",
    "join_inner_hint_ttl",
    "join_inner_pk",
    "nottl_dedup_keep_last",
    "statement_set_two_sinks",
    "ttl_dedup_keep_first",
    "ttl_group_agg",
    "ttl_join_left_short",
    "union_distinct_agg",
    "withttl_group_agg",
)


def check(folder: Path) -> None:
    got = plain(compiled(script_of(folder)))
    expected = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    descriptions = [node["description"] for node in expected["nodes"]]
    assert [node["description"] for node in got["nodes"]] == descriptions
    for ours, theirs in zip(got["nodes"], expected["nodes"], strict=True):
        assert list(ours) == list(theirs)
        assert ours == theirs
    assert got == expected


@pytest.mark.parametrize("name", sorted(p.name for p in GOLDEN.iterdir() if p.is_dir()))
def test_plan_equals_flinks(name: str) -> None:
    check(GOLDEN / name)


@pytest.mark.parametrize("name", SHARED)
def test_case_equals_flinks(name: str, shared: Path) -> None:
    check(shared / "cases" / name)
