"""Statements over external catalogs, and their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stateplan.common.errors import StateplanError
from stateplan.session.environment import TableEnvironment

PRINT = "WITH ('connector' = 'print')"


def fails(action: Callable[[], object]) -> str:
    with pytest.raises(StateplanError) as raised:
        action()
    return str(raised.value)


def rows(env: TableEnvironment, statement: str) -> list[object]:
    """The first column of a result."""
    return [row[0] for row in env.execute_sql(statement).rows]


def collected(env: TableEnvironment, query: str) -> list[Any]:
    return sorted(tuple(row) for row in env.execute_sql(query).collect())
