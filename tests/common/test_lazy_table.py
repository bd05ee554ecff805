"""Values of a lazy table are made at their first use."""

from __future__ import annotations

from typing import Any

import pytest

from stateplan.common.lazy_table import LazyTable


def test_a_value_is_made_once_and_only_when_it_is_used() -> None:
    made: list[str] = []

    def make(name: str, target: Any) -> str:
        made.append(name)
        return f"{name}={target}"

    table = LazyTable({"digits": "string:digits", "missing": "string:nothing"}, make)
    assert (list(table), len(table), "digits" in table, made) == (["digits", "missing"], 2, True, [])
    assert [table["digits"], table["digits"]] == ["digits=0123456789"] * 2
    assert made == ["digits"]
    with pytest.raises(AttributeError):
        table["missing"]


def test_values_are_added_and_removed() -> None:
    table: LazyTable[str] = LazyTable({"digits": "string:digits"}, lambda _, target: str(target))
    table["more"] = "x"
    assert dict(table) == {"digits": "0123456789", "more": "x"}
    del table["more"], table["digits"]
    assert table.get("digits") is None
    assert not table
