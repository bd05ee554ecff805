"""Rows of the function table: periods of time, given by two ends, or by a start and how long they last."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.errors import Place
from stateplan.common.types import BOOLEAN
from stateplan.functions.builder import make_call
from stateplan.functions.rex import Rex
from stateplan.functions.table import ScalarFunction, always, register


def _ends(start: Rex, end: Rex, place: Place | None) -> tuple[Rex, Rex]:
    """The earlier and the later end of a period, as Calcite's ``StandardConvertletTable.convertOverlaps`` has them."""
    if end.type.root.startswith("INTERVAL"):
        end = make_call("+", [start, end], place)
    is_ordered = make_call("<=", [start, end], place)
    return make_call("CASE", [is_ordered, start, end], place), make_call("CASE", [is_ordered, end, start], place)


def _overlaps(operands: Sequence[Rex], place: Place | None) -> Rex:
    start, end = _ends(operands[0], operands[1], place)
    other_start, other_end = _ends(operands[2], operands[3], place)
    tests = [make_call(">=", pair, place) for pair in ((end, other_start), (other_end, start))]
    return make_call("AND", tests, place)


_PERIOD = ("DATETIME", "DATETIME|INTERVAL")

register([ScalarFunction("OVERLAPS", (*_PERIOD, *_PERIOD), always(BOOLEAN), rewrite=_overlaps)])
