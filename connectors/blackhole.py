"""The ``blackhole`` connector: takes every change and does nothing with it. It has no options."""

from __future__ import annotations

from collections.abc import Mapping

from stateplan.common.changelog import ChangelogMode, RowKind
from stateplan.common.options import Role
from stateplan.connectors.protocol import Connector, Sink, SinkTable


class Blackhole(Connector):
    """Counts rows and forgets them."""

    name = "blackhole"
    description = "Discards all changes."
    roles = (Role.SINK,)
    sink_abilities = frozenset({"Partitioning"})

    def sink_mode(self, options: Mapping[str, str], changelog_mode: ChangelogMode) -> ChangelogMode:
        return changelog_mode - {RowKind.UPDATE_BEFORE}

    def sink(self, table: SinkTable) -> Sink:
        return Nothing()


class Nothing(Sink):
    """Counts rows and forgets them."""

    needs_rows = False
    is_transient = True
