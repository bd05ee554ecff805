"""First or last row per key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from stateplan.execnodes.changelog import INSERT_ONLY, ChangelogMode, updating
from stateplan.execnodes.errors import PlanError
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import COSMETIC, AbsentMeans, Flag, Index
from stateplan.execnodes.node_text import joined_names, names_text
from stateplan.execnodes.nodes.base import Stateful, StatefulNode, StateList
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.types import LogicalType

if TYPE_CHECKING:
    from stateplan.execnodes.runtime.kernel import Kernel


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

    unique_keys: Annotated[tuple[Index, ...], Ref()]
    is_rowtime: Flag
    keep_last_row: Flag
    output_insert_only: Annotated[Flag | None, COSMETIC, AbsentMeans(False)] = None
    generate_update_before: Annotated[Flag, COSMETIC]
    state: StateList = ()

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        first = not self.keep_last_row and not self.is_rowtime
        return INSERT_ONLY if first or self.output_insert_only else updating(self.generate_update_before)

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateful:
        from stateplan.execnodes.runtime.kernels.deduplicate import DeduplicateKernel

        keys = self.unique_keys
        if self.is_rowtime:
            return Stateful(self._by_rowtime(inputs[0]), (keys,))
        return Stateful(DeduplicateKernel(inputs[0], keys, self.keep_last_row, self.generate_update_before), (keys,))

    def _by_rowtime(self, row: LogicalType) -> Kernel:
        """The kernel by event time. A plan of before Flink 2.3 says nothing about ``outputInsertOnly``: updates then.

        Raises:
            PlanError: PLAN046, when no field of the input is a rowtime attribute.
        """
        from stateplan.execnodes.runtime.kernels.deduplicate_rowtime import (
            RowtimeDeduplicateKernel,
            RowtimeFirstRowKernel,
        )

        rowtime = next((i for i, f in enumerate(row.fields) if f.type.kind == "ROWTIME"), None)
        if rowtime is None:
            raise PlanError("PLAN046", id=self.id)
        if self.output_insert_only and not self.keep_last_row:
            return RowtimeFirstRowKernel(row, self.unique_keys, rowtime)
        return RowtimeDeduplicateKernel(row, self.unique_keys, rowtime, self.keep_last_row, self.generate_update_before)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        which, clock = "last" if self.keep_last_row else "first", "event" if self.is_rowtime else "processing"
        keys = names_text(self.unique_keys, joined_names(inputs))
        return f"keeps the {which} row by {clock} time" + (f" of each {keys}" if keys else "")
