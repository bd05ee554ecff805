"""The JSON and Debezium readers give what Flink 2.3.0's deserialization schemas gave for the same lines.

``golden/json.jsonl`` and ``golden/debezium_json.jsonl`` hold the observed results: rows as the print connector shows
them, or that there was an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from connector_tables import cases, fields, read_lines, table

from stateplan.common.errors import StateplanError

REASONS = {
    "place": "Flink's default reader loses its place after a key that comes twice or a list where a number should be; "
    "its other reader does what is done here",
    "tree": "an oddity of Flink's other reader alone (blank lines and null are skipped, 1e400 becomes Infinity)",
    "cut": "a timestamp is cut to its precision here, in Flink only when the row is next serialised",
    "part": "with ignore-parse-errors, rows before the one that is missing in an event are read by Flink",
    "time": "a time of an event that cannot be read is NULL here",
}


def deviation(case: dict[str, Any]) -> str | None:
    """Why the result differs from Flink's on purpose."""
    line, options = case.get("line", ""), case["options"]
    tree = options.get("json.decode.json-parser.enabled") == "false"
    skips = "json.ignore-parse-errors" in options
    if line == '{"a":1,"a":2,"b":"x"}' or (skips and line.startswith(('{"a":[1,2]', '{"a":{"z"'))):
        return None if tree else "place"
    if line == '{"a":1,"a":2}' and "json.fail-on-missing-field" in options:
        return "place"
    if tree and ((line in ("   ", "null") and len(options) == 1) or line == '{"b":1e400}'):
        return "tree"
    if (
        'a":1' in line
        and '"old":[{"b":"o1"}],' in line
        and "},{" in line
        and "canal-json.ignore-parse-errors" in options
    ):
        return "part"
    if case.get("metadata"):
        odd = ('"op_ts":"2020-05-13T', '"op_ts":"2020-05-13 15:40"', '"op_ts":"2020-05-13 15:40:07."')
        return "time" if any(text in line for text in odd) else None
    if "TIMESTAMP(" in case["type"] and "(9)" not in case["type"] and '.123456789"' in line:
        return "cut"
    return None


def observed(case: dict[str, Any], fmt: str, folder: Path) -> str | None:
    path = folder / "one.json"
    path.write_bytes((bytes.fromhex(case["hex"]) if "hex" in case else case["line"].encode()) + b"\n")
    try:
        metadata = [f"value.{key}" for key in case.get("metadata", ())]
        rows = read_lines(table(fmt) | case["options"], fields(case["type"]), path, metadata)
    except StateplanError:
        return None
    return ("[" + ", ".join(rows) + "]").replace("\n", "\\n")


@pytest.mark.parametrize("fmt", ["json", "debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_lines_read_as_in_flink(fmt: str, tmp_path: Path) -> None:
    wrong, count = [], 0
    for case in cases(fmt.replace("-", "_") + ".jsonl"):
        count += 1
        got, reason = observed(case, fmt, tmp_path), deviation(case)
        if reason is None and got != case.get("rows"):
            wrong.append((case, got))
        if reason is not None and got == case.get("rows"):
            wrong.append((case, f"no longer differs: {REASONS[reason]}"))
    assert wrong == []
    assert count > 30
