"""Functions that run row by row in Python, and why each has no vectorised form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from stateplan.common.errors import StateplanError

BY_ROW = {
    "ARRAY_EXCEPT, ARRAY_INTERSECT": "Polars' set operations do not keep the order",
    "ARRAY_JOIN": "if the text for NULL is not a constant",
    "ARRAY_POSITION, ARRAY_REMOVE": "Polars cannot compare a list's elements with another column",
    "ARRAY_SORT": "if the order is not a constant",
    "CAST(text AS DATE), CAST(text AS TIMESTAMP)": "texts in other forms than 2024-01-31 and 10:00:00",
    "CAST(text AS DECIMAL)": "texts with an exponent or with more digits than the type",
    "DATE_FORMAT, TO_DATE, TO_TIMESTAMP, UNIX_TIMESTAMP": "unusual patterns, and texts in unusual forms",
    "DECIMAL": "arithmetic and comparisons that need more than 38 digits on the way",
    "ENCODE, DECODE": "character sets other than UTF-8",
    "FROM_BASE64": "texts without padding",
    "INITCAP": "Polars' title case takes letters beyond ASCII for letters",
    "INSTR": "with a start or an occurrence",
    "JSON_QUOTE": "texts with characters beyond ASCII",
    "JSON_UNQUOTE": "texts in quotes",
    "JSON_OBJECT": "if a key is not a constant, or is there twice",
    "JSON_VALUE, JSON_QUERY, JSON_EXISTS, IS JSON": "Polars has no SQL/JSON paths with ON EMPTY and ON ERROR",
    "LIKE, SIMILAR TO, REGEXP, ...": "if the pattern is not a constant, or has look-around or back references",
    "MAP['key']": "if the key is not a constant",
    "MAP_FROM_ARRAYS": "Polars cannot zip two lists",
    "MD5, SHA1, SHA2, ...": "Polars has no cryptographic digests",
    "OVERLAY, LPAD, RPAD": "texts with characters beyond U+FFFF, which Java counts twice",
    "PARSE_JSON, TRY_PARSE_JSON, VARIANT[key]": "Polars has no type for VARIANT, whose values stateplan stores as JSON",
    "PARSE_URL, URL_ENCODE, URL_DECODE": "Polars has no functions for URLs",
    "REPLACE, TRANSLATE": "if what is replaced is not a constant",
    "REVERSE": "texts beyond ASCII, because Polars does not separate an accent from its letter",
    "ROUND, TRUNCATE, CAST(double AS DECIMAL)": "values whose exact digits decide, and places that are not a constant",
    "SPLIT_INDEX": "if separator or index is not a constant",
    "STR_TO_MAP": "the separators are Java's regular expressions",
}
"""Function to the reason why it runs by row, or the case in which it does; all others are vectorised."""


def shielded(function: Callable[[Sequence[pl.Series]], pl.Series]) -> Callable[[Sequence[pl.Series]], pl.Series]:
    """``function`` for ``pl.map_batches``: Polars makes a new exception of a raised one's class and text, which an
    error of this project does not survive; it travels encoded in a ValueError."""

    def run(series: Sequence[pl.Series]) -> pl.Series:
        try:
            return function(series)
        except StateplanError as error:
            raise ValueError(error.encoded()) from error

    return run


def side_by_side(series: Sequence[pl.Series], names: Sequence[str]) -> pl.DataFrame:
    """The series of a ``pl.map_batches`` as columns; one of a constant, which may have one row, for all rows."""
    height = min((len(s) for s in series if len(s) != 1), default=1)
    return pl.DataFrame(
        [(s if len(s) == height else s.new_from_index(0, height)).alias(n) for s, n in zip(series, names, strict=True)]
    )


def rowwise(
    function: Callable[..., Any],
    exprs: Sequence[pl.Expr],
    dtype: pl.DataType | type[pl.DataType],
    group: str,
    *,
    nulls: bool = False,
) -> pl.Expr:
    """``function`` applied to each row's values in Python, for what has no vectorised form.

    Equal rows of a frame are computed once, but with floats, whose 0.0 and -0.0 are equal. Without ``nulls`` a NULL
    operand returns NULL and the function is not called; an unhashable operand must be a list or dict. ``group`` is the
    entry of :data:`BY_ROW`.
    """
    assert group in BY_ROW, f"BY_ROW has no reason for {group}"

    @shielded
    def run(series: Sequence[pl.Series]) -> pl.Series:
        if not nulls and any(len(s) and s.null_count() == len(s) for s in series):
            return pl.Series([None], dtype=dtype).new_from_index(0, max(len(s) for s in series))
        height = min((len(s) for s in series if len(s) != 1), default=1)
        lists = [s.to_list() if len(s) == height else s.to_list() * height for s in series]
        results: dict[Any, Any] = {}
        has_floats = any(s.dtype.is_float() for s in series)
        out: list[Any] = []
        for row in zip(*lists, strict=True):
            if not nulls and None in row:
                out.append(None)
                continue
            try:
                if not has_floats and row in results:
                    out.append(results[row])
                    continue
                results[row] = value = function(*row)
            except TypeError:
                if _hashable(row):
                    raise
                value = function(*row)
            out.append(value)
        return pl.Series(out, dtype=dtype, strict=False)

    return pl.map_batches(list(exprs), run, return_dtype=dtype, is_elementwise=True)


def _hashable(row: tuple[Any, ...]) -> bool:
    try:
        hash(row)
    except TypeError:
        return False
    return True
