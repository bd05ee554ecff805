"""The options and the names of the tables of a catalog of state."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stateplan.plans.state.show import StateOf
    from stateplan.runtime.inspect.inspection import TableState

PATH, UID, TABLE, READS = "state.path", "operator.uid", "state.name", "state.reads"
BATCH, AT, LATEST = "batch", "at", "latest-batch"
FROM, TO = "from-batch", "to-batch"
WITH_EXPIRED = "include-expired"
ROWS, CHANGES = "rows", "changes"

SUFFIX = "$"


def table_name(state: StateOf, table: TableState) -> str:
    """What a state table is called."""
    return state.selector if table is state.main else f"{state.selector}{SUFFIX}{table.name}"
