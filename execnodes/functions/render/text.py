"""How string functions run. Positions count characters (code points) from 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from stateplan.execnodes.errors import DataError
from stateplan.execnodes.functions.render.base import Renderer, renders, rowwise
from stateplan.execnodes.functions.render.casts import convert
from stateplan.execnodes.functions.render.parsing import parse_double
from stateplan.execnodes.rex import Call, Literal, Rex
from stateplan.execnodes.types import STRING

__all__: list[str] = []


def _constant(rex: Rex) -> Any:
    return rex.value if isinstance(rex, Literal) else None


@renders("UPPER")
def upper(r: Renderer, call: Call) -> pl.Expr:
    return r.expr(call.operands[0]).str.to_uppercase()


@renders("LOWER")
def lower(r: Renderer, call: Call) -> pl.Expr:
    return r.expr(call.operands[0]).str.to_lowercase()


def _initcap(text: str) -> str:
    """The first of each run of ASCII letters and digits in upper case, the rest of it in lower case."""
    out, start = [], True
    for c in text:
        if c.isascii() and c.isalnum():
            out.append(c.upper() if start else c.lower())
            start = False
        else:
            out.append(c)
            start = True
    return "".join(out)


@renders("INITCAP")
def initcap(r: Renderer, call: Call) -> pl.Expr:
    return rowwise(_initcap, r.args(call), pl.String)


def _stripped(r: Renderer, text: Rex, characters: Rex | None, side: str) -> pl.Expr:
    e = r.expr(text)
    known = " " if characters is None else _constant(characters)
    if isinstance(known, str):
        if known == "":
            return e
        strip = {"BOTH": e.str.strip_chars, "LEADING": e.str.strip_chars_start, "TRAILING": e.str.strip_chars_end}[side]
        return strip(known)
    name = {"BOTH": "strip", "LEADING": "lstrip", "TRAILING": "rstrip"}[side]
    return rowwise(
        lambda t, c: getattr(t, name)(c) if c else t,
        [e, r.expr(characters)],  # type: ignore[arg-type]
        pl.String,
    )


@renders("TRIM")
def trim(r: Renderer, call: Call) -> pl.Expr:
    flag, characters, text = call.operands
    return _stripped(r, text, characters, str(_constant(flag)))


def _trims(name: str, side: str) -> None:
    @renders(name)
    def render(r: Renderer, call: Call) -> pl.Expr:
        return _stripped(r, call.operands[0], call.operands[1] if len(call.operands) > 1 else None, side)


for _name, _side in (("LTRIM", "LEADING"), ("RTRIM", "TRAILING"), ("BTRIM", "BOTH")):
    _trims(_name, _side)


def _length(e: pl.Expr) -> pl.Expr:
    return e.str.len_chars().cast(pl.Int64)


@renders("SUBSTRING", "SUBSTR")
def substring(r: Renderer, call: Call) -> pl.Expr:
    """From position, which counts from the end where it is negative; NULL for a negative length."""
    text = r.expr(call.operands[0])
    position = _constant(call.operands[1])
    length = _constant(call.operands[2]) if len(call.operands) == 3 else 2**31 - 1
    if isinstance(position, int) and position >= 0 and isinstance(length, int):
        if length < 0:
            return pl.when(text.is_null()).then(text)
        return text.str.slice(max(position - 1, 0), length)
    at = r.expr(call.operands[1]).cast(pl.Int64)
    count = r.expr(call.operands[2]).cast(pl.Int64) if len(call.operands) == 3 else pl.lit(2**31 - 1, dtype=pl.Int64)
    start = pl.when(at > 0).then(at - 1).when(at < 0).then(_length(text) + at).otherwise(pl.lit(0, dtype=pl.Int64))
    inside = pl.when(start >= 0).then(text.str.slice(start, pl.max_horizontal(count, pl.lit(0, dtype=pl.Int64))))
    result = inside.otherwise(pl.lit(""))
    return pl.when(text.is_not_null() & at.is_not_null() & (count >= 0)).then(result)


def _clipped(e: pl.Expr) -> pl.Expr:
    return pl.max_horizontal(e.cast(pl.Int64), pl.lit(0, dtype=pl.Int64))


@renders("LEFT")
def left(r: Renderer, call: Call) -> pl.Expr:
    text, count = r.args(call)
    return pl.when(count.is_not_null()).then(text.str.head(_clipped(count)))


@renders("RIGHT")
def right(r: Renderer, call: Call) -> pl.Expr:
    text, count = r.args(call)
    return pl.when(count.is_not_null()).then(text.str.tail(_clipped(count)))


@renders("CHAR_LENGTH")
def char_length(r: Renderer, call: Call) -> pl.Expr:
    return r.expr(call.operands[0]).str.len_chars().cast(pl.Int32)


def _find(needle: str, text: str, start: int = 1) -> int:
    if needle == "":
        return 1
    return text.find(needle, max(start - 1, 0)) + 1


@renders("POSITION", "LOCATE")
def position(r: Renderer, call: Call) -> pl.Expr:
    needle, text, *start = call.operands
    known = _constant(needle)
    if start or not isinstance(known, str) or known == "":
        return rowwise(_find, r.args(call), pl.Int32)
    e = r.expr(text)
    before = e.str.splitn(known, 2).struct.field("field_0").str.len_chars().cast(pl.Int32)
    return (
        pl.when(e.str.contains(known, literal=True))
        .then(before + 1)
        .when(e.is_not_null())
        .then(pl.lit(0, dtype=pl.Int32))
    )


def _instr(text: str, needle: str, start: int = 1, nth: int = 1) -> int | None:
    """The n-th occurrence from ``start``; from the end backwards where ``start`` is negative."""
    if start == 0 or nth <= 0:
        return 0
    index = -1
    if start > 0:
        index = start - 2
        for _ in range(nth):
            index = text.find(needle, index + 1)
            if index < 0:
                return 0
        return index + 1
    end = len(text) + start + len(needle)
    for _ in range(nth):
        index = text.rfind(needle, 0, max(end, 0))
        if index < 0:
            return 0
        end = index + len(needle) - 1
    return index + 1


@renders("INSTR")
def instr(r: Renderer, call: Call) -> pl.Expr:
    return rowwise(_instr, r.args(call), pl.Int32)


@renders("REPLACE")
def replace(r: Renderer, call: Call) -> pl.Expr:
    old, new = (_constant(o) for o in call.operands[1:])
    if isinstance(old, str) and old and isinstance(new, str):
        return r.expr(call.operands[0]).str.replace_all(old, new, literal=True)

    def one(text: str, a: str, b: str) -> str:
        return text.replace(a, b) if a else _joined(_units(text).replace(a, _units(b)))

    return rowwise(one, r.args(call), pl.String)


def _units(text: str) -> str:
    """Text with a character outside of the basic plane as the two UTF-16 units that Java counts."""
    if text.isascii() or max(text, default="") <= "\uffff":
        return text
    raw = text.encode("utf-16-le")
    return "".join(chr(raw[i] | raw[i + 1] << 8) for i in range(0, len(raw), 2))


def _joined(units: str) -> str:
    if units.isascii():
        return units
    whole = units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return whole.encode("utf-8", "replace").decode()


def _overlay(text: str, new: str, position: int, length: int | None = None) -> str:
    return _joined(_overlay_units(_units(text), _units(new), position, length))


def _overlay_units(text: str, new: str, position: int, length: int | None) -> str:
    if position <= 0 or position > len(text):
        return text
    count = len(new) if length is None else length
    if count <= 0:
        return text[: position - 1] + new
    rest = position - 1 + count
    return text[: position - 1] + new + (text[rest:] if 0 <= rest < len(text) else "")


@renders("OVERLAY")
def overlay(r: Renderer, call: Call) -> pl.Expr:
    return rowwise(_overlay, r.args(call), pl.String)


@renders("||", "CONCAT")
def concatenate(r: Renderer, call: Call) -> pl.Expr:
    parts = r.args(call)
    if call.type.root.endswith("BINARY"):
        return rowwise(lambda *p: b"".join(p), parts, pl.Binary)
    return pl.concat_str(parts)


@renders("CONCAT_WS")
def concat_ws(r: Renderer, call: Call) -> pl.Expr:
    separator, *parts = call.operands
    known = _constant(separator)
    if isinstance(known, str):
        return pl.concat_str([r.expr(p) for p in parts], separator=known, ignore_nulls=True)

    def join(between: str | None, *values: str | None) -> str | None:
        return None if between is None else between.join(v for v in values if v is not None)

    return rowwise(join, r.args(call), pl.String, nulls=True)


def _pad(text: str, length: int, fill: str, *, left_side: bool) -> str | None:
    if length < 0 or fill == "":
        return None
    return _joined(_pad_units(_units(text), length, _units(fill), left_side=left_side))


def _pad_units(text: str, length: int, fill: str, *, left_side: bool) -> str:
    missing = length - len(text)
    if missing <= 0:
        return text[:length]
    padding = (fill * (missing // len(fill) + 1))[:missing]
    return padding + text if left_side else text + padding


@renders("LPAD")
def lpad(r: Renderer, call: Call) -> pl.Expr:
    return rowwise(lambda t, n, p: _pad(t, n, p, left_side=True), r.args(call), pl.String)


@renders("RPAD")
def rpad(r: Renderer, call: Call) -> pl.Expr:
    return rowwise(lambda t, n, p: _pad(t, n, p, left_side=False), r.args(call), pl.String)


@renders("REPEAT")
def repeat(r: Renderer, call: Call) -> pl.Expr:
    def one(text: str, n: int) -> str:
        if len(text) * n > 2**30:
            raise DataError("DATA301", n=n, count=len(text))
        return text * n

    return rowwise(one, r.args(call), pl.String)


@renders("REVERSE")
def reverse(r: Renderer, call: Call) -> pl.Expr:
    return r.expr(call.operands[0]).str.reverse()


@renders("SPLIT_INDEX")
def split_index(r: Renderer, call: Call) -> pl.Expr:
    text, separator, index = call.operands
    between, at = _constant(separator), _constant(index)
    if isinstance(between, int) and not isinstance(between, bool):
        between = chr(between)
    if not isinstance(between, str) or not isinstance(at, int):
        return rowwise(_split_index, r.args(call), pl.String)
    e = r.expr(text)
    if at < 0:
        return pl.when(e.is_null()).then(e)
    if between == "":
        return rowwise(lambda t: _split_index(t, "", at), [e], pl.String)
    return pl.when(e != "").then(e.str.split(between).list.get(at, null_on_oob=True))


def _split_index(text: str, separator: str | int, index: int) -> str | None:
    if isinstance(separator, int):
        separator = chr(separator)
    parts = text.split(separator) if separator else text.split()
    return parts[index] if text and 0 <= index < len(parts) else None


@renders("SPLIT")
def split(r: Renderer, call: Call) -> pl.Expr:
    def parts(text: str, separator: str) -> list[str]:
        return [] if text == "" else text.split(separator) if separator else list(text)

    return rowwise(parts, r.args(call), pl.List(pl.String))


@renders("STR_TO_MAP")
def str_to_map(r: Renderer, call: Call) -> pl.Expr:
    from stateplan.execnodes.functions.render.patterns import python_regex

    def entries(text: str, between: str = ",", inside: str = "=") -> list[dict[str, str | None]]:
        outer, inner = python_regex(between), python_regex(inside)
        if text == "" or outer is None or inner is None:
            return []
        found: dict[str, str | None] = {}
        for part in outer.split(text):
            pair = inner.split(part, maxsplit=1)
            found[pair[0]] = pair[1] if len(pair) > 1 else None
        return [{"key": k, "value": v} for k, v in found.items()]

    return rowwise(entries, r.args(call), call.type.polars())


@renders("ELT")
def elt(r: Renderer, call: Call) -> pl.Expr:
    index = r.expr(call.operands[0])
    chain = pl.when(index == 1).then(convert(r.expr(call.operands[1]), call.operands[1].type, STRING))
    for i, operand in enumerate(call.operands[2:], start=2):
        chain = chain.when(index == i).then(convert(r.expr(operand), operand.type, STRING))  # type: ignore[assignment]
    return chain.otherwise(None)


@renders("STARTSWITH")
def starts_with(r: Renderer, call: Call) -> pl.Expr:
    text, prefix = r.args(call)
    return text.str.starts_with(prefix)


@renders("ENDSWITH")
def ends_with(r: Renderer, call: Call) -> pl.Expr:
    text, suffix = r.args(call)
    return text.str.ends_with(suffix)


@renders("TRANSLATE3")
def translate(r: Renderer, call: Call) -> pl.Expr:
    def one(text: str, old: str, new: str) -> str:
        table: dict[int, str | None] = {}
        for i, c in enumerate(old):
            table.setdefault(ord(c), new[i] if i < len(new) else None)
        return text.translate(table)

    return rowwise(one, r.args(call), pl.String)


@renders("ASCII")
def ascii_(r: Renderer, call: Call) -> pl.Expr:
    def first(text: str) -> int:
        byte = text.encode()[0] if text else 0
        return byte - 256 if byte > 127 else byte

    return rowwise(first, r.args(call), pl.Int32)


@renders("CHR")
def chr_(r: Renderer, call: Call) -> pl.Expr:
    return rowwise(lambda n: "" if n < 0 else chr(n & 0xFF), r.args(call), pl.String)


def _every(text: str, test: str) -> bool:
    return text != "" and all(getattr(c, test)() for c in text)


def _character_class(name: str, test: str) -> None:
    @renders(name)
    def render(r: Renderer, call: Call) -> pl.Expr:
        return rowwise(lambda text: _every(text, test), r.args(call), pl.Boolean).fill_null(False)


for _name, _test in (("IS_ALPHA", "isalpha"), ("IS_DIGIT", "isdecimal")):
    _character_class(_name, _test)


@renders("IS_DECIMAL")
def is_decimal(r: Renderer, call: Call) -> pl.Expr:
    return parse_double(r.expr(call.operands[0])).is_not_null()


@renders("TYPEOF")
def typeof(r: Renderer, call: Call) -> pl.Expr:
    return pl.lit(call.operands[0].type.summary())


def _aton(text: str) -> int | None:
    parts = text.split(".")
    if not 1 <= len(parts) <= 4 or not all(p.isascii() and p.isdigit() for p in parts):
        return None
    numbers: Sequence[int] = [int(p) for p in parts]
    if any(n > 255 for n in numbers[:-1]) or numbers[-1] >= 256 ** (5 - len(parts)):
        return None
    return sum(n << (24 - 8 * i) for i, n in enumerate(numbers[:-1])) + numbers[-1]


@renders("INET_ATON")
def inet_aton(r: Renderer, call: Call) -> pl.Expr:
    return rowwise(_aton, r.args(call), pl.Int64)


@renders("INET_NTOA")
def inet_ntoa(r: Renderer, call: Call) -> pl.Expr:
    def one(number: int) -> str | None:
        if not 0 <= number < 2**32:
            return None
        return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))

    return rowwise(one, r.args(call), pl.String)
