"""``plan show``: every operator of a plan with what it does, its keys, its changes and its states."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stateplan.common.changelog import ChangelogMode, RowKind
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import amount, in_columns
from stateplan.execnodes.changelog_modes import changelog_modes
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.model import to_json as node_json
from stateplan.execnodes.node_tables import table_of
from stateplan.execnodes.node_text import field_names, names_text
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.opaque import OpaqueNode
from stateplan.plans.document import PlanDocument
from stateplan.plans.states import StateView, node_states

WIDTH = 100

NO_TTL = "has state without a TTL"
"""Of operators with state and without a TTL."""

_KEYS: tuple[tuple[tuple[str, ...], int], ...] = (
    (("uniqueKeys",), 0),
    (("grouping",), 0),
    (("partialAggGrouping",), 0),
    (("partition", "fields"), 0),
    (("partitionSpec", "fields"), 0),
    (("partitionKeys",), 0),
    (("joinSpec", "leftKeys"), 0),
    (("joinSpec", "rightKeys"), 1),
    (("inputProperties", "requiredDistribution", "keys"), 0),
)
"""Where nodes have the keys they work by, and of which input these are fields."""

_KEY_ROOTS = frozenset(path[0] for path, _ in _KEYS)


@dataclass(frozen=True)
class OperatorView:
    """One operator.

    Attributes:
        id, uid, type: its identity.
        name: the type in people's words.
        summary: what it does.
        inputs: ids of the operators that feed it.
        keys: names of the fields it works by, per input that has keys.
        changes: the kinds of changes it emits (a sink: that it gets), where that can be determined; else None.
        states: its states with a TTL.
        keeps_state: whether it may keep state, with or without a TTL.
        table: the name of the table that it reads or writes, without catalog and database; None for other operators.
    """

    id: int
    uid: str
    type: str
    name: str
    summary: str
    inputs: tuple[int, ...]
    keys: tuple[tuple[str, ...], ...]
    changes: ChangelogMode | None
    states: tuple[StateView, ...]
    keeps_state: bool
    table: str | None = None

    @property
    def words(self) -> str:
        """What it can be found by, in small letters."""
        names = (name for key in self.keys for name in key)
        states = (f"{s.name} {s.ttl_text} {s.source_text}" for s in self.states)
        texts = (self.name, f"[{self.id}]", self.uid, self.type, self.summary, *names, *states)
        return " ".join(texts).lower()

    @property
    def changes_text(self) -> str | None:
        """``+I -U +U -D``, or None."""
        return None if self.changes is None else " ".join(k.short for k in RowKind if k in self.changes)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "id": self.id,
            "uid": self.uid,
            "type": self.type,
            "summary": self.summary,
            "inputs": list(self.inputs),
            "keys": [list(k) for k in self.keys],
            "changelogMode": None if self.changes is None else [k.short for k in RowKind if k in self.changes],
            "state": [s.to_json() for s in self.states],
            "keepsState": self.keeps_state,
        }


@dataclass(frozen=True)
class PlanView:
    """A whole plan; ``file`` and ``sql`` are None if not known."""

    file: str | None
    flink_version: str
    written_by: str
    sql: str | None
    operators: tuple[OperatorView, ...]
    warnings: tuple[str, ...]

    @property
    def origin(self) -> str:
        """``written by Flink 2.3``, or ``written by stateplan for Flink 2.3``."""
        writer = self.written_by if self.written_by == "Flink" else f"{self.written_by} for Flink"
        return f"written by {writer} {self.flink_version}"


def show(document: PlanDocument, session: Mapping[str, str] | None = None) -> PlanView:
    """What there is to see of a plan.

    Args:
        document: the plan.
        session: options of the session, for states whose TTL neither the plan nor the node says.

    Raises:
        PlanError: PLAN05x, when an option that decides about a TTL is not a duration.
    """
    graph = document.graph
    modes = changelog_modes(graph)
    operators = tuple(
        OperatorView(
            node.id,
            document.uids[node.id],
            node.type,
            node.title,
            graph.describe(node),
            tuple(source.id for source in graph.inputs(node)),
            _keys(graph, node),
            modes[node.id],
            node_states(node, document.uids[node.id], session),
            node.keeps_state or bool(node.state_names),
            _table_name(node),
        )
        for node in graph.nodes
    )
    warnings = tuple(map(str, document.warnings))
    sql = document.facts.sql if document.facts else None
    return PlanView(document.file, graph.flink_version, document.written_by, sql, operators, warnings)


def _table_name(node: ExecNode) -> str | None:
    table = table_of(node)
    return table.path[-1] if table is not None and table.path else None


def _keys(graph: ExecGraph, node: ExecNode) -> tuple[tuple[str, ...], ...]:
    parts = {key: name for name, key, _, _ in node.layout() if key in _KEY_ROOTS}
    values = vars(node)
    own = node.to_json() if isinstance(node, OpaqueNode) else {k: node_json(values[n]) for k, n in parts.items()}
    types = graph.input_types(node)
    keys = []
    for path, side in _KEYS:
        value: Any = own
        for step in path:
            value = (
                value.get(step) if isinstance(value, dict) else value[0] if isinstance(value, list) and value else None
            )
        if isinstance(value, list) and value and side < len(types):
            names = field_names(types[side])
            keys.append(tuple(names_text([i], names) for i in value if isinstance(i, int)))
    return tuple(keys)


def to_json(view: PlanView) -> dict[str, Any]:
    """The view as JSON-ready data."""
    return {
        "file": view.file,
        "flinkVersion": view.flink_version,
        "writtenBy": view.written_by,
        "sql": view.sql,
        "operators": [operator.to_json() for operator in view.operators],
        "warnings": list(view.warnings),
    }


def narrow_view(view: PlanView, stateful: bool = False, match: str | None = None) -> PlanView:
    """The view with fewer operators.

    Args:
        stateful: only those that keep state.
        match: only those where each of these words is in the id, uid, type, summary, keys or name of a state, in small
            or capital letters; ``[5]`` is the operator 5 alone.
    """
    words = (match or "").lower().split()
    operators = (o for o in view.operators if o.keeps_state or not stateful)
    return replace(view, operators=tuple(o for o in operators if all(word in o.words for word in words)))


def to_text(view: PlanView, width: int = WIDTH, of: int | None = None) -> str:
    """The view as text of at most ``width`` columns, where words are not longer.

    Args:
        view: the operators to show.
        of: how many operators the plan has, when not all of them are shown.
    """
    stateful = sum(1 for operator in view.operators if operator.keeps_state)
    operators = amount(len(view.operators), "operator")
    if of is not None and of != len(view.operators):
        operators = f"{len(view.operators)} of {amount(of, 'operator')}"
    head = f"{view.file or 'plan'}: {view.origin}, {operators}, {stateful or 'none'} with state"
    lines = [head, ""]
    for operator in view.operators:
        lines += [*_operator_lines(operator, width), ""]
    for warning in view.warnings:
        lines += _wrap(f"warning: {warning}", width, "")
    return "\n".join(lines).rstrip("\n") + "\n"


def _operator_lines(operator: OperatorView, width: int) -> list[str]:
    lines = [f"[{operator.id}] {operator.name}  ({operator.type}, uid {operator.uid})"]
    lines += _wrap(operator.summary, width, "    ")
    facts = []
    if operator.inputs:
        facts.append(f"{'input' if len(operator.inputs) == 1 else 'inputs'} {', '.join(map(str, operator.inputs))}")
    if operator.keys:
        facts.append("keys " + " = ".join(", ".join(keys) for keys in operator.keys))
    if operator.changes_text:
        facts.append(f"{'gets' if operator.name == 'sink' else 'emits'} {operator.changes_text}")
    if facts:
        lines += _wrap("; ".join(facts), width, "    ")
    rows = [
        (
            f"state {s.index}",
            s.name,
            s.ttl_text,
            s.source_text,
            ", ".join(x for x in (s.update_type, s.visibility, s.time_characteristic) if x),
        )
        for s in operator.states
    ]
    if operator.keeps_state and not rows:
        lines.append(f"    {NO_TTL}")
    return lines + [line.rstrip() for line in in_columns(rows, "    ").splitlines()]


def _wrap(text: str, width: int, indent: str) -> list[str]:
    if 0 < len(text) <= width - len(indent) and text.isprintable() and text == text.strip():
        return [indent + text]
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
