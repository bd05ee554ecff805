"""Parameters as literals: a value comes back as it was, and never becomes anything but a value."""

from __future__ import annotations

import datetime as dt
import enum
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import DataError, SqlError, StateplanError
from stateplan.gateway.client import parameters
from stateplan.gateway.client.parameters import Template, literal
from stateplan.planner.dialect.tokenizer import scan
from stateplan.session.environment import TableEnvironment

WIDE = Context(prec=50)
MILLI = dt.timedelta(milliseconds=1)


def whole_millis(value: dt.datetime) -> dt.datetime:
    return value.replace(microsecond=value.microsecond // 1000 * 1000)


VALUES = st.one_of(
    st.booleans(),
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.builds(
        lambda n, scale: Decimal(n).scaleb(-scale, WIDE), st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38)
    ),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.timezones(), allow_imaginary=False).map(
        whole_millis
    ),
    st.integers(-999_999 * 86_400_000, 999_999 * 86_400_000).map(lambda n: n * MILLI),
)


@given(st.lists(VALUES, min_size=1, max_size=6))
def test_a_value_comes_back_from_sql(values: list[Any]) -> None:
    statement = Template(f"SELECT {', '.join('?' * len(values))}").bind(values)
    env = TableEnvironment.create({"table.local-time-zone": "Europe/Berlin"})
    with env.execute_sql(statement) as result:
        (row,) = list(result.collect())
    assert tuple(row) == tuple(values)
    for found, value in zip(row, values, strict=True):
        if not isinstance(value, int) and not (isinstance(value, dt.datetime) and value.tzinfo):
            assert type(found) is type(value)
        if isinstance(value, float):
            assert str(found) == str(value), "-0.0 keeps its sign"


# where parameters are

APART = ["SELECT", " ", "\n", "\t", "a", "1", "1.", "e", "U&", "N", "x", "-", "+", "/", "*", "=", "<", "||", "(", ")"]
APART += [
    ",",
    ".",
    "`a?`",
    "'b?'",
    "''",
    "-- ?\n",
    "// ?\r",
    "/* ? */",
    "/*+ h('?', ?) */",
    "DATE",
    "INTERVAL",
    "\u3000",
]


@given(st.lists(st.one_of(st.just("?"), st.sampled_from(APART)), max_size=12), st.data())
def test_only_the_parameters_change(pieces: list[str], data: st.DataObject) -> None:
    """The tokens of the statement stay what they were, and where a ``?`` was there are those of a literal alone."""
    statement = "".join(pieces)
    try:
        before = scan(statement)
        template = Template(statement)
    except SqlError:
        return  # pieces that make an unfinished comment or text
    values = data.draw(st.lists(VALUES, min_size=template.count, max_size=template.count))
    left = [literal(value) for value in values]
    wanted: list[tuple[Any, str]] = []
    hint = False
    for token in before:
        hint = (hint or token.token_type.name == "HINT") and token.token_type.name != "BLOCK_END"
        if token.token_type.name == "PLACEHOLDER" and not hint:
            wanted += [(t.token_type, t.text) for t in scan(left.pop(0))]
        else:
            wanted.append((token.token_type, token.text))
    assert not left
    assert [(t.token_type, t.text) for t in scan(template.bind(values))] == wanted


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_is_one_token_whatever_it_says(text: str) -> None:
    tokens = scan(Template("SELECT ? -- ?").bind([text]))
    assert [t.token_type.name for t in tokens] == ["VAR", "STRING"]
    assert tokens[1].text == text


@pytest.mark.parametrize(
    ("statement", "bound"),
    [
        ("SELECT 5-?", "SELECT 5- -1"),
        ("SELECT ?--c", "SELECT -1 --c"),
        ("SELECT f(?,?)", "SELECT f(-1,-1)"),
        ("SELECT '😀?', ?", "SELECT '😀?', -1"),
        ("/* '? */ SELECT ?", "/* '? */ SELECT -1"),
        ("SELECT /*+ OPTIONS('k'='?') */ ? -- don't", "SELECT /*+ OPTIONS('k'='?') */ -1 -- don't"),
        ("SELECT `a``?`, 'it''s ?', ?;", "SELECT `a``?`, 'it''s ?', -1;"),
    ],
)
def test_places(statement: str, bound: str) -> None:
    template = Template(statement)
    assert template.bind([-1] * template.count) == bound


# what is refused


@pytest.mark.parametrize("given_", [[], [1], [1, 2, 3]])
def test_a_wrong_number_of_parameters(given_: list[int]) -> None:
    with pytest.raises(SqlError, match=rf"SQL410.*2 parameters.*{len(given_)}"):
        Template("SELECT ?, ?").bind(given_)


@pytest.mark.parametrize("given_", ["ab", b"ab", {"a": 1, "b": 2}, {1, 2}, iter([1, 2]), 5])
def test_parameters_that_are_no_list(given_: Any) -> None:
    with pytest.raises(SqlError, match=r"SQL410.*of the class"):
        Template("SELECT ?, ?").bind(given_)


@pytest.mark.parametrize("value", [object(), [1], {}, (1,), 1j, dt.UTC, np.datetime64("2024-01-01"), np.bool_(True)])
def test_classes_without_a_literal(value: object) -> None:
    with pytest.raises(SqlError, match=r"SQL410.*a value of a parameter cannot be of the class"):
        literal(value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("-inf"),
        Decimal("NaN"),
        Decimal("Infinity"),
        10**38,
        -(10**400),
        Decimal(1).scaleb(-39),
        Decimal(10) ** 38,
        "\ud800",
        dt.time(1, tzinfo=dt.UTC),
        dt.timedelta(microseconds=1),
        dt.timedelta(days=1_000_000),
        dt.datetime.max.replace(tzinfo=dt.UTC),
        dt.datetime(2024, 1, 1, microsecond=1, tzinfo=dt.UTC),
        pd.NaT,
        pd.Timestamp("2024-01-01 00:00:00.000000001"),
        pd.Timedelta(1, "ns"),
    ],
)
def test_values_without_a_literal(value: object) -> None:
    with pytest.raises(DataError, match="DATA350"):
        literal(value)


@pytest.mark.parametrize("statement", ["SELECT 'a", "SELECT `a", "SELECT /* a", "SELECT '\ud800'"])
def test_statements_that_are_none(statement: str) -> None:
    with pytest.raises(StateplanError, match=r"SQL003|SQL401"):
        Template(statement)


class Colour(enum.IntEnum):
    RED = 3


class Name(str, enum.Enum):  # noqa: UP042 - str() of a StrEnum is its value
    TEA = "t'ea"


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (Colour.RED, "3"),
        (Name.TEA, "'t''ea'"),
        (np.int64(-5), "-5"),
        (np.float64(0.1), "CAST('0.1' AS DOUBLE)"),
        (np.float32(0.5), "CAST('0.5' AS DOUBLE)"),
        (bytearray(b"\x00\xff"), "x'00ff'"),
        (memoryview(b""), "x''"),
        (pd.Timestamp("2024-01-01 10:00"), "TIMESTAMP '2024-01-01 10:00:00'"),
        (pd.Timestamp("1970-01-01 01:00", tz="Europe/Berlin"), "TO_TIMESTAMP_LTZ(0, 3)"),
        (pd.Timedelta("1 day"), "INTERVAL '1 00:00:00.000' DAY(6) TO SECOND(3)"),
        (dt.timedelta(milliseconds=-1), "INTERVAL '-0 00:00:00.001' DAY(6) TO SECOND(3)"),
        (Decimal("1E+3"), "CAST('1000' AS DECIMAL(4, 0))"),
        (Decimal("0.00"), "CAST('0.00' AS DECIMAL(2, 2))"),
    ],
)
def test_literals(value: object, sql: str) -> None:
    assert literal(value) == sql


# points in time with microseconds


def test_microseconds_need_the_zone_of_the_session() -> None:
    moment = dt.datetime(2024, 7, 1, 10, microsecond=123456, tzinfo=dt.UTC)
    in_berlin = "CAST(TIMESTAMP '2024-07-01 12:00:00.123456' AS TIMESTAMP_LTZ(6))"
    assert literal(moment, lambda: "Europe/Berlin") == in_berlin
    for unknown in (None, "default", "Nowhere/City", "../x"):
        with pytest.raises(DataError, match=r"DATA350(.|\n)*table.local-time-zone"):
            literal(moment, lambda unknown=unknown: unknown)  # type: ignore[misc]
    twice = dt.datetime(2024, 10, 27, 0, 30, microsecond=1, tzinfo=dt.UTC)
    with pytest.raises(DataError, match="comes twice"):
        literal(twice, lambda: "Europe/Berlin")
    assert literal(twice, lambda: "UTC").startswith("CAST(TIMESTAMP '2024-10-27 00:30:00.000001'")


@given(st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1), timezones=st.just(dt.UTC)))
def test_microseconds_come_back(value: dt.datetime) -> None:
    try:
        statement = Template("SELECT ?", lambda: "America/New_York").bind([value])
    except DataError:
        return
    env = TableEnvironment.create({"table.local-time-zone": "America/New_York"})
    with env.execute_sql(statement) as result:
        assert [tuple(row) for row in result.collect()] == [(value,)]


# many rows


def test_an_insert_of_many_rows_is_few_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    template = Template("INSERT INTO `c`.`values` (a, b) VALUES (?, UPPER(?)) ; -- done")
    rows = [(1, "x"), (None, "y"), (3, None), (4.5, "z"), (5.5, "z")]
    assert list(template.bind_all(rows)) == [
        "INSERT INTO `c`.`values` (a, b) VALUES (1, UPPER('x')), (NULL, UPPER('y')), (3, UPPER(NULL)) ; -- done",
        "INSERT INTO `c`.`values` (a, b) VALUES (CAST('4.5' AS DOUBLE), UPPER('z')), "
        "(CAST('5.5' AS DOUBLE), UPPER('z')) ; -- done",
    ]
    assert template.bind([1, "x"]) == "INSERT INTO `c`.`values` (a, b) VALUES (1, UPPER('x')) ; -- done"
    assert list(template.bind_all([])) == []
    monkeypatch.setattr(parameters, "ROWS", 2)
    one = Template("INSERT INTO t VALUES (?) ON CONFLICT DO NOTHING")
    assert list(one.bind_all([[1], [2], [3]])) == [
        "INSERT INTO t VALUES (1), (2) ON CONFLICT DO NOTHING",
        "INSERT INTO t VALUES (3) ON CONFLICT DO NOTHING",
    ]
    monkeypatch.setattr(parameters, "LENGTH", 1)
    assert len(list(one.bind_all([[1], [2], [3]]))) == 3


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Decimal("1e30"), Decimal("1e-30")),
        (dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
        (1, True),
        ("a", b"a"),
        (dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)),
    ],
)
def test_values_without_an_exact_common_type_are_kept_apart(first: object, second: object) -> None:
    template = Template("INSERT INTO t VALUES (?)")
    assert len(list(template.bind_all([[first], [second]]))) == 2
    assert len(list(template.bind_all([[first], [None], [first]]))) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t SELECT ?",
        "INSERT INTO t VALUES (?), (2)",
        "INSERT INTO t VALUES (1), (?)",
        "INSERT INTO t VALUES (?) UNION ALL SELECT 1",
        "INSERT INTO t SELECT 1 UNION ALL VALUES (?)",
        "INSERT INTO t PARTITION (p = ?) VALUES (1)",
        "INSERT OVERWRITE t VALUES (?)",
        "INSERT INTO t (SELECT * FROM (VALUES (?)))",
        "INSERT INTO t VALUES ?",
        "INSERT INTO t VALUES ((?)",
        "INSERT INTO t VALUES",
        "SET 'a' = ?",
        "VALUES (?)",
    ],
)
def test_other_statements_are_run_once_per_row(statement: str) -> None:
    template = Template(statement)
    rows = [[n] * template.count for n in range(3)]
    assert list(template.bind_all(rows)) == [template.bind(row) for row in rows]


def test_one_bad_row_stops_all() -> None:
    with pytest.raises(SqlError, match="SQL410"):
        next(Template("INSERT INTO t VALUES (?)").bind_all([[1], [1, 2]]))
