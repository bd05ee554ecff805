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

import numpy as np
import polars as pl
import yaml

from stateplan.common.ttl import parse_ttl
from stateplan.connectors.print import format_rows
from stateplan.execnodes.node_ttls import ttl_home
from stateplan.plans import jackson
from stateplan.plans.document import PlanDocument
from stateplan.plans.lint import fix, unsuppress
from stateplan.plans.lint.subject import accepted
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.metrics.ages import Ages, Histogram, count_ages
from stateplan.runtime.metrics.state_uses import StateUses
from stateplan.runtime.state.runs import RunInfo
from stateplan.runtime.translate import translate
from tests.support.local import LocalRun, instants_of, rows_at, upsert_fold

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
    from stateplan.session.environment import TableEnvironment
    from stateplan.session.script import Inserts, read_script

    environment = TableEnvironment.create({"table.local-time-zone": "UTC", **dict(options)})
    *before, insert = read_script(sql)
    for statement in before:
        environment.execute_statement(statement)
    return environment.session.compiler.document(Inserts.of(insert.node, insert.source)).text


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
        for index in range(len(node.state_names) if ttl_home(node) else 0):
            out.set_ttl(node.id, index, 0)
    return out


def subject(rule: RuleCases, case: Mapping[str, Any]) -> PlanDocument:
    """The plan of a case: compiled, with its TTLs, its suppressions, and texts replaced."""
    document = suppressed(edited(rule.compiled(case["plan"]), case.get("set") or {}), case.get("suppress") or {})
    text = document.text
    for old, new in (case.get("replace") or {}).items():
        assert old in text, old
        text = text.replace(old, new)
    return PlanDocument.parse(text, "plan.json")


def suppressed(document: PlanDocument, suppressions: Mapping[str, Any]) -> PlanDocument:
    """A copy of ``document`` with these suppressions, good and bad, by the name of an operator."""
    data = json.loads(document.text)
    for place, entries in suppressions.items():
        node_id = next(n.id for n in document.graph.nodes if n.title == place)
        node = next(n for n in data["nodes"] if n["id"] == node_id)
        node.setdefault("stateplan", {})["suppress"] = entries
    return PlanDocument.parse(jackson.dumps(data), "plan.json") if suppressions else document


def observed(document: PlanDocument, case: Mapping[str, Any]) -> StateUses | None:
    """What a checkpoint tells of the uses of states: of a case with ``used``, by place how many were of which age."""
    used = case.get("used")
    if used is None:
        return None
    ages: Ages = {}
    for place, counts in used["states"].items():
        node, index = state_place(document, place)
        histogram = ages.setdefault(document.uids[node], {}).setdefault(f"{index}.joined", Histogram())
        for age, count in counts.items():
            histogram.add(count_ages(np.full(count, parse_ttl(age))))
    return StateUses(ages, 0, parse_ttl(used["in"]), 0)


class Example:
    """The example of a rule: a plan that is played over timed rows.

    Args:
        rule: whose.
        folder: for the rows.
    """

    def __init__(self, rule: RuleCases, folder: Path) -> None:
        self.rule, self.folder, self.data = rule, folder, rule.example
        self._write_rows()

    def _write_rows(self) -> None:
        """Files for replay tables; the time of each row is after the start."""
        for table, events in self.data["rows"].items():
            lines = []
            for event in events:
                for number in range(event.get("times", 1)):
                    at = 1_000 + parse_ttl(event["at"]) + number * parse_ttl(event.get("every", "0 ms"))
                    row = {k: v for k, v in event.items() if k not in ("at", "times", "every")}
                    row = {k: f"{v}{number}" if v == "#" else v for k, v in row.items()}
                    lines.append(json.dumps({**row, "@at": at}) + "\n")
            (self.folder / f"{table}.json").write_text("".join(lines))

    def plan(self, name: str | None = None) -> PlanDocument:
        """The plan as the example shows it; ``name`` for another one of the rule's."""
        return self.rule.compiled(name or self.data["plan"], str(self.folder))

    def odd(self) -> PlanDocument:
        """The plan that the rule has something to say about."""
        return suppressed(edited(self.plan(), self.data.get("set") or {}), self.data.get("suppress") or {})

    def against(self) -> PlanDocument | None:
        """The plan that wrote the state."""
        return edited(self.plan(), self.data["against"]) if "against" in self.data else None

    def repaired(self, odd: PlanDocument) -> PlanDocument:
        """The plan as ``--fix`` or the documented edit leaves it."""
        how = self.data["repair"]
        if how == "fix":
            return fix(odd, self.data.get("session"))[0]
        if "plan" in how:
            return edited(self.plan(how["plan"]), how.get("set") or {})
        if "unsuppress" in how:
            (node,) = (n for n in odd.graph.nodes if n.title == how["unsuppress"])
            return fix(unsuppress(odd, node.id, next(iter(accepted(node, every=True)))))[0]
        return edited(odd, how)

    def result(self, document: PlanDocument) -> list[str]:
        """What the sink's table shows when all rows have come; or how many rows are kept in state then."""
        before = self.against()
        restart = 1_000 + parse_ttl(self.data["restart"]) if "restart" in self.data else 0
        local = LocalRun(self._runnable(before or document))
        lines: list[str] = []
        readers: list[Any] = [source.reader for source in local.graph.sources]
        now = 0
        for now in sorted({at for reader in readers for at in instants_of(reader)}):
            if before is not None and now >= restart:
                local, before = local.continue_with(self._runnable(document)), None
                readers = [source.reader for source in local.graph.sources]
            rows = {i: rows_at(reader, now) for i, reader in enumerate(readers)}
            lines += _shown(local, local.batch(rows, now))
        if self.data.get("measure") == "state":
            return [f"{kept_rows(local)} rows in state"]
        lines += _shown(local, local.close(now))
        return upsert_fold(lines, self.data["key"]) if "key" in self.data else left_over(lines)

    def _runnable(self, document: PlanDocument) -> JobGraph:
        """The job; files that are watched are played like any other rows."""
        text = document.text.replace('"connector" : "filesystem"', '"connector" : "replay"')
        text = re.sub(r',\s*"source.monitor-interval" : "[^"]*"', "", text)
        text = re.sub(r'"source.monitor-interval" : "[^"]*",\s*', "", text)
        options = {"table.local-time-zone": "UTC", **(self.data.get("session") or {})}
        return translate(PlanDocument.parse(text).graph, options, key_groups=2)


def _shown(local: LocalRun, delivered: list[list[pl.DataFrame]]) -> list[str]:
    out = []
    for sink, frames in zip(local.graph.sinks, delivered, strict=True):
        for frame in frames:
            out += format_rows(frame, [t for _, t in sink.columns], None)
    return out


def left_over(lines: Sequence[str]) -> list[str]:
    """The rows that changes leave, sorted; rows that are taken back and were never given count for nothing."""
    count: dict[str, int] = {}
    for line in lines:
        count[line[2:]] = count.get(line[2:], 0) + (1 if line[0] == "+" else -1)
    return sorted(row for row, n in count.items() for _ in range(n))


def kept_rows(local: LocalRun) -> int:
    """How many rows all operators keep in state."""
    manifests = [json.loads(store.text) for store in local.stores.values() if store.text]
    return sum(RunInfo(*run).rows for m in manifests for runs in m["tables"].values() for run in runs)
