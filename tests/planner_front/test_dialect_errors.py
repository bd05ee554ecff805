"""What the parser says, to the letter."""

from __future__ import annotations

import pytest

from execnodes.errors import SqlError
from planner.script import read_script, read_statement

CASES = Path = None  # set below


def error(text: str) -> str:
    with pytest.raises(SqlError) as raised:
        read_script(text)
    return str(raised.value)


EXPECTED: dict[str, str] = {}
