"""What an INSERT makes of the rows of its query."""

from __future__ import annotations

from dataclasses import dataclass

from stateplan.execnodes.errors import Place
from stateplan.execnodes.rex import Rex


@dataclass(frozen=True)
class Targets:
    """How an INSERT's column list and PARTITION lay out the rows of its query.

    ``columns[i]`` is the query column for sink column ``i``, or the constant that is written.
    """

    columns: tuple[int | Rex, ...]
    count: int
    place: Place
