"""A difference of plans takes the name of an accident only where the plans are equal but for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.plan_differences import accident_of

SUM = {"name": "x", "internalName": "$SUM$1", "argList": [0]}
SUM_0 = {"name": "x", "internalName": "$$SUM0$1", "argList": [0]}
HINT = ", hints=[[[ALIAS options:[q]]]]"


def node(description: str, output: str = "ROW<`a` INT, `x` INT>", **more: Any) -> dict[str, Any]:
    return {"id": 1, "type": "stream-exec-calc_1", "outputType": output, "description": description, **more}


@pytest.mark.parametrize(
    ("ours", "theirs", "name"),
    [
        (
            node("Calc(select=[a, (a + 1) AS x])"),
            node("Calc(select=[a, (a + 1) AS $1])", "ROW<`a` INT, `$1` INT>"),
            "only names of fields differ",
        ),
        (
            node("Join(where=[((a = w$start) AND (x = x0))])", "ROW<`a` INT, `w$start` INT>"),
            node("Join(where=[((a = a0) AND (x = x0))])"),
            "only names of fields differ",
        ),
        (
            node("Calc(select=[a, $6 AS x, (a + 1) AS $7])"),
            node("Calc(select=[a, x, (a + 1) AS x0])"),
            "only names of fields differ",
        ),
        (node("Join(where=[(a = a0)])"), node("Join(where=[(a > a0)])"), ""),
        (node("Calc(select=[a, $6 AS x])"), node("Calc(select=[a, 6 AS x])"), ""),
        (node("Calc(select=[a, (a + 1) AS x])"), node("Calc(select=[a, (a + 2) AS x])"), ""),
        (node("Calc(select=[a])"), node("Calc(select=[a])", "ROW<`a` INT, `x` BIGINT>"), ""),
        (
            node("Calc(select=[a, x, f(b, a) AS c], where=[(a > 1)])"),
            node("Calc(select=[a, f(b, a) AS c], where=[(a > 1)])", "ROW<`a` INT>"),
            "only columns that nobody reads differ",
        ),
        (node("Calc(select=[a, f(b) AS c])"), node("Calc(select=[a, f(a) AS c])", "ROW<`a` INT>"), ""),
        (node("Calc(select=[a, x], where=[(a > 1)])"), node("Calc(select=[a], where=[(a > 2)])", "ROW<`a` INT>"), ""),
        (node(f"Scan(fields=[a]{HINT})"), node("Scan(fields=[a])"), "an alias is shown as a hint"),
        (node(f"Scan(fields=[a]{HINT})"), node("Scan(fields=[a], limit=[1])"), ""),
        (
            node("GroupAggregate(select=[SUM(a) AS x])", aggCalls=[SUM]),
            node("GroupAggregate(select=[$SUM0(a) AS x])", aggCalls=[SUM_0]),
            "SUM of values that are never NULL is $SUM0",
        ),
        (
            node("GroupAggregate(select=[SUM(a) AS x])", aggCalls=[SUM]),
            node("GroupAggregate(select=[$SUM0(a) AS x])", aggCalls=[{**SUM_0, "argList": [1]}]),
            "",
        ),
    ],
)
def test_names(ours: dict[str, Any], theirs: dict[str, Any], name: str, tmp_path: Path) -> None:
    for file, one in (("ours.json", ours), ("plan.json", theirs)):
        (tmp_path / file).write_text(json.dumps({"nodes": [one], "edges": []}))
    assert accident_of(tmp_path) == name
