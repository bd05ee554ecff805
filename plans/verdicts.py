"""What a change of a plan means for existing state."""

from __future__ import annotations

from typing import Literal

Verdict = Literal["identical", "ttl-only", "stateless", "rewrite", "derive", "backfill", "reset", "unknown"]
VERDICTS: tuple[Verdict, ...] = (
    "identical",
    "ttl-only",
    "stateless",
    "rewrite",
    "derive",
    "backfill",
    "reset",
    "unknown",
)
"""Of a plan or an operator, from harmless to not.

``identical``: nothing changed that does anything. ``ttl-only``: TTLs changed, and what hangs on them. ``stateless``:
something changed on which no existing state depends (TTLs may have changed too). ``rewrite``: the state has what is
needed, in another layout. ``derive``: the state follows from the old one, and is computed for a new checkpoint.
``backfill``: the state is made of the rows that its sources have read, for a new checkpoint. ``reset``: the state is
lost, the operator starts empty. ``unknown``: it cannot be told.
"""


HARMLESS: frozenset[Verdict] = frozenset({"identical", "ttl-only", "stateless"})


def severity(verdict: str) -> int:
    """The place of a verdict among :data:`VERDICTS`."""
    return [*map(str, VERDICTS)].index(verdict)
