"""The ``replay`` connector: recorded arrivals, played back on a virtual clock.

Each line is a JSON object of the table's format with one more field, ``"@at"``: when the row arrives, in
milliseconds as a whole number. Over all replay tables of a plan each distinct instant is one micro-batch, ascending,
and is the time its operators see as now. The table is bounded.

The options are the rows of :data:`CONNECTOR`.
"""

from __future__ import annotations

from execnodes.connectors.options import Connector, Option, OptionType, Role

__all__ = ["CONNECTOR"]

CONNECTOR = Connector(
    "replay", "Recorded arrivals, played back on a virtual clock: every line says when it arrives.",
    (Option("path", OptionType.STRING, "Folder or file; a plain path or a URL.", required=True, role=Role.SOURCE),),
    roles=(Role.SOURCE,), source_formats=("json", "debezium-json"), abilities=frozenset({"ProjectPushDown"}))
