"""UUID, RAND and RAND_INTEGER: other values for other rows, and the same ones when a micro-batch runs again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from stateplan.common.errors import DataError
from stateplan.common.types import DOUBLE, INT
from stateplan.functions.builder import make_call
from stateplan.functions.literals import null_literal
from stateplan.functions.rex import InputRef, Literal, Rex
from stateplan.runtime.transforms.calc import CalcTransform
from stateplan.session.environment import TableEnvironment

FRAME = pl.DataFrame({"c0": list(range(1000))})
FORM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def values(*rexes: Rex, condition: Rex | None = None, piece: str = "p", now: int = 7) -> pl.DataFrame:
    return CalcTransform(rexes, condition).of_piece(piece).at_watermark(FRAME, now, None)


def number(value: int) -> Rex:
    return Literal(INT.not_null(), value)


def test_every_row_and_every_call_has_a_uuid_of_its_own() -> None:
    made = values(make_call("UUID", []), make_call("UUID", []))
    every = [*made["c0"], *made["c1"]]
    assert len(set(every)) == 2000
    assert all(FORM.fullmatch(text) for text in every)


def test_a_micro_batch_that_runs_again_makes_the_same_values_and_no_other_piece_does() -> None:
    call = make_call("UUID", [])
    first = set(values(call)["c0"])
    assert set(values(call)["c0"]) == first
    assert not first & set(values(call, piece="q")["c0"])
    assert not first & set(values(call, now=8)["c0"])


def test_numbers_are_spread_evenly() -> None:
    made = values(make_call("RAND", []), make_call("RAND_INTEGER", [number(5)]))
    assert made["c0"].min() >= 0 and made["c0"].max() < 1  # type: ignore[operator]
    assert 0.45 < made["c0"].mean() < 0.55  # type: ignore[operator]
    assert sorted(made["c1"].unique()) == [0, 1, 2, 3, 4]
    assert made.dtypes == [pl.Float64, pl.Int32]


def test_calls_with_one_constant_seed_agree_and_others_do_not() -> None:
    made = values(*(make_call("RAND", [number(seed)]) for seed in (1, 1, 2)), make_call("RAND", []))
    assert made["c0"].equals(made["c1"])
    assert not made["c0"].equals(made["c2"]) and not made["c0"].equals(made["c3"])
    both = values(*(make_call("RAND_INTEGER", [number(seed), number(9)]) for seed in (4, 4)))
    assert both["c0"].equals(both["c1"])


def test_a_seed_that_is_null_gives_null_and_a_bound_below_one_fails() -> None:
    null = null_literal(INT)
    assert values(make_call("RAND", [null]))["c0"].null_count() == FRAME.height
    assert values(make_call("RAND_INTEGER", [null]))["c0"].null_count() == FRAME.height
    with pytest.raises(DataError, match="the bound -1 is not positive"):
        values(make_call("RAND_INTEGER", [make_call("-", [InputRef(INT, 0), number(1)])]))


def test_a_condition_takes_its_share() -> None:
    few = make_call("<", [make_call("RAND", []), Literal(DOUBLE.not_null(), "0.1")])
    assert 50 < values(InputRef(INT, 0), make_call("RAND", []), condition=few).height < 150


def test_a_job_fills_its_tables_with_different_ones(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("".join(json.dumps({"id": i}) + "\n" for i in range(50)))
    env = TableEnvironment.create()
    table = f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 't.json'}', 'format' = 'json')"
    env.execute_sql(f"CREATE TABLE t (id INT) {table}")
    found = env.execute_sql("SELECT UUID(), id FROM t UNION ALL SELECT UUID(), -id FROM t").collect()
    keys = [key for key, _ in map(tuple, found)]
    assert len(keys) == len(set(keys)) == 100
