"""State that grows without bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from stateplan.execnodes.connectors.registry import known_connector
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.ttl import NEVER
from stateplan.plans.lint.lineage import keys
from stateplan.plans.lint.rule import Problem, Rule, Severity
from stateplan.plans.lint.subject import State, Subject


class EndlessState(Rule):
    """State that never expires is fed by an unbounded source.

    Anti-pattern: a join or a GROUP BY of append-only streams without any TTL.

    Why: the state keeps every new key forever, and a join keeps every row. The job becomes slower and its checkpoints
    grow, until it fails. State downstream of updates and deletions is not reported, because rows leave it when they
    leave the table.

    Best practice: set a TTL longer than the time between rows of a key: in the plan (`plan set-ttl`), in a hint, or for
    all states with `table.exec.state.ttl`. Or use windows, interval joins and temporal joins, which know when a row is
    no longer needed. The right TTL depends on the data, so there is no fix. If there are only a few keys, suppress the
    finding with that reason.

    Source: Flink's documentation, "Performance tuning" and "State management" of streaming SQL (operators that keep
    state forever by default).
    """

    CODE: ClassVar[str] = "TTL011"
    NAME: ClassVar[str] = "endless-state"
    SEVERITY: ClassVar[Severity] = Severity.ADVICE

    def check(self, subject: Subject) -> Iterator[Problem]:
        endless = _endless(subject)
        for state in subject.all_states():
            source = endless.get(subject.graph.inputs(state.node)[state.input].id)
            if state.ttl == NEVER and source is not None and _grows(subject, state):
                yield Problem(
                    state.node,
                    f"{state} never expires, and {source} is unbounded",
                    'set its TTL, or "table.exec.state.ttl" for all states, to more than the time between rows of '
                    "a key",
                    state=state.index,
                )


def _endless(subject: Subject) -> dict[int, str]:
    """The operators that rows of a source without end reach, by id, with the name of its table."""
    out: dict[int, str] = {}
    for node in subject.nodes:
        reached = next((out[source.id] for source in subject.graph.inputs(node) if source.id in out), None)
        spec = getattr(node, "scan_table_source", None)
        table = spec.table.resolved_table if spec is not None else None
        if spec is not None and table is not None and table.options and not _ends(table.options):
            reached = spec.table.summary.rpartition(".")[2]
        if reached is not None and node.title not in ("limit", "sort-limit"):
            out[node.id] = reached
    return out


def _ends(options: Mapping[str, str]) -> bool:
    """Whether a table is read to an end. Connectors that are not known stream, as nearly all of Flink's do."""
    connector = known_connector(options)
    return connector is not None and connector.is_bounded(options)


def _grows(subject: Subject, state: State) -> bool:
    """Whether each row, or each new key, adds to the state, and nothing takes it back."""
    node: ExecNode = state.node
    if not subject.is_insert_only(node, state.input) or node.title in ("limit", "sort-limit", "lookup-join"):
        return False
    if node.title in ("join", "multi-join"):
        return True
    distinct = any(getattr(call, "distinct", False) for call in getattr(node, "agg_calls", ()))
    return bool(keys(node, state.input)) or distinct
