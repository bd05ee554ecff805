"""The rows that a changelog leaves."""

from __future__ import annotations

from collections import Counter

from stateplan.common.changelog import RowKind
from stateplan.session.environment import TableEnvironment


def rows_left(env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    """What the changes of a query add up to."""
    left: Counter[tuple[object, ...]] = Counter()
    for row in env.execute_sql(query).collect():
        left[tuple(row)] += 1 if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1
    assert min(left.values()) >= 0
    return sorted((+left).elements())
