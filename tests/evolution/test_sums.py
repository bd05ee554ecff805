"""Sums of expressions follow from the sums of their fields, for whole numbers and DECIMAL."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stateplan.common.errors import CheckpointError
from tests.support.evolving import Play, Tables, goes_on, is_refused, replayed, sink

COLUMNS = "g INT, t TINYINT, i INT, b BIGINT, d DECIMAL(8, 2), w DECIMAL(30, 2), f DOUBLE"


def ddl(changes: str = "") -> str:
    key = ", id INT, PRIMARY KEY (id) NOT ENFORCED" if changes else ""
    return replayed("numbers", COLUMNS + key, changes) + sink()


def query(*sums: str) -> str:
    texts = ", ".join(f"CAST({text} AS STRING)" for text in sums)
    return f"INSERT INTO out1 SELECT CONCAT_WS('|', CAST(g AS STRING), {texts}), 0, 0, 0 FROM numbers GROUP BY g"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    tables = Tables(tmp_path_factory.mktemp("sums"), ddl())
    rows = [
        (1, 1, 100, 2**31 - 1, 2**62, 1.25),
        (1, 1, 100, 2**31 - 1, 2**62, None),
        (1, None, None, None, None, None),
        (2, 1, -128, 7, 2**62, -99.99),
        (3, None, 3, -5, -1, 0.01),
        (3, 2, None, None, None, None),
        (4, 2, 5, 6, 7, 8.0),
    ]
    tables.arrive_in("numbers", "@at, g, t, i, b, d, w, f", [(*row, row[-1], row[-1]) for row in rows])
    return tables


def test_a_sum_of_doubles_is_twice_the_sum(tables: Tables) -> None:
    old = Play(tables.plan(query("SUM(b)")))
    old.run(0, 1)
    new, notes = old.evolve(tables.plan(query("SUM(b * 2 + 1)")))
    assert notes[-1].endswith("is derived: SUM(b) is no longer kept; SUM($f1) follows from what is kept")
    # 2 * (3 * 2**62) + 3 is more than a BIGINT
    assert new.run(1, 2)[0][0] == f"0 +U ('1|{(6 * 2**62 + 3 + 2**63) % 2**64 - 2**63}', 0, 0, 0)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["SUM(i)"], ["SUM(i * 2)"]),
        (["SUM(i)"], ["SUM(-i)", "COUNT(-i)"]),
        (["SUM(i)"], ["SUM(7 - i * 3)"]),
        (["SUM(i + 5)"], ["SUM(i)"]),
        (["SUM(3 - i)"], ["SUM(i * 100000)"]),
        (["AVG(i)"], ["SUM(i)", "SUM(i * 2)", "AVG(CAST(i AS BIGINT))"]),
        (["AVG(i)"], ["SUM(CAST(i AS BIGINT) * 3 - 4)"]),
        (["AVG(t)"], ["SUM(t + 1)", "SUM(CAST(t AS BIGINT))"]),
        (["SUM(b)"], ["SUM(b * 3)", "AVG(b * 3)", "COUNT(b + 1)"]),
        (["SUM(d)"], ["SUM(d * 2.5)", "AVG(d)", "SUM(CAST(d AS DECIMAL(14, 4)))"]),
        (["AVG(d)"], ["SUM(1 - d)", "SUM(-d)"]),
        (["SUM(d)", "MIN(d)"], ["SUM(CAST(d AS DECIMAL(12, 2)) + 0.001)", "MIN(CAST(d AS DECIMAL(12, 2)))"]),
    ],
)
def test_a_sum_follows(before: list[str], after: list[str], tables: Tables) -> None:
    assert goes_on(tables, query(*before), query(*after)) == "derive"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("SUM(i)", "SUM(CAST(i AS BIGINT))"),
        ("SUM(i)", "AVG(i)"),
        ("SUM(i)", "SUM(i * b)"),
        ("AVG(i)", "AVG(i * 2)"),
        ("SUM(t)", "SUM(t + 1)"),
        ("SUM(i * 2)", "SUM(i)"),
        ("SUM(f)", "SUM(f * 2)"),
        ("SUM(w)", "SUM(w * 2)"),
        ("SUM(w)", "AVG(w)"),
        ("SUM(d)", "SUM(CAST(d AS DECIMAL(8, 1)))"),
        ("SUM(d)", "SUM(CAST(d AS DECIMAL(6, 2)))"),
        ("SUM(i)", "SUM(i / 2)"),
        ("MIN(i)", "MIN(i + 1)"),
    ],
)
def test_a_sum_does_not_follow(before: str, after: str, tables: Tables) -> None:
    is_refused(tables, query(before), query(after), "would not have seen the earlier rows")


FORMS = ("({0} * {1})", "({1} * {0})", "({0} + {1})", "({0} - {1})", "({1} - {0})", "(-{0})")


@st.composite
def pair(draw: st.DrawFn) -> tuple[str, str]:
    """A call, and another one of an expression that is often linear."""
    column = draw(st.sampled_from(["t", "i", "b", "d"]))
    numbers = ["2.5", "-3", "0.125", "1000000"] if column == "d" else ["2", "-3", "100000", "CAST(3 AS BIGINT)", "1.5"]
    casts = [f"CAST({column} AS {kind})" for kind in (["DECIMAL(12, 3)"] if column == "d" else ["BIGINT", "INT"])]
    text = draw(st.sampled_from([column, column, *casts]))
    for form in draw(st.lists(st.sampled_from(FORMS), max_size=2)):
        text = form.format(text, draw(st.sampled_from(numbers)))
    before = draw(st.sampled_from([f"SUM({column})", f"AVG({column})", f"SUM(-{column})", f"MAX({column})"]))
    after = "MAX" if before.startswith("MAX") else draw(st.sampled_from(["SUM", "SUM", "AVG", "COUNT"]))
    return before, f"{after}({text})"


@st.composite
def changes(draw: st.DrawFn) -> list[tuple[object, ...]]:
    """Rows of a table that are inserted, updated and deleted."""
    live: set[int] = set()
    out: list[tuple[object, ...]] = []
    for number in range(draw(st.integers(4, 14))):
        key = draw(st.integers(1, 4))
        kind = "+I" if key not in live else draw(st.sampled_from(["+U", "+U", "-D"]))
        live = live - {key} if kind == "-D" else live | {key}
        some = st.none() | st.sampled_from([0, 1, -1, 3])
        decimal = draw(some | st.sampled_from([Decimal("99.99"), Decimal("-0.01"), Decimal("999999.99")]))
        row = (
            1,
            draw(some | st.sampled_from([127, -128])),
            draw(some | st.sampled_from([2**31 - 1, -(2**31)])),
            draw(some | st.sampled_from([2**63 - 1, -(2**63), 2**62])),
            None if decimal is None else float(decimal),
        )
        out.append((1 + number // 4, kind, key, *row))
    return out


@given(pair(), changes())
@example(  # the group begins again in the second micro-batch
    ("SUM(t)", "SUM((t * 2))"), [(1, "+I", 1, 1, None, None, None, None), (2, "+U", 1, 1, 0, None, None, None)]
)
def test_what_is_derived_is_exact(sums: tuple[str, str], rows: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = Tables(Path(folder), ddl("upsert"))
        tables.arrive_in("numbers", "@at, _op, id, g, t, i, b, d", rows)
        try:
            goes_on(tables, query(sums[0]), query(sums[1]), accept="derive", stops=(1, 2))
        except CheckpointError as error:
            assert error.code == "CKPT003"
