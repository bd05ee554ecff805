"""How string functions run. Positions count characters (code points) from 1."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import polars as pl

from stateplan.common.errors import DataError
from stateplan.common.types import STRING
from stateplan.functions.render.base import Render, Renderer, renders, renders_all, renders_by_values
from stateplan.functions.render.casts import convert
from stateplan.functions.render.parsing import parse_double
from stateplan.functions.render.patterns import python_regex
from stateplan.functions.render.rowwise import rowwise, shielded
from stateplan.functions.rex import Call, Literal, Rex


def _constant(rex: Rex) -> Any:
    return rex.value if isinstance(rex, Literal) else None


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


renders_by_values(
    {
        "UPPER": lambda text: text.str.to_uppercase(),
        "LOWER": lambda text: text.str.to_lowercase(),
        "INITCAP": lambda text: rowwise(_initcap, [text], pl.String, "INITCAP"),
        "CHAR_LENGTH": lambda text: text.str.len_chars().cast(pl.Int32),
        "LEFT": lambda text, count: pl.when(count.is_not_null()).then(text.str.head(_clipped(count))),
        "RIGHT": lambda text, count: pl.when(count.is_not_null()).then(text.str.tail(_clipped(count))),
        "REVERSE": lambda text: pl.when(_ascii(text)).then(text.str.reverse()).otherwise(_reversed(text)),
        "STARTSWITH": lambda text, prefix: text.str.starts_with(prefix),
        "ENDSWITH": lambda text, suffix: text.str.ends_with(suffix),
        "IS_ALPHA": lambda text: text.str.contains(r"^\p{L}+$").fill_null(False),
        "IS_DIGIT": lambda text: text.str.contains(r"^\p{Nd}+$").fill_null(False),
        "IS_DECIMAL": lambda text: parse_double(text).is_not_null(),
    }
)


def _ascii(text: pl.Expr) -> pl.Expr:
    return text.str.len_bytes() == text.str.len_chars()


def _reversed(text: pl.Expr) -> pl.Expr:
    """Code points backwards: Polars keeps an accent with its letter."""
    return rowwise(lambda t: t[::-1], [pl.when(~_ascii(text)).then(text)], pl.String, "REVERSE")


def _stripped(r: Renderer, text: Rex, characters: Rex | None, side: str) -> pl.Expr:
    e = r.expr(text)
    constant_characters = " " if characters is None else _constant(characters)
    if isinstance(constant_characters, str):
        if constant_characters == "":
            return e
        return _strip(e, side)(constant_characters)
    assert characters is not None
    set_ = r.expr(characters)
    return pl.when(set_ == "").then(e).when(set_.is_not_null()).then(_strip(e, side)(set_))


def _strip(e: pl.Expr, side: str) -> Callable[[Any], pl.Expr]:
    return {"BOTH": e.str.strip_chars, "LEADING": e.str.strip_chars_start, "TRAILING": e.str.strip_chars_end}[side]


@renders("TRIM")
def trim(r: Renderer, call: Call) -> pl.Expr:
    flag, characters, text = call.operands
    return _stripped(r, text, characters, str(_constant(flag)))


def _trims(side: str) -> Render:
    return lambda r, call: _stripped(r, call.operands[0], call.operands[1] if len(call.operands) > 1 else None, side)


renders_all({"LTRIM": _trims("LEADING"), "RTRIM": _trims("TRAILING"), "BTRIM": _trims("BOTH")})


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


def _position_of(text: pl.Expr, needle: pl.Expr) -> pl.Expr:
    """The place of ``needle`` in ``text`` (Int64), 0 if it is not; NULL if one of them is."""
    at = text.str.find(needle, literal=True)
    before = text.cast(pl.Binary).bin.slice(0, at).cast(pl.String)
    place = pl.when(at.is_not_null()).then(_length(before) + 1).otherwise(pl.lit(0, dtype=pl.Int64))
    return pl.when(text.is_not_null() & needle.is_not_null()).then(place)


@renders("POSITION", "LOCATE")
def position(r: Renderer, call: Call) -> pl.Expr:
    needle, text, *start = r.args(call)
    constant_needle = _constant(call.operands[0])
    if not start and isinstance(constant_needle, str) and constant_needle:
        before = text.str.splitn(constant_needle, 2).struct.field("field_0").str.len_chars().cast(pl.Int32)
        absent = pl.when(text.is_not_null()).then(pl.lit(0, dtype=pl.Int32))
        return pl.when(text.str.contains(constant_needle, literal=True)).then(before + 1).otherwise(absent)
    if not start:
        return _position_of(text, needle).cast(pl.Int32)
    skip_count = _clipped(start[0].cast(pl.Int64) - 1)
    position_after_start = _position_of(text.str.slice(skip_count), needle)
    place = (
        pl.when(position_after_start == 0)
        .then(position_after_start)
        .when(needle == "")
        .then(pl.lit(1, dtype=pl.Int64))
        .otherwise(position_after_start + skip_count)
    )
    return pl.when(start[0].is_not_null() & position_after_start.is_not_null()).then(place).cast(pl.Int32)


def _instr(text: str, needle: str, start: int = 1, nth: int = 1) -> int | None:
    """The n-th occurrence from ``start``; from the end backwards where ``start`` is negative."""
    if nth <= 0:
        raise DataError("DATA301", name="INSTR", problem=f"there is no occurrence {nth}")
    if start == 0:
        return 0
    if needle == "":  # which Flink finds at the beginning, wherever it looks from
        return 1 if start > 0 else len(text) + 1
    index = -1
    if start > 0:
        index = start - 2
        for _ in range(nth):
            index = text.find(needle, index + 1)
            if index < 0:
                return 0
        return index + 1
    position = _instr(text[::-1], needle[::-1], -start, nth)
    return position and len(text) - len(needle) - position + 2


@renders("INSTR")
def instr(r: Renderer, call: Call) -> pl.Expr:
    args = r.args(call)
    return _position_of(*args).cast(pl.Int32) if len(args) == 2 else rowwise(_instr, args, pl.Int32, "INSTR")


@renders("REPLACE")
def replace(r: Renderer, call: Call) -> pl.Expr:
    old, new = (_constant(o) for o in call.operands[1:])
    if isinstance(old, str) and old and isinstance(new, str):
        return r.expr(call.operands[0]).str.replace_all(old, new, literal=True)

    def one(text: str, a: str, b: str) -> str:
        return text.replace(a, b) if a else _text_of_units(_units(text).replace(a, _units(b)))

    return rowwise(one, r.args(call), pl.String, "REPLACE, TRANSLATE")


def _units(text: str) -> str:
    """Text with a character outside of the basic plane as the two UTF-16 units that Java counts."""
    if text.isascii() or max(text, default="") <= "\uffff":
        return text
    raw = text.encode("utf-16-le")
    return "".join(chr(raw[i] | raw[i + 1] << 8) for i in range(0, len(raw), 2))


def _text_of_units(units: str) -> str:
    if units.isascii():
        return units
    text = units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text.encode("utf-8", "replace").decode()


def _overlay(text: str, new: str, position: int, length: int | None = None) -> str:
    units, new_units = _units(text), _units(new)
    if position <= 0 or position > len(units):
        return text
    count = len(new_units) if length is None else length
    return _text_of_units(units[: position - 1] + new_units + (units[position - 1 + count :] if count > 0 else ""))


@renders("OVERLAY")
def overlay(r: Renderer, call: Call) -> pl.Expr:
    args = r.args(call)
    text, new, place, *rest = args
    at = place.cast(pl.Int64)
    count = rest[0].cast(pl.Int64) if rest else _length(new)
    behind = pl.when(count > 0).then(text.str.slice(at - 1 + count)).otherwise(pl.lit(""))
    overlaid = pl.concat_str(text.str.head(_clipped(at - 1)), new, behind)
    plain = pl.when((at <= 0) | (at > _length(text))).then(text).otherwise(overlaid)
    all_not_null = new.is_not_null() & at.is_not_null() & count.is_not_null()
    return _by_units(_overlay, args, pl.when(all_not_null).then(plain), text, new)


def _by_units(function: Callable[..., str | None], args: list[pl.Expr], plain: pl.Expr, *texts: pl.Expr) -> pl.Expr:
    """``plain``, but ``function`` where one of the texts has characters beyond the basic plane."""
    beyond = pl.any_horizontal(t.str.contains(r"[\x{10000}-\x{10ffff}]") for t in texts)
    slow = rowwise(function, [pl.when(beyond).then(args[0]), *args[1:]], pl.String, "OVERLAY, LPAD, RPAD")
    return pl.when(beyond).then(slow).otherwise(plain)


@renders("||", "CONCAT")
def concatenate(r: Renderer, call: Call) -> pl.Expr:
    parts = r.args(call)
    if call.type.root.endswith("BINARY"):
        return pl.concat_str([p.bin.encode("hex") for p in parts]).str.decode("hex")
    return pl.concat_str(parts)


@renders("CONCAT_WS")
def concat_ws(r: Renderer, call: Call) -> pl.Expr:
    separator, *parts = call.operands
    constant_separator = _constant(separator)
    if isinstance(constant_separator, str):
        return pl.concat_str([r.expr(p) for p in parts], separator=constant_separator, ignore_nulls=True)
    between = r.expr(separator)
    height = pl.when(pl.lit(False)).then(between)  # constants alone would be a list for all rows
    return pl.concat_list([height, *(r.expr(p) for p in parts)]).list.drop_nulls().list.join(between)


def _pad(text: str, length: int, fill: str, *, left_side: bool) -> str | None:
    if length < 0 or fill == "":
        return None
    units, filling = _units(text), _units(fill)
    pad_length = length - len(units)
    if pad_length <= 0:
        return _text_of_units(units[:length])
    padding = (filling * (pad_length // len(filling) + 1))[:pad_length]
    return _text_of_units(padding + units if left_side else units + padding)


def _pad_call(r: Renderer, call: Call, *, left_side: bool) -> pl.Expr:
    text, length, fill = args = r.args(call)
    size = length.cast(pl.Int64)
    pad_length = _clipped(size - _length(text))
    padding = fill.repeat_by(pad_length // _length(fill) + 1).list.join("").str.head(pad_length)
    longer = pl.concat_str(padding, text) if left_side else pl.concat_str(text, padding)
    plain = pl.when((size >= 0) & (fill != "")).then(
        pl.when(pad_length > 0).then(longer).otherwise(text.str.head(size))
    )
    return _by_units(lambda t, n, p: _pad(t, n, p, left_side=left_side), args, plain, text, fill)


renders_all({"LPAD": partial(_pad_call, left_side=True), "RPAD": partial(_pad_call, left_side=False)})


@renders("REPEAT")
def repeat(r: Renderer, call: Call) -> pl.Expr:
    @shielded
    def check_length(series: Sequence[pl.Series]) -> pl.Series:
        sizes, times = series
        long = (sizes * times > 2**30).fill_null(False)
        if long.any():
            row = long.arg_true()[0]
            repeats, characters = times[row if len(times) > 1 else 0], sizes[row if len(sizes) > 1 else 0]
            problem = f"{repeats} times {characters} characters is more than a text can hold"
            raise DataError("DATA301", name="REPEAT", problem=problem)
        return times.clip(0)

    text, n = r.args(call)
    times = pl.map_batches([_length(text), n.cast(pl.Int64)], check_length, return_dtype=pl.Int64, is_elementwise=True)
    return pl.when(text.is_not_null() & n.is_not_null()).then(text.repeat_by(times).list.join(""))


@renders("SPLIT_INDEX")
def split_index(r: Renderer, call: Call) -> pl.Expr:
    text, separator, index = call.operands
    between, at = _constant(separator), _constant(index)
    if isinstance(between, int) and not isinstance(between, bool):
        if not 1 <= between <= 255:
            return pl.lit(None, dtype=pl.String())
        between = chr(between)
    if not isinstance(between, str) or not isinstance(at, int):
        return rowwise(_split_index, r.args(call), pl.String, "SPLIT_INDEX")
    e = r.expr(text)
    if at < 0:
        return pl.when(e.is_null()).then(e)
    if between == "":
        return rowwise(lambda t: _split_index(t, "", at), [e], pl.String, "SPLIT_INDEX")
    return pl.when(e != "").then(e.str.split(between).list.get(at, null_on_oob=True))


def _split_index(text: str, separator: str | int, index: int) -> str | None:
    if isinstance(separator, int):
        if not 1 <= separator <= 255:
            return None
        separator = chr(separator)
    parts = text.split(separator) if separator else re.split(r"\s", text)
    return parts[index] if text and 0 <= index < len(parts) else None


@renders("SPLIT")
def split(r: Renderer, call: Call) -> pl.Expr:
    text, separator = r.args(call)
    parts = pl.when(separator == "").then(text.str.extract_all("(?s).")).otherwise(text.str.split(separator))
    return pl.when(separator.is_not_null()).then(pl.when(text != "").then(parts).otherwise(parts.list.head(0)))


def _split_at(pattern: re.Pattern[str], text: str, most: int = 0) -> list[str]:
    """``String.split``: a match of no width at the beginning gives no empty text."""
    match = pattern.match(text)
    if not text:
        return [text]
    if match is None or match.end():
        return pattern.split(text, most)
    return pattern.split(text, most + 1 if most else 0)[1:]


@renders("STR_TO_MAP")
def str_to_map(r: Renderer, call: Call) -> pl.Expr:
    def entries(text: str, between: str = ",", inside: str = "=") -> list[dict[str, str | None]]:
        if text == "":
            return []
        outer, inner = python_regex(between), python_regex(inside)
        if outer is None or inner is None:
            wrong = between if outer is None else inside
            raise DataError("DATA301", name="STR_TO_MAP", problem=f"{wrong!r:.60} is not a pattern")
        values: dict[str, str | None] = {}
        parts = _split_at(outer, text)
        while parts and parts[-1] == "":
            parts.pop()
        for part in parts:
            pair = _split_at(inner, part, 1)
            values[pair[0]] = pair[1] if len(pair) > 1 else None
        return [{"key": k, "value": v} for k, v in values.items()]

    return rowwise(entries, r.args(call), call.type.polars(), "STR_TO_MAP")


@renders("ELT")
def elt(r: Renderer, call: Call) -> pl.Expr:
    index = r.expr(call.operands[0])
    chain = pl.when(index == 1).then(convert(r.expr(call.operands[1]), call.operands[1].type, STRING))
    for i, operand in enumerate(call.operands[2:], start=2):
        chain = chain.when(index == i).then(convert(r.expr(operand), operand.type, STRING))  # type: ignore[assignment] # another class from the second WHEN
    return chain.otherwise(None)


@renders("TRANSLATE3")
def translate(r: Renderer, call: Call) -> pl.Expr:
    def one(text: str | None, old: str | None, new: str | None) -> str | None:
        if text is None or old is None:
            return text
        new = new or ""
        table: dict[int, str | None] = {}
        for i, c in enumerate(old):
            table.setdefault(ord(c), new[i] if i < len(new) else None)
        return text.translate(table)

    text, old, new = call.operands
    old_letters, new_letters = _constant(old), _constant(new)
    if not isinstance(old_letters, str) or not isinstance(new_letters, str):
        return rowwise(one, r.args(call), pl.String, "REPLACE, TRANSLATE", nulls=True)
    first = {c: new_letters[i : i + 1] for i, c in reversed(list(enumerate(old_letters)))}
    return r.expr(text).str.replace_many(list(first), list(first.values())) if first else r.expr(text)


@renders("ASCII")
def ascii_(r: Renderer, call: Call) -> pl.Expr:
    """The first byte of the UTF-8 form, signed; 0 of an empty text."""
    text = r.expr(call.operands[0])
    first = text.cast(pl.Binary).bin.head(1).bin.reinterpret(dtype=pl.Int8, endianness="little")
    return pl.when(text.is_not_null()).then(first.cast(pl.Int32).fill_null(0))


@renders("CHR")
def chr_(r: Renderer, call: Call) -> pl.Expr:
    n = r.expr(call.operands[0])
    chars = (n & 0xFF).replace_strict(list(range(256)), [chr(i) for i in range(256)], return_dtype=pl.String)
    return pl.when(n < 0).then(pl.lit("")).otherwise(chars)


renders("TYPEOF")(lambda r, call: pl.lit(call.operands[0].type.summary()))


@renders("INET_ATON")
def inet_aton(r: Renderer, call: Call) -> pl.Expr:
    """Up to four numbers of a byte each, of which the last fills the bytes that are left."""
    text = r.expr(call.operands[0])
    parts = text.str.split(".").list.eval(pl.element().cast(pl.Int64, strict=False))
    count = parts.list.len().cast(pl.Int64)
    total, right = pl.lit(0, dtype=pl.Int64), text.str.contains(r"^[0-9]+(\.[0-9]+){0,3}$")
    for i in range(4):
        part = parts.list.get(i, null_on_oob=True).fill_null(0)
        last = count == i + 1
        right = right & (part <= 255)
        total = total + pl.when(last).then(part).otherwise(part * 2 ** (24 - 8 * i))
    return pl.when(right & ~parts.list.eval(pl.element().is_null()).list.any()).then(total)


@renders("INET_NTOA")
def inet_ntoa(r: Renderer, call: Call) -> pl.Expr:
    number = r.expr(call.operands[0]).cast(pl.Int64)
    parts = [(number // 2**shift % 256).cast(pl.String) for shift in (24, 16, 8, 0)]
    return pl.when((number >= 0) & (number < 2**32)).then(pl.concat_str(parts, separator="."))
