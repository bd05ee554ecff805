"""How CASE, COALESCE, IF, GREATEST and their kin run."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import polars as pl

from stateplan.functions.render.base import Renderer, renders, renders_all
from stateplan.functions.render.casts import cast_call, convert
from stateplan.functions.rex import LEGACY_CAST, Call


@renders("CASE")
def case(r: Renderer, call: Call) -> pl.Expr:
    *pairs, default = call.operands
    branches: list[tuple[pl.Expr, pl.Expr]] = []
    with ExitStack() as not_before:
        for condition, value in zip(pairs[0::2], pairs[1::2], strict=True):
            test = r.expr(condition).fill_null(False)
            with r.guard(test):
                result = convert(r.expr(value), value.type, call.type)
            branches.append((test, result))
            not_before.enter_context(r.guard(~test))
        last = convert(r.expr(default), default.type, call.type)
    test, result = branches[0]
    chain = pl.when(test).then(result)
    for test, result in branches[1:]:
        chain = chain.when(test).then(result)  # type: ignore[assignment] # another class from the second WHEN
    return chain.otherwise(last)


@renders("IF")
def if_(r: Renderer, call: Call) -> pl.Expr:
    condition, yes, no = call.operands
    test = r.expr(condition).fill_null(False)
    with r.guard(test):
        first = convert(r.expr(yes), yes.type, call.type)
    with r.guard(~test):
        second = convert(r.expr(no), no.type, call.type)
    return pl.when(test).then(first).otherwise(second)


def _converted_args(r: Renderer, call: Call) -> list[pl.Expr]:
    return [convert(r.expr(o), o.type, call.type) for o in call.operands]


def _extreme(r: Renderer, call: Call, *, largest: bool) -> pl.Expr:
    values = _converted_args(r, call)
    all_not_null = values[0].is_not_null()
    best = values[0]
    for value in values[1:]:
        all_not_null = all_not_null & value.is_not_null()
        best = pl.when(value > best if largest else value < best).then(value).otherwise(best)
    return pl.when(all_not_null).then(best)


renders_all(
    {
        **dict.fromkeys(("COALESCE", "IFNULL"), lambda r, call: pl.coalesce(_converted_args(r, call))),
        "GREATEST": partial(_extreme, largest=True),
        "LEAST": partial(_extreme, largest=False),
        **dict.fromkeys(("CAST", "TRY_CAST", LEGACY_CAST), cast_call),
    }
)
