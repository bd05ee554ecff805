"""Numbers in the results of SQL's JSON functions: as Java's ``BigDecimal`` writes them, and Python's ``Decimal``."""

from __future__ import annotations

from decimal import Decimal

import polars as pl
from hypothesis import example, given
from hypothesis import strategies as st

from stateplan.common.types import DOUBLE, LogicalType
from stateplan.common.values.atomic import FieldStyle
from stateplan.common.values.codecs import codec
from stateplan.common.values.floats import double_text

STYLE = FieldStyle(standard="ISO-8601", decimals="plain", functions=True)
SCALES = st.integers(-12, 20)


def texts(values: pl.Series, t: LogicalType) -> list[str]:
    return pl.DataFrame({"v": values}).select(codec(t).json(pl.col("v"), STYLE)).to_series().to_list()


@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False),
            st.builds(lambda digits, scale: float(f"{digits}E{-scale}"), st.integers(-(10**9), 10**9), SCALES),
        )
    )
)
@example([2147483648.0, 123456789.98765433, 1e15, 9.2e18, 1e-300, 0.0001, -1.25e-6, 1.25e-7, 1e7, -0.0])
def test_doubles(values: list[float]) -> None:
    expected = [str(Decimal(double_text(abs(v) if v == 0 else v))) for v in values]
    assert texts(pl.Series(values, dtype=pl.Float64), DOUBLE) == expected


@given(st.lists(st.integers(-(10**9), 10**9)), st.integers(0, 18))
@example([0, 1, -1, 10**9], 18)
@example([0, 1, -1], 6)
def test_decimals(digits: list[int], scale: int) -> None:
    values = [Decimal(d).scaleb(-scale) for d in digits]
    series = pl.Series(values, dtype=pl.Decimal(38, scale))
    assert texts(series, LogicalType("DECIMAL", precision=38, scale=scale)) == [str(v) for v in values]
