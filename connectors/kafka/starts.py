"""Where a source begins, or ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stateplan.connectors.kafka.tables import mode_of, specific_offsets


@dataclass(frozen=True)
class Bound:
    """Where a source begins, or ends.

    Attributes:
        mode: of ``scan.startup.mode`` or ``scan.bounded.mode``.
        millis: ms since 1970, for the mode ``timestamp``.
        offsets: partition to offset, for ``specific-offsets``.
    """

    mode: str
    millis: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)

    @staticmethod
    def of(options: Mapping[str, str], prefix: str) -> Bound:
        """What the options of a table say that begin with ``prefix``, and that have been checked."""
        mode, key = mode_of(options, prefix), f"{prefix}.specific-offsets"
        if mode == "timestamp":
            return Bound(mode, int(options[f"{prefix}.timestamp-millis"]))
        return Bound(mode, offsets=specific_offsets(options, key) if mode == "specific-offsets" else {})
