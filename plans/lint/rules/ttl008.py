"""State is forgotten between two batches of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from stateplan.execnodes.errors import PlanError
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.ttl import NEVER, format_ttl, parse_ttl
from stateplan.plans.lint.rule import Problem, Rule
from stateplan.plans.lint.subject import Origin, Subject

_MONITOR = "source.monitor-interval"


class ShorterThanBatchInterval(Rule):
    """State lives shorter than the time between two batches of rows.

    Anti-pattern: a source looks for new files every 10 minutes (`source.monitor-interval`), or rows wait 10 minutes for
    a mini-batch (`table.exec.mini-batch.allow-latency`), and state behind it has a TTL of 5 minutes.

    Why: when the next rows come, everything has been forgotten. Aggregates begin anew with every batch, joins find
    only rows that came together.

    Best practice: a TTL of many such intervals. How many depends on how often keys come, so there is no fix.

    Source: Flink's `FileSystemConnectorOptions.SOURCE_MONITOR_INTERVAL` and
    `ExecutionConfigOptions.TABLE_EXEC_MINIBATCH_ALLOW_LATENCY`; a TTL counts from the last write (Flink's
    documentation of state, `OnCreateAndWrite`).
    """

    CODE: ClassVar[str] = "TTL008"
    NAME: ClassVar[str] = "shorter-than-batch-interval"

    def check(self, subject: Subject) -> Iterator[Problem]:
        intervals = subject.carried(_interval)
        for state in subject.all_states():
            found: Origin | None = intervals.get(state.node.id)
            if found is not None and state.ttl != NEVER and state.ttl <= found.millis:
                yield Problem(
                    state.node,
                    f"{state} forgets after {format_ttl(state.ttl)}, and rows of {found.node.label} come every "
                    f"{format_ttl(found.millis)}",
                    f'set its TTL to several times "{format_ttl(found.millis)}", or let rows come more often',
                    state=state.index,
                )


def _interval(node: ExecNode) -> int:
    batches = getattr(node, "mini_batch_interval", None)
    if batches is not None:
        return int(batches.interval)
    spec = getattr(node, "scan_table_source", None)
    table = spec.table.resolved_table if spec is not None else None
    text = (table.options or {}).get(_MONITOR) if table is not None else None
    try:
        return parse_ttl(text) if text is not None else 0
    except PlanError:
        return 0
