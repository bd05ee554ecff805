"""The CSV reader gives what Flink 2.3.0's filesystem source gave for the same files (``golden/csv.jsonl``)."""

from __future__ import annotations

from pathlib import Path

from connector_tables import cases, fields, read_lines, table

from stateplan.common.errors import StateplanError


def test_files_read_as_in_flink(tmp_path: Path) -> None:
    wrong, count = [], 0
    path = tmp_path / "one.csv"
    for case in cases("csv.jsonl"):
        count += 1
        path.write_bytes(case["text"].encode())
        columns = fields(case["columns"])
        try:
            got: list[str] | None = read_lines(table("csv") | case["options"], columns, path)
        except StateplanError:
            got = None
        if got is not None and len(columns) == 1:
            got = [line.removeprefix("+I[").removesuffix("]") for line in got]
        if got != case.get("lines"):
            wrong.append((case, got))
    assert wrong == []
    assert count > 130
