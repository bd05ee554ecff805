"""First or last row per key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode, updating
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import COSMETIC, AbsentMeans, Flag, Index
from stateplan.execnodes.node_text import joined_names, names_text
from stateplan.execnodes.nodes.base import StatefulNode, StateList
from stateplan.execnodes.registry import exec_node


@exec_node("deduplicate", states=("deduplicateState",))
class Deduplicate(StatefulNode):
    """Keeps the first or the last row of each key, by processing or event time.

    Made from the ROW_NUMBER pattern over a time attribute:

    .. code-block:: sql

        SELECT id, product FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY proctime ASC) AS n FROM orders
        ) WHERE n = 1
    """

    TAKES: ClassVar[ChangelogMode | None] = INSERT_ONLY
    KEEPS_FIELDS: ClassVar[bool] = True
    PASSES_ROWS: ClassVar[bool] = True
    STORES_FIELDS: ClassVar[bool] = True
    HOLDS_LAST_ROW: ClassVar[bool] = True
    RESTARTS: ClassVar[bool] = True
    DROPS_LATE_ROWS: ClassVar[bool] = True

    unique_keys: Annotated[tuple[Index, ...], Ref()]
    is_rowtime: Flag
    keep_last_row: Flag
    output_insert_only: Annotated[Flag | None, COSMETIC, AbsentMeans(False)] = None
    generate_update_before: Annotated[Flag, COSMETIC]
    state: StateList = ()

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        first = not self.keep_last_row and not self.is_rowtime
        return INSERT_ONLY if first or self.output_insert_only else updating(self.generate_update_before)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        place, clock = "last" if self.keep_last_row else "first", "event" if self.is_rowtime else "processing"
        keys = names_text(self.unique_keys, joined_names(inputs))
        return f"keeps the {place} row by {clock} time" + (f" of each {keys}" if keys else "")
