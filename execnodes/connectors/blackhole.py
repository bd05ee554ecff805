"""The ``blackhole`` connector: takes every change and does nothing with it. It has no options."""

from __future__ import annotations

from stateplan.execnodes.connectors.options import Connector, Role

CONNECTOR = Connector(
    "blackhole",
    "Takes every change and does nothing with it.",
    (),
    roles=(Role.SINK,),
    sink_abilities=frozenset({"Partitioning"}),
)
