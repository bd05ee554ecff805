"""Constants of plans that do not fit their types are refused, with the type that would."""

from __future__ import annotations

from typing import Any

import pytest

from stateplan.common.errors import PlanError
from stateplan.common.types import parse_type
from stateplan.common.values.codecs import plan_value


@pytest.mark.parametrize(
    ("type_text", "value"),
    [
        ("INT", 2**31), ("TINYINT", -129), ("BIGINT", 2**63), ("SMALLINT", True), ("INT", "x"), ("DECIMAL(3, 1)", 100),
        ("DECIMAL(38, 0)", 10**38), ("DECIMAL(3, 1)", "NaN"), ("VARCHAR(5)", 7), ("CHAR(1)", ["a"]), ("DATE", 5),
        ("TIME(0)", "25:00"), ("TIMESTAMP(3)", "2024-13-01 00:00:00"), ("TIMESTAMP(3)", {}), ("BINARY(1)", "é"),
        ("BOOLEAN", "true"), ("ROW<`a` INT>", 1),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(type_text: str, value: Any) -> None:
    with pytest.raises(PlanError) as caught:
        plan_value(parse_type(type_text), value)
    assert caught.value.code == "PLAN079"
    assert caught.value.expected


def test_what_fits_at_the_edge_is_read() -> None:
    assert plan_value(parse_type("INT"), -(2**31)) == -(2**31)
    assert plan_value(parse_type("BIGINT"), 2**63 - 1) == 2**63 - 1
    assert str(plan_value(parse_type("DECIMAL(3, 1)"), "99.94")) == "99.9"
