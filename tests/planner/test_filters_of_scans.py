"""Conditions on their way to a source: in conjunctive normal form, without work for what is in it already."""

from __future__ import annotations

import pytest

from stateplan.common.types import BOOLEAN, INT
from stateplan.functions.rex import InputRef, Literal, Rex
from stateplan.planner.expressions.ops import and_, call, not_, or_
from stateplan.planner.passes import scans
from stateplan.planner.passes.scans import to_cnf


def equals(field: int, value: int) -> Rex:
    return call("=", [InputRef(INT, field), Literal(INT, value)], BOOLEAN)


def test_a_long_in_is_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    condition = or_([equals(0, value) for value in range(300)])
    steps: list[Rex] = []
    original = scans._cnf

    def counted(rex: Rex, limit: int) -> Rex:
        steps.append(rex)
        return original(rex, limit)

    monkeypatch.setattr(scans, "_cnf", counted)
    assert to_cnf(condition) == condition
    assert len(steps) == 1


def test_other_disjunctions_are_distributed() -> None:
    a, b, c = equals(0, 1), equals(1, 2), equals(2, 3)
    assert to_cnf(or_([a, and_([b, c])])) == and_([or_([a, b]), or_([a, c])])
    assert to_cnf(or_([a, not_(and_([b, c]))])) == or_([a, to_cnf(not_(and_([b, c])))])
