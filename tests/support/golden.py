"""Golden cases of the planner: SQL, the plan that Flink 2.3 compiled, and where known the rows that its job left.

``tests/planner/cases`` has a text file per subject, and beside it the plans themselves, their nodes one a line.
See the README there for the format. ``python -m tests.support.golden`` lists, shows and adds cases.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "planner" / "cases"
FLINK = "2.3"
"""The version of Flink that compiled the plans."""

_CASE, _TABLES, _USING, _PART = "=== ", "=== tables: ", "using: ", "--- "
_NODE = "node "
_EDGE = {"shuffle": {"type": "FORWARD"}, "shuffleMode": "PIPELINED"}
"""What every edge of a plan has besides its ends."""


@dataclass(frozen=True)
class GoldenCase:
    """A query with Flink's plan.

    Attributes:
        subject: the name of its file.
        title: what it is about; unique in the file.
        script: its statements, those of the shared tables first.
        tree: the operators of the plan, the sink first, an input below its reader.
        rows: what Flink's job left, sorted, one JSON-like row per line; None where it was not run.
    """

    subject: str
    title: str
    script: str
    tree: str
    rows: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """Subject and title."""
        return f"{self.subject}: {self.title}"

    @property
    def plan(self) -> str:
        """The plan as Flink wrote it."""
        return plans(self.subject)[self.title]


@cache
def plans(subject: str) -> Mapping[str, str]:
    """Title to plan, of the cases of one file."""
    nodes: dict[str, dict[str, Any]] = {}
    found: dict[str, dict[str, Any]] = {}
    plan: dict[str, Any] = {}
    for line in (FOLDER / f"{subject}.plans").read_text(encoding="utf-8").splitlines():
        if line.startswith(_CASE):
            plan = found[line.removeprefix(_CASE)] = {"flinkVersion": FLINK, "nodes": [], "edges": []}
        elif line[:1].isdecimal():
            number, digest, *inputs = line.split()
            plan["nodes"].append({"id": int(number), **nodes[digest]})
            plan["edges"] += [{"source": int(source), "target": int(number), **_EDGE} for source in inputs]
        elif line:
            digest, _, node = line.removeprefix(_NODE).partition(" ")
            nodes[digest] = json.loads(node)
    return {title: json.dumps(plan, ensure_ascii=False) for title, plan in found.items()}


def tree_of(plan: Mapping[str, Any]) -> str:
    """The operators of a plan as Flink's EXPLAIN indents them; one that several read is written out once."""
    described = {node["id"]: node["description"] for node in plan["nodes"]}
    inputs: dict[int, list[int]] = defaultdict(list)
    for edge in plan["edges"]:
        inputs[edge["target"]].append(edge["source"])
    read = {edge["source"] for edge in plan["edges"]}
    lines: list[str] = []
    seen: set[int] = set()

    def add(node: int, own: str, below: str) -> None:
        again = node in seen and bool(inputs[node])
        lines.append(own + described[node] + ("   (as above)" if again else ""))
        if again:
            return
        seen.add(node)
        for position, child in enumerate(inputs[node], start=1):
            last = position == len(inputs[node])
            add(child, below + ("+- " if last else ":- "), below + ("   " if last else ":  "))

    for node in described:
        if node not in read:
            add(node, "", "")
    return "\n".join(lines)


def _parse(path: Path) -> Iterator[GoldenCase]:
    text = path.read_text(encoding="utf-8")
    tables: dict[str, str] = {}
    for block in f"\n{text}".split(f"\n{_CASE}")[1:]:
        head, _, body = block.partition("\n")
        body = "\n".join(line for line in body.splitlines() if not line.startswith("#"))
        if head.startswith(_TABLES.removeprefix(_CASE)):
            tables[head.removeprefix(_TABLES.removeprefix(_CASE))] = body.strip()
            continue
        first, *parts = f"\n{body}".split(f"\n{_PART}")
        used = [
            name for line in first.splitlines() if line.startswith(_USING) for name in line[len(_USING) :].split(", ")
        ]
        part = {name: content.strip("\n") for name, _, content in (p.partition("\n") for p in parts)}
        script = "\n".join([*(tables[name] for name in used), part["sql"]])
        rows = tuple(part["rows"].splitlines()) if "rows" in part else None
        yield GoldenCase(path.stem, head, script, part["plan"], rows)


@cache
def golden_cases() -> tuple[GoldenCase, ...]:
    """All cases, in the order of the files."""
    return tuple(case for path in sorted(FOLDER.glob("*.txt")) for case in _parse(path))


def _write_plans(subject: str, found: Mapping[str, str]) -> None:
    nodes: dict[str, str] = {}
    cases: list[str] = []
    for title, text in found.items():
        plan = json.loads(text)
        cases += ["", f"{_CASE}{title}"]
        for node in plan["nodes"]:
            number = node.pop("id")
            line = json.dumps(node, ensure_ascii=False, separators=(",", ":"))
            digest = hashlib.sha256(line.encode()).hexdigest()[:12]
            nodes[line] = f"{_NODE}{digest} {line}"
            inputs = [str(edge["source"]) for edge in plan["edges"] if edge["target"] == number]
            cases.append(" ".join((str(number), digest, *inputs)))
    lines = [nodes[line] for line in sorted(nodes)] + cases
    (FOLDER / f"{subject}.plans").write_text("\n".join(lines) + "\n", encoding="utf-8")
    plans.cache_clear()
    for title, text in found.items():
        if json.loads(plans(subject)[title]) != json.loads(text):
            sys.exit(f"{subject}: {title}: the plan has something that its file does not keep")


def _add(subject: str, title: str, script: str, plan: str, rows: str | None) -> None:
    """Appends a case to its file, with the tables it uses in its own SQL."""
    path = FOLDER / f"{subject}.txt"
    text = path.read_text(encoding="utf-8") if path.exists() else f"# {subject.replace('_', ' ')}\n"
    text += f"\n{_CASE}{title}\n{_PART}sql\n{script.strip()}\n{_PART}plan\n{tree_of(json.loads(plan))}\n"
    text += "" if rows is None else f"{_PART}rows\n{rows.strip()}\n"
    known = dict(plans(subject)) if path.exists() else {}
    if title in known:
        sys.exit(f"{subject} has a case of this title")
    path.write_text(text, encoding="utf-8")
    _write_plans(subject, {**known, title: plan})


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.golden", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="subject and title of every case")
    show = commands.add_parser("show", help="script and whole plan of the cases whose name has a text in it")
    show.add_argument("text")
    add = commands.add_parser("add", help="add a case from a script and the plan that Flink compiled of it")
    add.add_argument("subject")
    add.add_argument("title")
    add.add_argument("--script", type=Path, required=True)
    add.add_argument("--plan", type=Path, required=True)
    add.add_argument("--rows", type=Path, help="what Flink's job left, one row per line")
    given = parser.parse_args()
    if given.command == "add":
        rows = given.rows.read_text(encoding="utf-8") if given.rows else None
        _add(given.subject, given.title, given.script.read_text("utf-8"), given.plan.read_text("utf-8"), rows)
    for case in golden_cases() if given.command != "add" else ():
        if given.command == "list":
            print(case.name)
        elif given.text in case.name:
            print(f"== {case.name}\n{case.script}\n\n{case.plan}\n")


if __name__ == "__main__":
    main()
