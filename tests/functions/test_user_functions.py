"""User-defined scalar functions on frames: values in and out, errors, pandas and Arrow."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from stateplan.common.errors import DataError, RunError
from stateplan.common.types import BIGINT, BOOLEAN, LogicalType
from stateplan.common.values.row import Row
from stateplan.functions.rex import Call, InputRef, Rex
from stateplan.functions.user import UserFunction
from stateplan.functions.values import column_of, python_values
from stateplan.planner.catalog.udf import DataTypes, ScalarFunction, udf
from stateplan.runtime.transforms.calc import CalcTransform
from stateplan.runtime.user_functions import Shipped

TEXT = DataTypes.STRING()


def called(function: UserFunction, *operands: Rex) -> Call:
    return Call(function.result, operands, system_name="f", function=function.with_name("f"))


def run(function: UserFunction, values: list[Any], of: LogicalType = BIGINT) -> list[Any]:
    frame = pl.DataFrame({"c0": pl.Series(values, dtype=of.polars())})
    return CalcTransform((called(function, InputRef(of, 0)),))(frame, 0)["c0"].to_list()


def test_a_value_per_row_nulls_included() -> None:
    function = udf(lambda v: None if v is None else v * 2, ["BIGINT"], "BIGINT")
    assert run(function, [1, None, 3]) == [2, None, 6]
    assert run(function, []) == []


def test_without_arguments() -> None:
    frame = pl.DataFrame({"c0": pl.Series([1, 2, 3])})
    calc = CalcTransform((called(udf(lambda: 7, [], "INT")),))
    assert calc(frame, 0)["c0"].to_list() == [7, 7, 7]


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("BOOLEAN", [True, None]),
        ("TINYINT", [-128, 127]),
        ("DOUBLE", [1.5, None]),
        ("DECIMAL(10, 2)", [Decimal("1.20"), None]),
        ("STRING", ["a", ""]),
        ("BYTES", [b"\x00", None]),
        ("DATE", [dt.date(2024, 1, 31), None]),
        ("TIME", [dt.time(10, 0, 1), None]),
        ("TIMESTAMP(3)", [dt.datetime(2024, 1, 1, 10, 0, 0, 500_000), None]),
        ("TIMESTAMP_LTZ(3)", [dt.datetime(2024, 1, 1, 10, tzinfo=dt.UTC), None]),
        ("ARRAY<INT>", [[1, None], []]),
        ("MAP<STRING, INT>", [{"a": 1, "b": None}, {}]),
        ("ROW<a INT, b ROW<c STRING>>", [Row(a=1, b=Row(c="x")), None]),
    ],
)
def test_values_come_out_as_they_went_in(typed: str, values: list[Any]) -> None:
    function = udf(lambda v: v, [typed], typed)
    of = function.result
    column = column_of(values, of, function)
    assert column.dtype == of.polars()
    assert python_values(column, of) == values
    assert run(function, column.to_list(), of) == column.to_list()


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("BIGINT", "1"),
        ("BIGINT", True),
        ("TINYINT", 128),
        ("BIGINT NOT NULL", None),
        ("STRING", 1),
        ("DATE", dt.datetime(2024, 1, 1)),
        ("TIMESTAMP(3)", "2024-01-01"),
        ("ARRAY<INT>", [1, "a"]),
        ("ROW<a INT, b INT>", (1,)),
        ("DECIMAL(4, 2)", 1.5),
    ],
)
def test_a_result_of_another_type_names_the_function(typed: str, value: Any) -> None:
    with pytest.raises(DataError, match="the function f returned") as caught:
        run(udf(lambda v: value, ["BIGINT"], typed), [1])
    assert caught.value.code == "DATA311"


def test_a_decimal_is_rounded_and_null_where_it_does_not_fit() -> None:
    function = udf(lambda v: Decimal(v) / 8, ["BIGINT"], "DECIMAL(4, 2)")
    assert run(function, [1, 80_000]) == [Decimal("0.13"), None]


def test_an_exception_names_function_arguments_and_operator() -> None:
    from dataclasses import replace

    function = replace(udf(lambda v: 1 // v, ["BIGINT"], "BIGINT"), operator="python-calc[2] over orders")
    with pytest.raises(DataError) as caught:
        run(function, [1, 0])
    assert caught.value.code == "DATA310"
    assert "f raised ZeroDivisionError" in caught.value.message
    assert "(0) by python-calc[2] over orders" in caught.value.message


def test_a_wrong_number_of_arguments_is_an_error_of_the_function() -> None:
    with pytest.raises(DataError, match="f raised TypeError"):
        run(udf(lambda a, b: a, None, "BIGINT"), [1])


@pytest.mark.parametrize("vector", ["pandas", "arrow"])
def test_whole_columns(vector: Any) -> None:
    def double(column: Any) -> Any:
        if vector == "pandas":
            return column * 2
        import pyarrow.compute as pc

        return pc.multiply(column, 2)

    assert run(udf(double, ["BIGINT"], "BIGINT", func_type=vector), [1, None, 3]) == [2, None, 6]


def test_a_column_of_another_length_is_an_error() -> None:
    with pytest.raises(DataError) as caught:
        run(udf(lambda c: c[:1], ["BIGINT"], "BIGINT", func_type="pandas"), [1, 2])
    assert caught.value.code == "DATA312"


def test_branches_that_are_not_taken_are_not_called() -> None:
    inverse = udf(lambda v: 10 // v, ["BIGINT"], "BIGINT")
    ref = InputRef(BIGINT, 0)
    zero = Call(BOOLEAN, (ref, _constant(0)), "$=$1", "BINARY")
    case = Call(BIGINT, (zero, _constant(-1), called(inverse, ref)), "$CASE$1", "SPECIAL")
    frame = pl.DataFrame({"c0": pl.Series([5, 0, 2])})
    assert CalcTransform((case,))(frame, 0)["c0"].to_list() == [2, -1, 5]


def _constant(value: int) -> Rex:
    from stateplan.functions.rex import Literal

    return Literal(BIGINT.not_null(), value)


class _Opened(ScalarFunction):
    def open(self, function_context: Any) -> None:
        self.prefix = function_context.get_job_parameter("prefix", ">")

    def eval(self, text: str) -> str:
        return self.prefix + text


def test_a_function_that_is_sent_to_a_worker_is_opened_there() -> None:
    from dataclasses import replace

    function = udf(_Opened(), ["STRING"], "STRING")
    sent = replace(function, body=Shipped("f", function.body))
    calc = pickle.loads(pickle.dumps(CalcTransform((called(sent, InputRef(TEXT, 0)),))))
    frame = pl.DataFrame({"c0": pl.Series(["a"])})
    assert calc(frame, 0)["c0"].to_list() == [">a"]


def test_what_cannot_be_sent_is_refused() -> None:
    import threading

    lock = threading.Lock()
    with pytest.raises(RunError) as caught:
        Shipped("f", lambda v: lock)
    assert caught.value.code == "RUN072"


def test_rows_by_position_and_name() -> None:
    row = Row(id=1, name="a")
    assert (row[0], row.name, row["name"], row.as_dict()) == (1, "a", "a", {"id": 1, "name": "a"})
    assert repr(row) == "Row(id=1, name='a')"
    assert repr(Row(1, "a")) == "Row(1, 'a')"
    with pytest.raises(AttributeError, match="no field 'other'"):
        _ = row.other
    with pytest.raises(ValueError, match="with names or without"):
        Row(1, name="a")
