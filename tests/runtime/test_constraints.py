"""What a sink's columns demand: NOT NULL and lengths, as Flink's ConstraintEnforcer sees to them."""

from __future__ import annotations

import pickle
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import KIND
from stateplan.common.errors import DataError, RunError
from stateplan.common.types import parse_type, row_type
from stateplan.execnodes.nodes.sink import Sink
from stateplan.runtime.operators import Stateless, operator_of
from stateplan.runtime.transforms.constraints import ConstraintTransform


def transform(types: list[str], nulls: str = "ERROR", lengths: str = "IGNORE", nested: str = "IGNORE") -> Any:
    fields = tuple((f"f{i}", parse_type(t)) for i, t in enumerate(types))
    return pickle.loads(pickle.dumps(ConstraintTransform("t", fields, nulls, lengths, nested)))


def rows(types: list[str], data: list[tuple[Any, ...]], kinds: list[int] | None = None) -> pl.DataFrame:
    schema = {f"c{i}": parse_type(t).polars() for i, t in enumerate(types)}
    out = pl.DataFrame(data, schema=schema, orient="row")
    return out if kinds is None else out.with_columns(pl.Series(KIND, kinds, dtype=pl.Int8))


def test_a_null_in_a_not_null_column_is_an_error_or_drops_its_row() -> None:
    types = ["INT", "STRING NOT NULL"]
    data = rows(types, [(1, "a"), (2, None), (None, "b")], [0, 3, 2])
    with pytest.raises(DataError) as error:
        transform(types)(data, 0)
    assert error.value.code == "DATA202"
    assert "'f1'" in str(error.value) and "table.exec.sink.not-null-enforcer" in str(error.value)
    assert transform(types, "DROP")(data, 0).rows() == [(1, "a", 0), (None, "b", 2)]


def test_lengths_are_ignored_unless_asked_for() -> None:
    types = ["CHAR(3)", "VARCHAR(2)", "BINARY(2)", "VARBINARY(3)", "STRING"]
    data = rows(types, [("ab", "xyz", b"a", b"abcd", "long"), ("äöüß", None, b"abc", None, None)])
    assert transform(types)(data, 0).equals(data)
    assert not transform(types).demands_something
    assert transform(types, lengths="TRIM_PAD")(data, 0).rows() == [
        ("ab ", "xy", b"a\0", b"abc", "long"),
        ("äöü", None, b"ab", None, None),
    ]
    with pytest.raises(DataError, match=r"'f0' of 't' is CHAR\(3\), but the query writes a text of length 2") as error:
        transform(types, lengths="ERROR")(data, 0)
    assert error.value.code == "DATA203"


def test_a_dropped_row_has_no_length() -> None:
    types = ["INT NOT NULL", "VARCHAR(1)"]
    data = rows(types, [(None, "long"), (1, "x")])
    assert transform(types, "DROP", "ERROR")(data, 0).rows() == [(1, "x")]
    with pytest.raises(DataError, match="'f1'"):
        transform(types, "DROP", "ERROR")(rows(types, [(None, "a"), (1, "xy")]), 0)


def test_rows_and_collections_are_looked_into_when_asked() -> None:
    types = ["ROW<a INT NOT NULL, b ROW<c VARCHAR(2)>>", "ARRAY<VARCHAR(2)>", "MAP<STRING, INT NOT NULL>"]
    good = ({"a": 1, "b": {"c": "xy"}}, ["ab", None], [{"key": "k", "value": 1}])
    data = rows(types, [good, (None, None, None), ({"a": None, "b": None}, [], []), good])
    assert transform(types)(data, 0).equals(data)
    assert transform(types, "DROP", nested="ROWS")(data, 0).height == 3
    inside = rows(types, [good, (None, ["abc"], None), (None, None, [{"key": "k", "value": None}])])
    assert transform(types, "DROP", "ERROR", "ROWS")(inside, 0).height == 3
    with pytest.raises(DataError, match=r"'f1\[\]' of 't' is VARCHAR\(2\), but the query writes a text of length 3"):
        transform(types, "DROP", "ERROR", "ROWS_AND_COLLECTIONS")(inside, 0)
    with pytest.raises(DataError, match=r"'f2\.value' of 't' is NOT NULL"):
        transform(types, "ERROR", "IGNORE", "ROWS_AND_COLLECTIONS")(inside, 0)
    long = rows(types, [({"a": 1, "b": {"c": "xyz"}}, None, None), (None, None, None)])
    trimmed = transform(types, lengths="TRIM_PAD", nested="ROWS")(long, 0)
    assert trimmed.rows() == [({"a": 1, "b": {"c": "xy"}}, None, None), (None, None, None)]


TYPES = ["INT NOT NULL", "CHAR(2) NOT NULL", "VARCHAR(2)", "BINARY(2)"]
VALUES = st.tuples(
    st.sampled_from([None, 1]),
    st.sampled_from([None, "", "a", "ab", "abc"]),
    st.sampled_from([None, "", "ab", "äöü"]),
    st.sampled_from([None, b"", b"ab", b"abc"]),
)


def one(row: tuple[Any, ...], nulls: str, lengths: str) -> tuple[Any, ...] | str | None:
    """Flink's enforcer on one row: the row, None where it is dropped, the code of the error."""
    out = list(row)
    for i in (0, 1):
        if row[i] is None:
            return "DATA202" if nulls == "ERROR" else None
    for i, fixed in ((1, True), (2, False), (3, True)):
        value = row[i]
        if lengths == "IGNORE" or value is None:
            continue
        if lengths == "ERROR" and (len(value) > 2 or (fixed and len(value) < 2)):
            return "DATA203"
        blank: Any = b"\0" if i == 3 else " "
        out[i] = value[:2].ljust(2, blank) if fixed else value[:2]
    return tuple(out)


@given(
    st.lists(VALUES, max_size=8),
    st.sampled_from(["ERROR", "DROP"]),
    st.sampled_from(["IGNORE", "TRIM_PAD", "ERROR"]),
)
def test_row_by_row(data: list[tuple[Any, ...]], nulls: str, lengths: str) -> None:
    expected = [one(row, nulls, lengths) for row in data]
    failed = next((e for e in expected if isinstance(e, str)), None)
    check = transform(TYPES, nulls, lengths)
    if failed is None:
        assert check(rows(TYPES, data), 0).rows() == [e for e in expected if e is not None]
        return
    with pytest.raises(DataError) as error:
        check(rows(TYPES, data), 0)
    assert error.value.code == failed


def sink(**configuration: str) -> Sink:
    columns = [{"name": "a", "dataType": "VARCHAR(2) NOT NULL"}]
    table = {"identifier": "`c`.`d`.`t`", "resolvedTable": {"schema": {"columns": columns}}}
    return Sink.model_validate(
        {
            "id": 1,
            "configuration": configuration,
            "dynamicTableSink": {"table": table},
            "inputChangelogMode": ["INSERT"],
            "outputType": "ROW<`a` VARCHAR(2)>",
        }
    )


def test_the_plan_decides_before_the_session() -> None:
    inputs = [row_type([("a", parse_type("VARCHAR(2)"))])]
    key = "table.exec.sink.not-null-enforcer"
    for node, session, nulls in ((sink(), {}, "ERROR"), (sink(), {key: "drop"}, "DROP")):
        part = operator_of(node, inputs, session)
        assert isinstance(part, Stateless)
        (check,) = part.transforms
        assert check.nulls == nulls  # type: ignore[attr-defined]
    (check,) = operator_of(sink(**{key: "ERROR"}), inputs, {key: "DROP"}).transforms  # type: ignore[union-attr]
    assert check.nulls == "ERROR"  # type: ignore[attr-defined]


def test_collections_cannot_be_made_to_fit() -> None:
    options = {
        "table.exec.sink.type-length-enforcer": "TRIM_PAD",
        "table.exec.sink.nested-constraint-enforcer": "ROWS_AND_COLLECTIONS",
    }
    with pytest.raises(RunError) as error:
        operator_of(sink(), [row_type([("a", parse_type("VARCHAR(2)"))])], options)
    assert error.value.code == "RUN022"
