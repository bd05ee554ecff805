"""What the figures of a job say that its user should hear."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stateplan.runtime.jobgraph import OperatorSpec
from stateplan.runtime.memory import CACHE_DIR


class Notices:
    """Tells the user what the figures of a micro-batch say of a job that continues: once per operator, of retractions
    that found no row in its state; once, that local disk does not take what workers would read again. At the end of
    bounded input, what still waits for the clock.

    Args:
        operators: those with state.
        folder: the folder of the workers' run cache.
        tell: receives messages, a line each.

    Attributes:
        notes: what it has received so far.
    """

    def __init__(self, operators: Sequence[OperatorSpec], folder: str | None, tell: Callable[[str], None]) -> None:
        self._operators = operators
        self._names = {o.uid: o.name for o in operators}
        self._folder = folder
        self._call = tell
        self._full = False
        self.notes: list[str] = []

    def _tell(self, note: str) -> None:
        self.notes.append(note)
        self._call(note)

    def at_end(self, pending_counts: Mapping[str, int], keeps_checkpoint: bool) -> None:
        """Bounded input has ended.

        Args:
            pending_counts: by operator uid, how much waits for the clock.
            keeps_checkpoint: whether it stays in a checkpoint.
        """
        for operator in self._operators:
            pending, count = operator.kernel.awaits, pending_counts.get(operator.uid, 0)
            if pending is None or not count:
                continue
            work = f"{count} {pending.one if count == 1 else pending.many}"
            later = "; a run that continues from this checkpoint may still emit them" if keeps_checkpoint else ""
            self._tell(f"{operator.name}: the input ended while {work}; {pending.loss}{later}. {pending.remedy}")

    def look(self, counters: Mapping[str, Mapping[str, float]]) -> None:
        """Looks at the figures of the operators after a micro-batch."""
        for uid in [u for u in self._names if counters.get(u, {}).get("retractions_missed")]:
            name, count = self._names.pop(uid), int(counters[uid]["retractions_missed"])
            noun, rows = ("retraction", "its row") if count == 1 else ("retractions", "their rows")
            self._tell(
                f"{name}: {count} {noun} found nothing, because the state of {rows} had expired or {rows} never "
                "arrived; results may contain outdated rows (reported once per operator)"
            )
        if not self._full and any(figures.get("cache_unwritten") for figures in counters.values()):
            self._full = True
            self._tell(
                f"local disk is full or cannot be written ({self._folder or 'of an executor'}): runs of state are read "
                "from the state store again, which is slower; free disk space, or set "
                f"'{CACHE_DIR}' to another folder (reported once)"
            )
