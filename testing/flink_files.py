"""Tables of a test as files that Flink reads and writes: JSON, or the events of Debezium where a table has changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from stateplan.common.changelog import INSERT_ONLY, RowKind
from stateplan.common.errors import StateplanError
from stateplan.connectors.filesystem import Filesystem
from stateplan.connectors.listing import natural_key
from stateplan.execnodes.nodes.sink import Sink
from stateplan.testing.rows import Change, Fields
from stateplan.testing.story import Case
from stateplan.testing.story_plan import Input, Output, StoryPlan

ENGINE = "Flink"


def require_files(case: Case, plan: StoryPlan) -> None:
    """Raises StateplanError TEST008, if a table of the plan cannot be files of Flink."""
    for name, table in plan.inputs().items():
        if table.mode != INSERT_ONLY and RowKind.UPDATE_BEFORE not in table.mode:
            raise refusal(case, f"table '{name}' has upserts, for which Flink has no files")
    for sink in plan.graph.sinks:
        if isinstance(sink, Sink) and (sink.gets_upserts or sink.require_upsert_materialize):
            raise refusal(case, "it writes upserts, for which Flink has no files")
        if isinstance(sink, Sink) and sink.conflict_strategy is not None:
            raise refusal(case, "ON CONFLICT needs a table of upserts, for which Flink has no files")


def refusal(case: Case, why: str, line: int | None = None) -> StateplanError:
    """TEST008: Flink cannot run a test."""
    return StateplanError("TEST008", engine=ENGINE, why=why, place=case.place(case.line if line is None else line))


def file_options(path: Path, has_changes: bool) -> dict[str, str]:
    """The options of a table over files."""
    fmt = "debezium-json" if has_changes else "json"
    return {
        "connector": Filesystem.name,
        "path": str(path),
        "format": fmt,
        f"{fmt}.timestamp-format.standard": "SQL",
    }


def flink_line(line: bytes, table: Input) -> str:
    """A row for a file of Flink: JSON, or an event of Debezium where the table has changes."""
    value: dict[str, Any] = json.loads(line)
    kind = value.pop("_op")
    if table.mode == INSERT_ONLY:
        return json.dumps(value, ensure_ascii=False) + "\n"
    side = (
        {"before": value, "after": None, "op": "d"} if kind[0] == "-" else {"before": None, "after": value, "op": "c"}
    )
    return json.dumps(side, ensure_ascii=False) + "\n"


def committed_lines(folder: Path, seen_files: set[str]) -> Iterator[str]:
    """The lines of the files that a sink of Flink has committed, without those of ``seen_files``, which become more."""
    files = [str(p) for p in folder.rglob("*") if p.is_file() and not p.name.startswith((".", "_"))]
    for path in sorted(set(files) - seen_files, key=natural_key):
        seen_files.add(path)
        yield from Path(path).read_text("utf-8").splitlines()


def output_changes(output: Output, lines: Iterable[str]) -> list[Change]:
    """The changes in lines of a sink. Debezium has no updates: they are a deletion and an insertion."""
    rows: list[bytes] = []
    for text in lines:
        event = json.loads(text)
        for side, kind in (("before", "-D"), ("after", "+I")):
            if event.get(side) is not None:
                rows.append(json.dumps({"_op": kind, **event[side]}, ensure_ascii=False).encode())
    plain = Fields(output.fields.fields, output.fields.zone)
    return plain.changes([plain.frame(rows)]) if rows else []
