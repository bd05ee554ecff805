"""State that expires between two batches of rows."""

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
    """The TTL is not longer than the time between two batches of rows.

    Anti-pattern: a source looks for new files every 10 minutes (`source.monitor-interval`), or rows wait 10 minutes for
    a mini-batch (`table.exec.mini-batch.allow-latency`), and state downstream of it has a TTL of 5 minutes.

    Why: all state has expired when the next rows arrive. Aggregates restart with every batch, and joins match only rows
    of the same batch.

    Best practice: use a TTL of many such intervals. How many depends on how often keys repeat, so there is no fix.

    Source: Flink's `FileSystemConnectorOptions.SOURCE_MONITOR_INTERVAL` and
    `ExecutionConfigOptions.TABLE_EXEC_MINIBATCH_ALLOW_LATENCY`. A TTL starts at the last write (Flink's documentation
    of state, `OnCreateAndWrite`).
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
                    f"{state} expires after {format_ttl(state.ttl)}, but rows of {found.node.label} arrive every "
                    f"{format_ttl(found.millis)}",
                    f'set its TTL to several times "{format_ttl(found.millis)}", or shorten the interval',
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
