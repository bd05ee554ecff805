"""Flink's own test programs: their frozen plans over recorded rows, before and after a restart with the state kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from execnodes.connectors.print import format_rows
from execnodes.graph import ExecGraph
from execnodes.runtime.translate import translate
from tests.support.local import LocalRun

__all__ = ["run_program"]


def _columns(table: dict[str, Any]) -> list[str]:
    text = ", ".join(table["schema"])
    return [part.strip().split()[0].strip("`") for part in text.split(",")]


def _plan(plan: Path, program: dict[str, Any], folder: Path, phase: str) -> ExecGraph:
    """The plan reading the rows of a phase (``before_restore``, ``after_restore``), one of each table at a time."""
    folder.mkdir(parents=True)
    sources = {s["name"]: s for s in program["sources"]}
    for offset, (name, table) in enumerate(sources.items()):
        lines = []
        for n, (kind, values) in enumerate(table[phase] or ()):
            assert kind == "+I", f"{name} has other changes than insertions"
            row = dict(zip(_columns(table), values, strict=True))
            lines.append(json.dumps({**row, "@at": n * len(sources) + offset + 1}) + "\n")
        (folder / f"{name}.json").write_text("".join(lines))
    data: dict[str, Any] = json.loads(plan.read_text())
    for node in data["nodes"]:
        for key, options in (
            ("scanTableSource", lambda n: {"connector": "replay", "format": "json", "path": str(folder / f"{n}.json")}),
            ("dynamicTableSink", lambda n: {"connector": "print"}),
        ):
            if key in node:
                table = node[key]["table"]
                table["resolvedTable"]["options"] = options(table["identifier"].split("`")[-2])
    return ExecGraph.from_json(data, strict_unknown=False)


def run_program(plan: Path, program: Path, folder: Path) -> tuple[list[str], list[str], list[str]]:
    """The lines that the program's one sink prints before and after the restart, and those Flink expects in all."""
    spec = json.loads(program.read_text())
    (sink,) = spec["sinks"]
    local: LocalRun | None = None
    printed: list[list[str]] = []
    now = 0
    for phase in ("before_restore", "after_restore"):
        graph = translate(_plan(plan, spec, folder / phase, phase), {}, key_groups=3)
        local = LocalRun(graph) if local is None else local.continue_with(graph)
        readers: list[Any] = [s.reader for s in graph.sources]
        lines: list[str] = []
        for at in sorted({i for r in readers for i in r.table.instants()}):
            now += 1
            rows = {i: list(r.read({"now": at})) for i, r in enumerate(readers)}
            (frames,) = local.batch(rows, now)
            for frame in frames:
                lines += format_rows(frame, [t for _, t in graph.sinks[0].columns], None)
        printed.append(lines)
    expected = sink["expected_materialized"] or [*(sink["expected_before"] or []), *(sink["expected_after"] or [])]
    return printed[0], printed[1], expected
