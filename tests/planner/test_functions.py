"""Calls of functions in projections and conditions, and what of them sources are told: all as Flink 2.3 writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.planner.conftest import compiled

TABLE = """
CREATE TABLE ft (a INT, b BIGINT, c STRING, d DOUBLE, e DECIMAL(10, 2), f DATE, g BOOLEAN, h TIMESTAMP(3),
    i TIMESTAMP_LTZ(3), j TIME(0), bin BYTES, ar ARRAY<INT>, sa ARRAY<STRING>, mp MAP<STRING, INT>, fl FLOAT,
    sm SMALLINT, ti TINYINT, ch CHAR(3), vc VARCHAR(5))
  WITH ('connector' = 'filesystem', 'path' = '/data/ft', 'format' = 'json');
"""
CASES: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "functions.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=[case["sql"] for case in CASES])
def test_calls(case: dict[str, Any]) -> None:
    sink = f"CREATE TABLE snk ({case['sink']}) WITH ('connector' = 'print');"
    nodes = compiled(f"{TABLE}{sink}INSERT INTO snk {case['sql']};")["nodes"][:-1]
    descriptions = [n["description"].replace("default_catalog, default_database, ", "") for n in nodes]
    assert descriptions == case["descriptions"]
    abilities = nodes[0]["scanTableSource"].get("abilities", [])
    assert [p for a in abilities if a["type"] == "FilterPushDown" for p in a["predicates"]] == case["filter"]
    if case["projection"] is not None:
        assert nodes[1]["projection"] == case["projection"]
        assert nodes[1]["condition"] == case["condition"]
