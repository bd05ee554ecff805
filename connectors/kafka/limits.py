"""How much a micro-batch reads of a Kafka source, and how long it waits for more."""

from __future__ import annotations

from dataclasses import dataclass

from stateplan.connectors.protocol import SourceTable


@dataclass(frozen=True)
class Limits:
    """The limits of a micro-batch.

    Attributes:
        max_rows: messages at most; None for any number.
        max_bytes: bytes at most, about.
        min_rows: messages at least; None for any number.
        max_delay: how many seconds after the one before it no longer waits for ``min_rows``.

    Source: Spark's ``maxOffsetsPerTrigger``, ``minOffsetsPerTrigger`` and ``maxTriggerDelay``.
    """

    max_rows: int | None
    max_bytes: int
    min_rows: int | None
    max_delay: float

    @staticmethod
    def of(table: SourceTable) -> Limits:
        """Those of a table, whose options have been checked."""
        return Limits(
            table.value("scan.max-rows-per-batch"),
            table.value("scan.max-bytes-per-batch"),
            table.value("scan.min-rows-per-batch"),
            table.value("scan.max-batch-delay") / 1000,
        )

    def waits(self, rows: int, since: float | None, idle_timeout: float) -> bool:
        """Whether a micro-batch waits for more messages.

        Args:
            rows: messages that there are.
            since: seconds since the last micro-batch; None before the first one.
            idle_timeout: seconds; 0 for never. No partition with messages may become idle meanwhile.
        """
        if self.min_rows is None or rows >= self.min_rows or since is None:
            return False
        return since < (min(self.max_delay, idle_timeout / 2) if idle_timeout else self.max_delay)
