"""Result types of aggregate functions."""

from __future__ import annotations

import pytest

from stateplan.common.errors import Place, SqlError
from stateplan.common.types import parse_type
from stateplan.functions.aggregates import aggregates, find_aggregate, is_aggregate


@pytest.mark.parametrize(
    ("name", "operand", "grouped", "filtered", "result"),
    [
        ("COUNT", None, True, False, "BIGINT NOT NULL"),
        ("COUNT", "INT", False, True, "BIGINT NOT NULL"),
        ("SUM", "INT", True, False, "INT"),
        ("SUM", "INT NOT NULL", True, False, "INT NOT NULL"),
        ("SUM", "INT NOT NULL", False, False, "INT"),
        ("SUM", "INT NOT NULL", True, True, "INT"),
        ("SUM", "TINYINT", True, False, "TINYINT"),
        ("SUM", "BIGINT", True, False, "BIGINT"),
        ("SUM", "DOUBLE", True, False, "DOUBLE"),
        ("SUM", "FLOAT", True, False, "FLOAT"),
        ("SUM", "DECIMAL(10, 2)", True, False, "DECIMAL(38, 2)"),
        ("$SUM0", "DECIMAL(10, 2)", False, False, "DECIMAL(38, 2) NOT NULL"),
        ("$SUM0", "INT", True, False, "INT NOT NULL"),
        ("AVG", "INT", True, False, "INT"),
        ("AVG", "DOUBLE NOT NULL", True, False, "DOUBLE NOT NULL"),
        ("AVG", "DECIMAL(10, 2)", True, False, "DECIMAL(38, 6)"),
        ("AVG", "DECIMAL(38, 18)", True, False, "DECIMAL(38, 18)"),
        ("MIN", "STRING", True, False, "STRING"),
        ("MAX", "DATE NOT NULL", True, False, "DATE NOT NULL"),
        ("MAX", "DATE NOT NULL", False, False, "DATE"),
        ("FIRST_VALUE", "DATE NOT NULL", True, False, "DATE NOT NULL"),
        ("LAST_VALUE", "INT NOT NULL", True, True, "INT"),
        ("LISTAGG", "CHAR(1) NOT NULL", True, False, "CHAR(1) NOT NULL"),
        ("LISTAGG", "STRING", True, False, "STRING"),
        ("COLLECT", "INT", False, True, "MULTISET<INT> NOT NULL"),
        ("ARRAY_AGG", "INT NOT NULL", True, False, "ARRAY<INT NOT NULL> NOT NULL"),
        ("ARRAY_AGG", "INT", False, False, "ARRAY<INT>"),
        ("VAR_POP", "INT", True, False, "INT"),
        ("STDDEV_SAMP", "DECIMAL(10, 2)", True, False, "DECIMAL(38, 6)"),
        ("$WELFORD_M2$1", "INT NOT NULL", True, False, "DOUBLE NOT NULL"),
        ("GROUPING", "INT", True, False, "BIGINT NOT NULL"),
        ("max", "BOOLEAN", True, False, "BOOLEAN"),
    ],
)
def test_result_type(name: str, operand: str | None, grouped: bool, filtered: bool, result: str) -> None:
    function = find_aggregate(name)
    assert function is not None
    types = [] if operand is None else [parse_type(operand)]
    assert str(function.infer(types, grouped=grouped, filtered=filtered)) == str(parse_type(result))


@pytest.mark.parametrize("name", ["MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"])
def test_one_of_several_times_stays_a_time_attribute(name: str) -> None:
    from stateplan.common.types import LogicalType

    function = find_aggregate(name)
    assert function is not None
    rowtime = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3, kind="ROWTIME")
    assert function.infer([rowtime]).kind == "ROWTIME"


@pytest.mark.parametrize(
    ("name", "operands", "code"),
    [
        ("SUM", ["STRING"], "SQL203"),
        ("AVG", ["DATE"], "SQL203"),
        ("MIN", ["ARRAY<INT>"], "SQL203"),
        ("SUM", [], "SQL202"),
        ("SUM", ["INT", "INT"], "SQL202"),
        ("APPROX_COUNT_DISTINCT", ["STRING"], "SQL201"),
        ("LISTAGG", ["INT"], "SQL203"),
        ("VAR_POP", ["STRING"], "SQL203"),
        ("JSON_OBJECTAGG", ["STRING"], "SQL202"),
    ],
)
def test_error(name: str, operands: list[str], code: str) -> None:
    function = find_aggregate(name)
    assert function is not None
    place = Place(line=1, column=2)
    with pytest.raises(SqlError) as caught:
        function.infer([parse_type(o) for o in operands], place)
    assert caught.value.code == code and caught.value.place == place


def test_names_and_plan_identity() -> None:
    assert is_aggregate("Count") and is_aggregate("LISTAGG") and not is_aggregate("UPPER")
    found = {f.name: (f.internal_name, f.syntax) for f in aggregates() if f.supported}
    expected: dict[str, tuple[str, str | None]] = {
        "COUNT": ("$COUNT$1", "FUNCTION_STAR"),
        "SUM": ("$SUM$1", None),
        "$SUM0": ("$$SUM0$1", None),
        "MIN": ("$MIN$1", None),
        "MAX": ("$MAX$1", None),
        "AVG": ("$AVG$1", None),
        "$WELFORD_M2$1": ("$$WELFORD_M2$1$1", None),
        "JSON_OBJECTAGG_NULL_ON_NULL": ("$JSON_OBJECTAGG_NULL_ON_NULL$1", None),
    }
    assert {name: found[name] for name in expected} == expected
