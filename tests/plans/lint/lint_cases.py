"""The cases of the lint rules: plans with edits, what a rule says about them, and runs that show what is wrong."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from plans.document import PlanDocument
from plans.lint import fix

FOLDER = Path(__file__).parent / "cases"
_PLACE = re.compile(r"([a-z-]+)(?:#(\d+))?(?:\.([\w-]+))?")


@dataclass(frozen=True)
class RuleCases:
    """The file of one rule."""

    code: str
    data: Mapping[str, Any]

    def cases(self, kind: str) -> list[dict[str, Any]]:
        """The cases of a kind, ``pass``, ``fail`` or ``fix``."""
        return list(self.data.get(kind) or ())

    @property
    def example(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.data["example"]
        return found

    def compiled(self, name: str, folder: str = "/data") -> PlanDocument:
        """The plan ``name`` of this file, freshly compiled."""
        plan = self.data["plans"][name]
        return compiled(plan["sql"].replace("${DIR}", folder), tuple((plan.get("options") or {}).items()))


@cache
def all_cases() -> dict[str, RuleCases]:
    """Code of a rule to its file."""
    return {p.stem: RuleCases(p.stem, yaml.safe_load(p.read_text())) for p in sorted(FOLDER.glob("*.yml"))}


@cache
def _compiled(sql: str, options: tuple[tuple[str, str], ...]) -> str:
    from planner.environment import TableEnvironment
    from planner.script import read_script

    environment = TableEnvironment.create({"table.local-time-zone": "UTC", **dict(options)})
    *before, insert = read_script(sql)
    for statement in before:
        environment.execute_statement(statement)
    return environment.compile_document(insert.node, insert.source).text


def compiled(sql: str, options: tuple[tuple[str, str], ...] = ()) -> PlanDocument:
    """The plan of a script whose last statement is an INSERT."""
    return PlanDocument.parse(_compiled(sql, options), "plan.json")


def state_place(document: PlanDocument, place: str) -> tuple[int, int]:
    """Node id and state index of ``join.leftState``, ``deduplicate``, or ``rank#2``: the second in the plan."""
    match = _PLACE.fullmatch(place)
    assert match, place
    title, number, state = match.groups()
    nodes = [n for n in document.graph.nodes if n.title == title]
    assert nodes, f"{place}: the plan has {[n.title for n in document.graph.nodes]}"
    node = nodes[int(number or 1) - 1]
    return node.id, list(node.state_names).index(state) if state else 0


def edited(document: PlanDocument, ttls: Mapping[str, str]) -> PlanDocument:
    """A copy of ``document`` with these TTLs, by place."""
    out = copy.copy(document)
    for place, ttl in ttls.items():
        node, index = state_place(out, place)
        out.set_ttl(node, index, ttl)
    return out


def without_ttls(document: PlanDocument) -> PlanDocument:
    """A copy in which no state expires."""
    out = copy.copy(document)
    for node in document.graph.nodes:
        for index in range(len(node.state_names)):
            out.set_ttl(node.id, index, 0)
    return out


def subject(rule: RuleCases, case: Mapping[str, Any]) -> PlanDocument:
    """The plan of a case: compiled, with its TTLs, and with other texts where it says so."""
    text = edited(rule.compiled(case["plan"]), case.get("set") or {}).text
    for old, new in (case.get("replace") or {}).items():
        assert old in text, old
        text = text.replace(old, new)
    return PlanDocument.parse(text, "plan.json")


def write_rows(rows: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path) -> None:
    """Files for replay tables: ``{at: 2 h, ...}``, or ``{at: 2 h, change: {before:, after:, op:}}``."""
    from execnodes.ttl import parse_ttl

    for table, events in rows.items():
        lines = []
        for event in events:
            row = {k: v for k, v in event.items() if k != "at"}
            lines.append(json.dumps({**row, "@at": 1_000 + parse_ttl(event["at"])}) + "\n")
        (folder / f"{table}.json").write_text("".join(lines))


def result(document: PlanDocument, example: Mapping[str, Any]) -> list[str]:
    """What the sink's table shows when all rows have come."""
    from execnodes.runtime.translate import translate
    from tests.support.local import fold, printed, upsert_fold

    lines = printed(translate(document.graph, {"table.local-time-zone": "UTC"}, key_groups=2))
    return upsert_fold(lines, example["key"]) if "key" in example else fold(lines)


def repaired(document: PlanDocument, example: Mapping[str, Any]) -> PlanDocument:
    """The plan as ``--fix`` or the documented edit leaves it."""
    if example["repair"] == "fix":
        return fix(document)[0]
    return edited(document, example["repair"])
