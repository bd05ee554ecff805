"""The ``replay`` connector: recorded arrivals, played back on a virtual clock.

Each line is a JSON object of the table's format with one more field, ``"@at"``: when the row arrives, in
milliseconds as a whole number. Over all replay tables of a plan each distinct instant is one micro-batch, ascending,
and is the time its operators see as now. The table is bounded.

The options are the rows of :data:`CONNECTOR`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stateplan.execnodes.connectors.options import Connector, Option, OptionType, Role
from stateplan.execnodes.types import LogicalType

if TYPE_CHECKING:
    import polars as pl

CONNECTOR = Connector(
    "replay",
    "Recorded arrivals, played back on a virtual clock: every line says when it arrives.",
    (Option("path", OptionType.STRING, "Folder or file; a plain path or a URL.", required=True, role=Role.SOURCE),),
    roles=(Role.SOURCE,),
    source_formats=("json", "debezium-json", "canal-json", "maxwell-json", "ogg-json", "op-json"),
    abilities=frozenset({"ProjectPushDown"}),
)


class ReplayTable:
    """The rows of a replay table by the instant of their arrival. Picklable.

    A process reads the files once, and again only when their paths, sizes or modification times change.

    Args:
        options: the table's options.
        fields: name and type of its physical columns.
        projection: positions of the columns to read, in output order.
    """

    def __init__(
        self, options: Mapping[str, str], fields: Sequence[tuple[str, LogicalType]], projection: Sequence[int]
    ) -> None:
        self.options = dict(options)
        self.fields = tuple(fields)
        self.projection = tuple(projection)

    def instants(self) -> list[int]:
        """The distinct instants of the table, ascending.

        Raises:
            DataError: DATA151 for an ``"@at"`` that is missing or not a whole number; DATA1xx for whatever else
                cannot be read; each names file and line.
        """
        from stateplan.execnodes.connectors.replay_index import index_of

        return index_of(self).instants()

    def read_at(self, at: int) -> pl.DataFrame:
        """The rows that arrive at an instant, in file order: ``c0..``, with ``kind`` as the format's decoder has it.

        Raises:
            DataError: as :meth:`instants`.
        """
        from stateplan.execnodes.connectors.replay_index import index_of

        return index_of(self).rows(at)
