"""Upserts as a changelog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from stateplan.common.changelog import ChangelogMode, updating
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import COSMETIC, Flag, Index, RexField
from stateplan.execnodes.node_text import joined_names, names_text
from stateplan.execnodes.nodes.base import StatefulNode, StateList
from stateplan.execnodes.registry import exec_node
from stateplan.functions.rex_text import rex_text


@exec_node("changelog-normalize", states=("changelogNormalizeState",))
class ChangelogNormalize(StatefulNode):
    """Turns upserts, or changes that may come twice, into a changelog: it keeps the last row of each key.

    Made behind a source that gives updates without their old rows, and with
    ``table.exec.source.cdc-events-duplicate`` behind every source of changes. Rows that do not meet
    ``filterCondition`` count as deleted.

    .. code-block:: sql

        CREATE TABLE prices (id INT PRIMARY KEY NOT ENFORCED, price DOUBLE)
        WITH ('connector' = 'filesystem', 'path' = '/data/prices', 'format' = 'op-json');
        INSERT INTO counts SELECT price > 10, COUNT(*) FROM prices GROUP BY price > 10
    """

    WRITTEN_LAST: ClassVar[tuple[str, ...]] = ("filter_condition",)
    NEEDS_UPDATE_BEFORE: ClassVar[bool | None] = False
    KEEPS_FIELDS: ClassVar[bool] = True
    PASSES_ROWS: ClassVar[bool] = True
    STORES_FIELDS: ClassVar[bool] = True
    HOLDS_LAST_ROW: ClassVar[bool] = True
    FOLLOWS_HINTS: ClassVar[bool] = True

    unique_keys: Annotated[tuple[Index, ...], Ref()]
    generate_update_before: Annotated[Flag, COSMETIC]
    state: StateList = ()
    filter_condition: Annotated[RexField | None, Ref()] = None

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        return updating(self.generate_update_before)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        names = joined_names(inputs)
        text = f"keeps the last row of each {names_text(self.unique_keys, names)} and gives its changes"
        if self.filter_condition is None:
            return text
        return f"{text}, where {rex_text(self.filter_condition, names)}"
