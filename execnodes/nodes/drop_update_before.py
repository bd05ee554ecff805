"""Updates without their old rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from stateplan.common.changelog import ChangelogMode, RowKind, union_mode
from stateplan.common.types import LogicalType
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.registry import exec_node


@exec_node("drop-update-before")
class DropUpdateBefore(ExecNode):
    """Leaves out the old rows of updates (-U), where what comes behind finds rows by key.

    .. code-block:: sql

        CREATE TABLE users (id INT PRIMARY KEY NOT ENFORCED, name STRING)
        WITH ('connector' = 'filesystem', 'path' = '/data/users', 'format' = 'debezium-json');
        INSERT INTO upserts SELECT id, name FROM users
    """

    NEEDS_UPDATE_BEFORE: ClassVar[bool | None] = True
    KEEPS_FIELDS: ClassVar[bool] = True
    PASSES_ROWS: ClassVar[bool] = True

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        mode = union_mode(inputs)
        return None if mode is None else mode - {RowKind.UPDATE_BEFORE}

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        return "leaves out the old rows of updates"
