"""Flink's duration grammar, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import PlanError
from stateplan.common.ttl import MAX_TTL, format_ttl, parse_ttl

DAY, HOUR, MINUTE = 86_400_000, 3_600_000, 60_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("7 d", 7 * DAY),
        ("1day", DAY),
        ("2 days", 2 * DAY),
        ("1 h", HOUR),
        ("3 HOURS", 3 * HOUR),
        ("90min", 90 * MINUTE),
        ("5 m", 5 * MINUTE),
        ("1 minute", MINUTE),
        ("12 Sec", 12_000),
        ("1 secs", 1_000),
        ("1500 ms", 1_500),
        ("1500", 1_500),
        ("  1500  millis ", 1_500),
        ("\t1\n d\r", DAY),
        ("604800000 ms", 7 * DAY),
        ("999 µs", 0),
        ("1000 µs", 1),
        ("1999999 ns", 1),
        ("0", 0),
        ("0 ms", 0),
        ("007 d", 7 * DAY),
        ("9223372036854775807 ms", MAX_TTL),
        ("106751991167 d", 106751991167 * DAY),
        ("PT1H", HOUR),
        ("P1DT2H", 26 * HOUR),
        ("p2d", 2 * DAY),
        ("pt1h30m", 90 * MINUTE),
        ("PT1H-30M", 30 * MINUTE),
        ("+PT1H", HOUR),
        ("-PT-1H", HOUR),
        ("PT1.5S", 1_500),
        ("PT1,25S", 1_250),
        ("PT0.0005S", 0),
        ("PT0S", 0),
        (3_600_000, HOUR),
        (0, 0),
    ],
)
def test_read(text: str | int, ms: int) -> None:
    assert parse_ttl(text) == ms


@pytest.mark.parametrize(
    ("value", "code", "hint"),
    [
        ("abc", "PLAN053", None),
        ("+1 d", "PLAN053", "write it without the sign: '1 d'"),
        ("P", "PLAN053", None),
        ("PT", "PLAN053", None),
        ("P1DT", "PLAN053", None),
        ("P1W", "PLAN053", None),
        ("PT.5S", "PLAN053", None),
        ("PT1.0000000001S", "PLAN053", None),
        ("１ d", "PLAN053", None),
        ("-1 d", "PLAN054", None),
        ("-PT1H", "PLAN054", None),
        ("PT1H-61M", "PLAN054", None),
        (-5, "PLAN054", None),
        ("1 parsec", "PLAN055", None),
        ("3 minuts", "PLAN055", "did you mean 'minutes'?"),
        ("1 houre", "PLAN055", "did you mean 'hour'?"),
        ("5 us", "PLAN055", "did you mean 'µs' or 'micros'?"),
        ("1 week", "PLAN055", "write '7 d'"),
        ("2 w", "PLAN055", "write '14 d'"),
        ("1.5 h", "PLAN055", "write '90 min'"),
        ("1 h 30 min", "PLAN055", "write '90 min'"),
        ("1_000 ms", "PLAN055", "write '1 s'"),
        ("1e3 ms", "PLAN055", None),
        ("1 d PT1H", "PLAN055", None),
        ("", "PLAN052", None),
        (" \t\n", "PLAN052", None),
        (None, "PLAN051", None),
        (True, "PLAN050", None),
        (1.5, "PLAN050", None),
        ([], "PLAN050", None),
        ({"d": 1}, "PLAN050", None),
        ("9223372036854775808 ms", "PLAN056", 'write "0 ms" for state that never expires'),
        ("106751991168 d", "PLAN056", 'write "0 ms" for state that never expires'),
        (f"{10**30} ms", "PLAN056", 'write "0 ms" for state that never expires'),
        (10**30, "PLAN056", 'write "0 ms" for state that never expires'),
        pytest.param("9" * 5000 + " d", "PLAN056", 'write "0 ms" for state that never expires', id="5000 digits"),
        pytest.param(10**5000, "PLAN056", 'write "0 ms" for state that never expires', id="5001 digits"),
        ("never", "PLAN053", 'write "0 ms" for state that never expires'),
        pytest.param(f"PT{'9' * 5000}H", "PLAN056", 'write "0 ms" for state that never expires', id="5000 ISO digits"),
    ],
)
def test_refuse(value: object, code: str, hint: str | None) -> None:
    with pytest.raises(PlanError) as caught:
        parse_ttl(value)
    error = caught.value
    assert (error.code, error.hint) == (code, hint)
    assert error.expected
    assert len(error.message) < 200


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (1, "1 ms"),
        (1_500, "1500 ms"),
        (1_000, "1 s"),
        (90 * MINUTE, "90 min"),
        (36 * HOUR, "36 h"),
        (48 * HOUR, "2 d"),
        (172_800_000, "2 d"),
        (MAX_TTL, "9223372036854775807 ms"),
    ],
)
def test_write(ms: int, text: str) -> None:
    assert format_ttl(ms) == text


@pytest.mark.parametrize("ms", [-1, MAX_TTL + 1])
def test_refuse_to_write(ms: int) -> None:
    with pytest.raises(PlanError):
        format_ttl(ms)


@given(st.integers(0, MAX_TTL))
def test_what_is_written_reads_the_same(ms: int) -> None:
    assert parse_ttl(format_ttl(ms)) == ms


@given(st.integers(0, 10**6), st.sampled_from([("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", 1000), ("ms", 1)]))
def test_no_larger_unit_divides(count: int, unit: tuple[str, int]) -> None:
    label, size = unit
    written = format_ttl(parse_ttl(f"{count} {label}"))
    number, used = written.split(" ")
    sizes = {"d": DAY, "h": HOUR, "min": MINUTE, "s": 1000, "ms": 1}
    assert int(number) * sizes[used] == count * size
    if count:
        assert not [u for u, s in sizes.items() if s > sizes[used] and (count * size) % s == 0]


@given(st.text(max_size=30))
def test_any_text_gives_a_number_or_an_error(text: str) -> None:
    try:
        assert 0 <= parse_ttl(text) <= MAX_TTL
    except PlanError as error:
        assert error.code in ("PLAN052", "PLAN053", "PLAN054", "PLAN055", "PLAN056")
