"""Functions over values at the edges, as queries of this process: what Flink 2.3 answers, or what is right."""

from __future__ import annotations

import pytest

from stateplan import TableEnvironment
from stateplan.common.errors import StateplanError


def _values(query: str, zone: str = "UTC") -> list[tuple[object, ...]]:
    env = TableEnvironment.create()
    env.execute_sql(f"SET 'table.local-time-zone' = '{zone}'")
    return env.sql_query(query).to_polars().rows()


def test_constant_json_within_json_is_json() -> None:
    made = _values(
        "SELECT JSON_OBJECT('a' VALUE i, 'b' VALUE JSON_ARRAY(1, 2)), JSON_ARRAY(JSON_OBJECT('k' VALUE 1), i), "
        "JSON_ARRAY(JSON_OBJECT('k' VALUE JSON_ARRAY(TRUE, UPPER('x'))), i) FROM (VALUES (1)) AS t(i)"
    )
    assert made == [('{"a":1,"b":[1,2]}', '[{"k":1},1]', '[{"k":[true,"X"]},1]')]


@pytest.mark.parametrize("pattern", ["yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd HH:mm", "HH:mm"])
def test_to_timestamp_takes_a_date_for_any_pattern(pattern: str) -> None:
    found = _values(
        f"SELECT CAST(TO_TIMESTAMP(s, '{pattern}') AS STRING), CAST(TO_TIMESTAMP_LTZ(s, '{pattern}', 'UTC') AS STRING) "
        "FROM (VALUES ('2024-02-29'), (' 2024-2-30 '), ('2024-02-32'), ('24-02-29')) AS t(s)"
    )
    shown = ["2024-02-29 00:00:00.000", "2024-03-01 00:00:00.000", None, None]
    assert found == [(s, s) for s in shown]


@pytest.mark.parametrize("target", ["DATE", "TIME", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "INT", "DECIMAL(5, 2)"])
@pytest.mark.parametrize(
    "text", ["2147483648", "12345678901-01-01", "2024-99999999999-01", "99999999999:00:00", "1e99999"]
)
def test_try_cast_of_long_numbers_never_fails(target: str, text: str) -> None:
    assert _values(f"SELECT TRY_CAST(s AS {target}) FROM (VALUES ('{text}'), (CAST(NULL AS STRING))) AS t(s)") == [
        (None,),
        (None,),
    ]


def test_average_over_a_condition_that_is_never_true_is_a_row() -> None:
    assert _values("SELECT AVG(i), COUNT(i) FROM (VALUES (1)) AS t(i) WHERE 1 = 2") == [(None, 0)]


def test_log10_is_exact_for_powers_of_ten() -> None:
    exponents = range(-300, 301, 7)
    rows = ", ".join(f"(CAST(1E{e} AS DOUBLE))" for e in exponents)
    assert [v for (v,) in _values(f"SELECT LOG10(d) FROM (VALUES {rows}) AS t(d)")] == [float(e) for e in exponents]


def test_escape_may_be_a_column() -> None:
    found = _values(
        "SELECT s LIKE p ESCAPE e, s NOT LIKE p ESCAPE e, s SIMILAR TO p ESCAPE e FROM (VALUES ('a_b', 'a!_b', '!'), "
        "('axb', 'a#_b', '#'), ('100%', '100x%', 'x'), ('a', 'a', CAST(NULL AS STRING))) AS t(s, p, e)"
    )
    assert sorted(found, key=str) == [
        (False, True, False),
        (None, None, None),
        (True, False, True),
        (True, False, True),
    ]


def test_an_escape_of_two_characters_fails_with_a_code() -> None:
    with pytest.raises(StateplanError, match="DATA301"):
        _values("SELECT s LIKE p ESCAPE e FROM (VALUES ('a', 'a', '!!')) AS t(s, p, e)")


def test_lag_lets_null_through() -> None:
    found = _values(
        "SELECT LAG(v, 1, 0) OVER (PARTITION BY k ORDER BY p) AS o FROM ("
        "SELECT k, v, PROCTIME() AS p FROM (VALUES (1, CAST(NULL AS INT)), (1, 5)) AS t(k, v))"
    )
    assert found == [(0,), (None,)]


ZONES = {
    "GMT+08:00": 8,
    "GMT+8": 8,
    "GMT+0800": 8,
    "GMT-03:30": -3.5,
    "GMT+18:00": 18,
    "GMT": 0,
    "UTC": 0,
    "GMT-0": 0,
    "Asia/Tokyo": 9,
    "Etc/GMT+8": -8,
}


@pytest.mark.parametrize("zone", ZONES)
def test_zones_that_flink_takes_work_everywhere(zone: str) -> None:
    """As text, in casts both ways, in formats, parts and roundings."""
    hours = ZONES[zone]
    minutes = int(hours * 60)
    found = _values(
        "SELECT CAST(lz AS STRING), DATE_FORMAT(lz, 'yyyy-MM-dd HH:mm'), FROM_UNIXTIME(s), UNIX_TIMESTAMP(t), "
        "CAST(CAST(t AS TIMESTAMP_LTZ(3)) AS STRING), EXTRACT(HOUR FROM lz), CAST(FLOOR(lz TO DAY) AS STRING), "
        "CAST(lz AS DATE) = DATE_FORMAT(lz, 'yyyy-MM-dd') FROM (SELECT TO_TIMESTAMP_LTZ(s, 0) AS lz, s, t FROM "
        "(VALUES (1700000000, '2023-11-15 00:00:00')) AS v(s, t))",
        zone,
    )
    total = 22 * 60 + 13 + minutes
    day, rest = divmod(total, 1440)
    clock = f"{rest // 60:02d}:{rest % 60:02d}"
    date = f"2023-11-{14 + day:02d}"
    unix = 1700006400 - minutes * 60
    assert found == [
        (f"{date} {clock}:20.000", f"{date} {clock}", f"{date} {clock}:20", unix, "2023-11-15 00:00:00.000", rest // 60,
         f"{date} 00:00:00.000", True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "zone",
    ["UTC+8", "+08:00", "Z", "PST", "EST", "UT", "gmt+8", "GMT+8:00", "GMT+18:30", "GMT+08:00:00", "", "utc", "ROC"],
)
def test_zones_that_flink_does_not_take_are_refused_at_set(zone: str) -> None:
    env = TableEnvironment.create()
    with pytest.raises(StateplanError, match="OPT105"):
        env.execute_sql(f"SET 'table.local-time-zone' = '{zone}'")


def test_the_refusal_names_the_offset_as_flink_writes_it() -> None:
    with pytest.raises(StateplanError, match="did you mean 'GMT\\+08:00'"):
        TableEnvironment.create().execute_sql("SET 'table.local-time-zone' = 'UTC+8'")


def test_zones_as_arguments() -> None:
    found = _values(
        "SELECT CAST(TO_TIMESTAMP_LTZ('2024-01-01 00:00:00', 'yyyy-MM-dd HH:mm:ss', z) AS STRING), "
        "CONVERT_TZ('2024-01-01 00:00:00', z, 'UTC') "
        "FROM (VALUES ('+08:00'), ('UTC+8'), ('GMT+8'), ('Asia/Tokyo')) AS t(z)"
    )
    assert found == [
        ("2023-12-31 16:00:00.000", "2024-01-01 00:00:00"),
        ("2023-12-31 16:00:00.000", "2024-01-01 00:00:00"),
        ("2023-12-31 16:00:00.000", "2023-12-31 16:00:00"),
        ("2023-12-31 15:00:00.000", "2023-12-31 15:00:00"),
    ]


def test_time_has_the_digits_that_flink_shows() -> None:
    texts = ("10:20:30", "10:20:30.12", "10:20:30.101")
    rows = ", ".join(f"('{text}')" for text in texts)
    columns = ", ".join(f"CAST(CAST(s AS TIME({digits})) AS STRING)" for digits in (0, 1, 3))
    assert _values(f"SELECT {columns} FROM (VALUES {rows}) AS t(s)") == [
        ("10:20:30", "10:20:30.0", "10:20:30.0"),
        ("10:20:30", "10:20:30.1", "10:20:30.12"),
        ("10:20:30", "10:20:30.1", "10:20:30.101"),
    ]


def test_parts_of_urls() -> None:
    rows = "('http://[::1]:80/p'), ('http:abc'), ('abc:def'), ('mailto:a@b'), ('jar:file:/a!/b')"
    found = _values(f"SELECT PARSE_URL(u, 'HOST'), PARSE_URL(u, 'PROTOCOL') FROM (VALUES {rows}) AS t(u)")
    assert found == [("[::1]", "http"), ("", "http"), (None, None), ("", "mailto"), ("", "jar")]


def test_patterns_with_optional_sections() -> None:
    pattern = "[yyyy-MM-dd][ HH:mm:ss]"
    found = _values(
        f"SELECT CAST(TO_TIMESTAMP(s, '{pattern}') AS STRING), DATE_FORMAT(TO_TIMESTAMP(s, '{pattern}'), '[yyyy]-MM') "
        "FROM (VALUES ('2024-02-30'), ('2024-02-29 10:20:30'), (''), ('x')) AS t(s)"
    )
    assert found == [
        ("2024-02-29 00:00:00.000", "2024-02"),
        ("2024-02-29 10:20:30.000", "2024-02"),
        ("1970-01-01 00:00:00.000", "1970-01"),
        (None, None),
    ]


def test_simple_date_format_reads_as_java_does() -> None:
    found = _values(
        "SELECT UNIX_TIMESTAMP(s, 'yyyyMMdd'), UNIX_TIMESTAMP(s, ''), DATE_FORMAT(s, 'yyyy-MM-dd') "
        "FROM (VALUES ('2024-02-29 00:00:00'), ('10000-01-01 00:00:00')) AS t(s)"
    )
    least = -(2**63)
    assert found == [(1701475200, least, "2024-02-29"), (-30613075200, least, "10000-01-01")]


def test_rounding_by_a_column_beyond_the_digits_of_the_type_is_null() -> None:
    number = "CAST('99999999999999999999.999999999999999999' AS DECIMAL(38, 18))"
    assert _values(f"SELECT ROUND(d, n) IS NULL, TRUNCATE(d, n) FROM (VALUES ({number}, 5)) AS t(d, n)")[0][0] is True


@pytest.mark.parametrize(
    "value",
    [
        "MAP['a', '5', 'b', 'x'] AS MAP<STRING, INT>",
        "MAP['1', 'p', 'x', 'q'] AS MAP<INT, STRING>",
        "ROW('1', 'x') AS ROW<a INT, b INT>",
        "ROW(ROW('x')) AS ROW<a ROW<b BOOLEAN>>",
        "ARRAY[ROW('2024-01-01', 'x')] AS ARRAY<ROW<a DATE, b DATE>>",
        "ARRAY[ARRAY['1'], ARRAY['x']] AS ARRAY<ARRAY<DECIMAL(5, 2)>>",
        "ROW(ARRAY['1'], MAP['k', 'y']) AS ROW<a ARRAY<INT>, b MAP<STRING, TIMESTAMP(3)>>",
    ],
)
def test_a_part_that_cannot_be_cast_fails_the_cast(value: str) -> None:
    with pytest.raises(StateplanError, match="CAST failed") as caught:
        _values(f"SELECT CAST({value})")
    assert caught.value.code == "DATA301"
    assert _values(f"SELECT TRY_CAST({value})") == [(None,)]


def test_a_part_that_is_null_is_cast() -> None:
    made = _values(
        "SELECT CAST(MAP['a', CAST(NULL AS STRING)] AS MAP<STRING, INT>), CAST(ROW(s, '1') AS ROW<a INT, b INT>), "
        "TRY_CAST(ARRAY[s, '2'] AS ARRAY<INT>) FROM (VALUES (CAST(NULL AS STRING))) AS t(s)"
    )
    assert made == [({"a": None}, {"a": None, "b": 1}, [None, 2])]


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("INSTR(s, 'b', 1, 0)", "DATA301"),
        ("INSTR(s, 'b', 0, -1)", "DATA301"),
        ("STR_TO_MAP(s, '[', '=')", "DATA301"),
        ("STR_TO_MAP(s, ',', '(')", "DATA301"),
        ("JSON_STRING(MAP[NULLIF(s, 'abc'), 1])", "DATA301"),
        ("JSON_OBJECT('k' VALUE MAP[NULLIF(s, 'abc'), 1])", "DATA301"),
        ("CAST(CAST('NaN' AS DOUBLE) AS DECIMAL(5, 2))", "DATA301"),
        ("CAST(ARRAY[CAST('Infinity' AS FLOAT)] AS ARRAY<DECIMAL(5, 2)>)", "DATA301"),
        ("ELT(-1, s)", "SQL203"),
        ("DATE_FORMAT(TIMESTAMP '2024-01-01 00:00:00', 'SSSSSSSSSS')", "RUN305"),
        ("DATE_FORMAT(TIMESTAMP '2024-01-01 00:00:00', 'yyyy#MM')", "RUN305"),
    ],
)
def test_what_fails_in_flink_fails(expression: str, code: str) -> None:
    with pytest.raises(StateplanError) as caught:
        _values(f"SELECT {expression} FROM (VALUES ('abc')) AS t(s)")
    assert caught.value.code == code


def test_numbers_that_are_none_are_no_decimals() -> None:
    made = _values("SELECT TRY_CAST(CAST('NaN' AS DOUBLE) AS DECIMAL(5, 2)), CAST(1E30 AS DECIMAL(5, 2))")
    assert made == [(None, None)]


@pytest.mark.parametrize(
    "expression",
    [
        "RAND_INTEGER(l)",
        "RAND_INTEGER(i, l)",
        "RAND(l)",
        "SPLIT_INDEX(s, ',', l)",
        "SPLIT_INDEX(s, l, i)",
        "ROUND(1.5, l)",
        "TRUNCATE(i, l)",
        "ATAN2(i, 1.5)",
        "ATAN2(1.5, 1E0)",
        "ARRAY[1, 2][l]",
        "ARRAY[1, 2][CAST(i AS SMALLINT)]",
        "JSON_EXISTS('{}', CAST(s AS STRING))",
        "JSON_STRING(DATE '2024-01-01')",
        "JSON_STRING(MAP[i, s])",
        "JSON_STRING(ARRAY[TIME '10:20:30'])",
        "JSON_OBJECT('k' VALUE ROW(DATE '2024-01-01'))",
        "JSON_ARRAY(MAP[s, MAP[l, s]])",
        "ARRAY_APPEND(NULL, i)",
        "ARRAY_APPEND(ARRAY[i], l)",
        "ARRAY_CONTAINS(ARRAY['a', 'b'], CAST(s AS STRING))",
        "ARRAY_SLICE(ARRAY[i], l)",
        "ARRAY_SORT(ARRAY[MAP[s, i]])",
        "GREATEST(MAP[s, i], MAP[s, i])",
        "SUBSTRING(s, l)",
        "SUBSTR(s, i, l)",
        "LEFT(s, l)",
        "RIGHT(s, l)",
        "LOCATE(s, s, l)",
        "INSTR(s, s, i, l)",
        "LPAD(s, l, s)",
        "REPEAT(s, l)",
        "TO_TIMESTAMP_LTZ(i, l)",
        "TO_TIMESTAMP_LTZ(i, CAST(i AS TINYINT))",
        "MAP[s, i][i]",
        "MAP[i, s][s]",
        "s IN (DATE '2024-01-01', s)",
        "1E0 * INTERVAL '1' DAY",
        "INTERVAL '1' DAY * 1.5",
        "i IS UNKNOWN",
        "s IS NOT UNKNOWN",
        "ARRAY_EXCEPT(ARRAY[i], ARRAY[s])",
        "ARRAY_CONTAINS(NULL, i)",
    ],
)
def test_types_that_flink_refuses_are_refused(expression: str) -> None:
    with pytest.raises(StateplanError) as caught:
        _values(f"SELECT {expression} FROM (VALUES ('a', 1, CAST(1 AS BIGINT))) AS t(s, i, l)")
    assert caught.value.code == "SQL203"


def test_types_near_those_that_flink_refuses_are_taken() -> None:
    made = _values(
        "SELECT SPLIT_INDEX('a,b', ',', t), SPLIT_INDEX('a,b', 44, 1), ROUND(1.25, t), ATAN2(0.0, 1.5), ATAN2(i, 1E0), "
        "JSON_EXISTS('{\"a\":1}', '$.a'), JSON_STRING(MAP['a', TIMESTAMP '2024-01-01 00:00:00']) "
        "FROM (VALUES (CAST(1 AS TINYINT), 0)) AS t(t, i)"
    )
    assert [str(v) for v in made[0][:3]] == ["b", "b", "1.30"]
    assert made[0][3:] == (0.0, 0.0, True, '{"a":"2024-01-01T00:00:00"}')


def test_a_time_in_text_is_rounded_to_milliseconds() -> None:
    texts = ("12:30:45.9994", "12:30:45.9995", " 1:2:3.99951 ", "23:59:59.9999", "24:00:00")
    rows = _values(
        "SELECT CAST(TRY_CAST(s AS TIME) AS STRING), CAST(TRY_CAST(s AS TIME(3)) AS STRING) FROM (VALUES "
        + ", ".join(f"('{text}')" for text in texts)
        + ") AS t(s)"
    )
    assert rows == [
        ("12:30:45", "12:30:45.999"),
        ("12:30:46", "12:30:46.0"),
        ("01:02:04", "01:02:04.0"),
        ("23:59:59", "23:59:59.999"),
        (None, None),
    ]


def test_signs_of_zeros() -> None:
    made = _values(
        "SELECT 0 - x, 0E0 - x, CAST(0 AS DOUBLE) - x, 1 - x, 0 - y, SQRT(y), JSON_VALUE('{\"a\":-0.0}', '$.a'), "
        "JSON_QUERY('{\"a\":[-0.0,-1.50]}', '$.a') FROM (VALUES (0E0, -1 * 0E0)) AS t(x, y)"
    )
    assert [str(value) for value in made[0]] == ["0.0", "0.0", "0.0", "1.0", "0.0", "0.0", "0.0", "[0.0,-1.50]"]


def test_numbers_in_json_have_the_digits_of_flink() -> None:
    """An answer of Flink 2.3."""
    made = _values(
        "SELECT JSON_OBJECT('k' VALUE d, 'l' VALUE e), JSON_ARRAY(d, e), JSON_STRING(ARRAY[d]), JSON_STRING(e) FROM "
        "(SELECT d, CAST(e AS DECIMAL(38, 18)) FROM (VALUES (2147483648E0, '0'), (1E-4, '0.0000001'), "
        "(-1.25E-6, '-0.000001'), (1.25E-7, '1'), (1E15, '0.00001')) AS v(d, e)) AS t(d, e)"
    )
    numbers = [
        ("2147483648", "0E-18"),
        ("0.00010", "1.00000000000E-7"),
        ("-0.00000125", "-0.000001000000000000"),
        ("1.25E-7", "1.000000000000000000"),
        ("1.0E+15", "0.000010000000000000"),
    ]
    assert made == [(f'{{"k":{d},"l":{e}}}', f"[{d},{e}]", f"[{d}]", e) for d, e in numbers]
