"""The limits of a gateway, by Flink's options where there are any.

Codes: OPT001, OPT105.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from stateplan.common.errors import OptionError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, OptionType, parse_value

# fmt: off
_ROWS = (
    Option("sql-gateway.session.idle-timeout", OptionType.DURATION, "A session without a request for this long is "
           "closed. 0 keeps it forever.", default=600_000),
    Option("sql-gateway.session.check-interval", OptionType.DURATION, "How often the gateway looks for idle sessions. "
           "0 disables this.", default=60_000),
    Option("sql-gateway.session.max-num", OptionType.INTEGER, "Maximum number of open sessions. Flink's default is "
           "1000000.", default=1000, minimum=1),
    Option("sql-gateway.worker.threads.max", OptionType.INTEGER, "Maximum number of statements that run at the same "
           "time.", default=500, minimum=1),
    Option("sql-gateway.worker.threads.min", OptionType.INTEGER, "Number of threads to keep.", default=5,
           no_effect="threads are started when they are needed"),
    Option("sql-gateway.worker.keepalive-time", OptionType.DURATION, "How long idle threads are kept.", default=300_000,
           no_effect="idle threads are kept"),
    Option("stateplan.gateway.session.max-waiting", OptionType.INTEGER, "Maximum number of statements of a session "
           "that wait for their turn.", default=100, minimum=1),
    Option("stateplan.gateway.session.max-queries", OptionType.INTEGER, "Maximum number of queries of a session whose "
           "results are neither read completely nor closed.", default=20, minimum=1),
    Option("stateplan.gateway.session.max-operations", OptionType.INTEGER, "Number of operations of a session to "
           "keep. The oldest finished operations are removed first.", default=500, minimum=10),
    Option("stateplan.gateway.result.page-rows", OptionType.INTEGER, "Maximum number of rows of a page.", default=5000,
           minimum=1),
    Option("stateplan.gateway.results.max-size", OptionType.MEMORY_SIZE, "No further query starts while unfetched "
           "results of queries use this amount of memory, in all sessions.", default=1 << 30),
    Option("stateplan.gateway.unread.max-size", OptionType.MEMORY_SIZE, "Memory for unfinished requests and unread "
           "responses, of all connections.", default=256 << 20),
    Option("stateplan.gateway.statement.max-length", OptionType.INTEGER, "Maximum number of characters of a statement.",
           default=1_000_000, minimum=1),
)
# fmt: on
OPTIONS: dict[str, Option] = {row.key: row for row in _ROWS}
"""Key to row, in the order of the documentation."""

PREFIXES = ("sql-gateway.", "stateplan.gateway.")
"""What the keys of a gateway begin with; it hands other options on to its sessions."""


def _limit(key: str) -> Any:
    """A field whose value is that of an option."""
    return field(default=OPTIONS[key].default, metadata={"key": key})


@dataclass(frozen=True)
class Limits:
    """See :data:`OPTIONS`; durations in milliseconds, sizes in bytes."""

    idle_timeout: int = _limit("sql-gateway.session.idle-timeout")
    check_interval: int = _limit("sql-gateway.session.check-interval")
    max_sessions: int = _limit("sql-gateway.session.max-num")
    max_threads: int = _limit("sql-gateway.worker.threads.max")
    max_waiting: int = _limit("stateplan.gateway.session.max-waiting")
    max_queries: int = _limit("stateplan.gateway.session.max-queries")
    max_operations: int = _limit("stateplan.gateway.session.max-operations")
    page_rows: int = _limit("stateplan.gateway.result.page-rows")
    results: int = _limit("stateplan.gateway.results.max-size")
    unread: int = _limit("stateplan.gateway.unread.max-size")
    statement_length: int = _limit("stateplan.gateway.statement.max-length")

    @staticmethod
    def of(options: Mapping[str, str]) -> Limits:
        """Those that ``options`` set.

        Raises:
            OptionError: OPT001 unknown key, OPT105 malformed value.
        """
        values = {}
        for key, text in options.items():
            row = OPTIONS.get(key)
            if row is None:
                raise OptionError("OPT001", key=key, expected="an option of the gateway", hint=nearest(key, OPTIONS))
            values[key] = parse_value(row, text, key)
        keys = {limit.name: limit.metadata["key"] for limit in fields(Limits)}
        return Limits(**{name: values[key] for name, key in keys.items() if key in values})
