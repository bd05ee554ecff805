"""What a system that is written to has noted of a sink: its last micro-batch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Noted:
    """A micro-batch that the system that a sink writes to says that it has.

    Attributes:
        digest: of the place of the table, which may have secrets.
        epoch: of the micro-batch.
    """

    digest: str
    epoch: int

    @staticmethod
    def at(place: str, epoch: int) -> Noted:
        """A micro-batch of the table at a place, such as its path."""
        return Noted(_digest(place), epoch)

    def epoch_at(self, place: str) -> int | None:
        """The number of the micro-batch, if the table is still at this place."""
        return self.epoch if self.digest == _digest(place) else None


def _digest(place: str) -> str:
    return hashlib.sha256(place.encode()).hexdigest()[:16]
