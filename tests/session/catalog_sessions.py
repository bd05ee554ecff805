"""Sessions with a catalog that is stored in files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from stateplan.common.errors import StateplanError
from stateplan.session.environment import TableEnvironment

PRINT = "WITH ('connector' = 'print')"


def shell(*statements: str, options: Mapping[str, str] | None = None) -> TableEnvironment:
    """A new session with the catalog ``c`` in the folder ``cat``."""
    env = TableEnvironment.create(options)
    if not options:
        env.execute_sql("CREATE CATALOG c WITH ('type' = 'file', 'path' = 'cat')")
    env.use_catalog("c")
    for statement in statements:
        env.execute_sql(statement)
    return env


def rows(env: TableEnvironment, statement: str) -> list[object]:
    """The first column of a result."""
    return [row[0] for row in env.execute_sql(statement).rows]


def fails(action: Callable[[], object]) -> str:
    with pytest.raises(StateplanError) as raised:
        action()
    return str(raised.value)
