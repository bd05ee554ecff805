"""How LIKE, SIMILAR TO and the REGEXP functions run."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import polars as pl

from stateplan.common.errors import DataError
from stateplan.functions.render.base import Render, Renderer, constant_text, renders, renders_all
from stateplan.functions.render.patterns import (
    PatternError,
    like_regex,
    python_regex,
    rust_regex,
    similar_regex,
)
from stateplan.functions.render.rowwise import rowwise
from stateplan.functions.rex import Call, Literal


@lru_cache(maxsize=1024)
def _compiled(make: Callable[[str, str | None], str], pattern: str, escape: str | None) -> re.Pattern[str]:
    if escape is not None and len(escape) != 1:
        raise PatternError(f"{escape!r} is not one character to escape with")
    return re.compile(make(pattern, escape).replace(r"\z", r"\Z"))


def _predicate(r: Renderer, call: Call, make: Callable[[str, str | None], str]) -> pl.Expr:
    """A match of the whole text; a pattern that is none fails the job where a row has a text for it."""

    def one(value: str, template: str, escape: str | None = None) -> bool:
        try:
            return _compiled(make, template, escape).match(value) is not None
        except (PatternError, re.error) as cause:
            raise DataError("DATA301", name=call.name, problem=f"{template!r:.60} is not a pattern: {cause}") from cause

    constants = [constant_text(o) for o in call.operands[1:]]
    if None not in constants:
        pattern, escape = (*constants, None)[:2]
        try:
            _compiled(make, str(pattern), escape)
            return r.expr(call.operands[0]).str.contains(make(str(pattern), escape))
        except (PatternError, re.error):
            pass
    return rowwise(one, r.args(call), pl.Boolean, "LIKE, SIMILAR TO, REGEXP, ...")


_ANCHORED = re.compile(r"(%?)([^%_]*)(%?)", re.S)


@renders("LIKE")
def like(r: Renderer, call: Call) -> pl.Expr:
    pattern = constant_text(call.operands[1])
    match = _ANCHORED.fullmatch(pattern) if pattern is not None and len(call.operands) == 2 else None
    if match is None:
        return _predicate(r, call, like_regex)
    text = r.expr(call.operands[0])
    before, word, after = match.groups()
    if before and after:
        return text.str.contains(word, literal=True)
    if pattern == "%":
        return text.is_not_null() | pl.lit(None, dtype=pl.Boolean)
    return text.str.ends_with(word) if before else text.str.starts_with(word) if after else text == word


renders("SIMILAR TO")(partial(_predicate, make=similar_regex))


def _search(
    r: Renderer,
    call: Call,
    dtype: Any,
    quick: Callable[[pl.Expr, str], pl.Expr] | None,
    slow: Callable[..., Any],
    invalid: Any = None,
) -> pl.Expr:
    """A function of text and pattern: ``quick`` with a constant pattern that Rust knows, else ``slow`` per row with a
    compiled pattern; ``invalid`` for what is not a pattern."""
    text, template, *rest = call.operands
    pattern = constant_text(template)
    if pattern is not None and quick is not None:
        rust = rust_regex(pattern)
        if rust is not None:
            return quick(r.expr(text), rust)

    def one(value: str, source: str, *more: Any) -> Any:
        compiled = python_regex(source)
        return invalid if compiled is None else slow(compiled, value, *more)

    return rowwise(
        one, [r.expr(text), r.expr(template), *(r.expr(o) for o in rest)], dtype, "LIKE, SIMILAR TO, REGEXP, ..."
    )


@renders("REGEXP")
def regexp(r: Renderer, call: Call) -> pl.Expr:
    if constant_text(call.operands[1]) == "":
        text = r.expr(call.operands[0])
        return pl.when(text.is_not_null()).then(pl.lit(False))
    return _search(
        r,
        call,
        pl.Boolean,
        lambda e, p: e.str.contains(p),
        lambda p, value: bool(p.pattern) and p.search(value) is not None,
        False,
    )


def _group(pattern: re.Pattern[str], value: str, index: int = 0) -> str | None:
    match = pattern.search(value)
    return match[index] if match is not None and 0 <= index <= pattern.groups else None


@renders("REGEXP_EXTRACT")
def extract(r: Renderer, call: Call) -> pl.Expr:
    index = call.operands[2] if len(call.operands) == 3 else Literal(call.type, 0)
    constant_index = index.value if isinstance(index, Literal) else None

    def quick(e: pl.Expr, pattern: str) -> pl.Expr:
        compiled = python_regex(constant_text(call.operands[1]) or "")
        groups = compiled.groups if compiled else 99
        if not isinstance(constant_index, int) or not 0 <= constant_index <= groups:
            return pl.when(e.is_null()).then(e)
        return e.str.extract(pattern, constant_index)

    return _search(r, call, pl.String, quick if isinstance(constant_index, int) else None, _group)


@renders("REGEXP_REPLACE")
def replace(r: Renderer, call: Call) -> pl.Expr:
    replacement = constant_text(call.operands[2])
    quick = None
    if replacement is not None:
        escaped = replacement.replace("$", "$$")

        def quick(e: pl.Expr, pattern: str) -> pl.Expr:
            return e.str.replace_all(pattern, escaped)

    return _search(r, call, pl.String, quick, lambda p, value, new: p.sub(lambda _: new, value))


def _every(pattern: re.Pattern[str], value: str, index: int = 1) -> list[str | None] | None:
    return [m[index] for m in pattern.finditer(value)] if 0 <= index <= pattern.groups else None


def _position(pattern: re.Pattern[str], value: str) -> int:
    match = pattern.search(value)
    return match.start() + 1 if match else 0


def _searches(dtype: Any, quick: Callable[[pl.Expr, str], pl.Expr] | None, slow: Callable[..., Any]) -> Render:
    return lambda r, call: _search(r, call, dtype, quick, slow)


renders_all(
    {
        "REGEXP_COUNT": _searches(
            pl.Int32, lambda e, p: e.str.count_matches(p).cast(pl.Int32), lambda p, value: len(p.findall(value))
        ),
        "REGEXP_EXTRACT_ALL": _searches(pl.List(pl.String), None, _every),
        "REGEXP_INSTR": _searches(pl.Int32, None, _position),
        "REGEXP_SUBSTR": _searches(pl.String, lambda e, p: e.str.extract(p, 0), _group),
    }
)
