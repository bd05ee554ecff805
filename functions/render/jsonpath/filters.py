"""The filters of JSON paths, such as ``[?(@.price < 10 && @.tags contains 'new')]``.

Source: json-path's ``FilterCompiler``, ``EvaluatorFactory`` and ``ValueNodes``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Protocol

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.values.floats import double_text
from stateplan.common.values.java_hash import java_order
from stateplan.functions.literals import utf16_length
from stateplan.functions.render.jsonpath.cursor import (
    Cursor,
    InvalidPathError,
    JsonPathError,
    PathNotFoundError,
    unescaped,
)
from stateplan.functions.render.jsonpath.lenient import lenient_json
from stateplan.functions.render.patterns import python_regex


class Query(Protocol):
    """A path within a filter."""

    def value(self, item: Any, root: Any, lax: bool) -> Any:
        """What it leads to. Raises PathNotFoundError."""

    def exists(self, item: Any, root: Any) -> bool:
        """Whether it leads anywhere."""


Condition = Callable[[Any, Any, bool], bool]
"""From an item, the whole document, and whether the path is lax, to whether the item stays."""

CompileQuery = Callable[[str], Query]


@dataclass(frozen=True)
class Value:
    """An operand: ``json`` (array or object), ``string``, ``number``, ``boolean``, ``null``, ``undefined``, or
    ``pattern``. A literal array that has not been read is not an equal of any other on the left side."""

    kind: str
    content: Any = None
    literal: bool = False

    @property
    def text(self) -> str:
        return str(self.content)

    def items(self) -> list[Value] | None:
        """The elements of an array; None for another value.

        Raises:
            JsonPathError: an element is an array or an object.
        """
        if self.kind != "json" or not isinstance(self.content, list):
            return None
        return [_element(e) for e in self.content]


_NULL, _UNDEFINED = Value("null"), Value("undefined")


def of(content: Any) -> Value:
    """The operand that a value of a document is."""
    if content is None:
        return _NULL
    if isinstance(content, bool):
        return Value("boolean", content)
    if isinstance(content, int | float | Decimal):
        return Value("number", number(content))
    return Value("string" if isinstance(content, str) else "json", content)


def number(content: float | Decimal) -> Decimal:
    return Decimal(double_text(content)) if isinstance(content, float) else Decimal(content)


def _element(content: Any) -> Value:
    if isinstance(content, list | dict):
        raise JsonPathError("arrays and objects cannot be looked for")
    value = of(content)
    return Value("string", unescaped(_unquoted(content))) if value.kind == "string" else value


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def equal(left: Value, right: Value) -> bool:
    """Numbers and texts are equal by the left one's kind."""
    kinds = (left.kind, right.kind)
    if kinds == ("json", "json"):
        return not left.literal and _same(left.content, right.content)
    if kinds == ("string", "number"):
        return left.text == str(right.content)
    if kinds == ("number", "string"):
        try:
            return bool(left.content == Decimal(right.text)) and right.text.strip() == right.text
        except InvalidOperation:
            return False
    return left.kind == right.kind and left.kind not in ("undefined", "pattern") and left.content == right.content


def _same(a: Any, b: Any) -> bool:
    """Java's ``equals``: numbers of other types or scales are not equal."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(v, b[k]) for k, v in a.items())
    return bool(a.as_tuple() == b.as_tuple() if isinstance(a, Decimal) else a == b)


def _order(left: Value, right: Value) -> int | None:
    """Negative, 0 or positive; None if they have no order."""
    if left.kind == right.kind == "number":
        return int(left.content > right.content) - int(left.content < right.content)
    if left.kind == right.kind == "string":
        a, b = java_order(left.text), java_order(right.text)
        return (a > b) - (a < b)
    return None


def _comparison(accepts: Callable[[int], bool]) -> Callable[[Value, Value], bool]:
    def compare(left: Value, right: Value) -> bool:
        order = _order(left, right)
        return order is not None and accepts(order)

    return compare


def _strictly(left: Value, right: Value) -> bool:
    return left.kind == right.kind and equal(left, right)


def _size(left: Value, right: Value) -> bool:
    if right.kind != "number":
        return False
    size = int(right.content)
    if left.kind == "string":
        return utf16_length(left.text) == size
    return left.kind == "json" and (len(left.content) if isinstance(left.content, list) else -1) == size


def _empty(left: Value, right: Value) -> bool:
    if left.kind not in ("string", "json"):
        return False
    if isinstance(left.content, dict):
        raise JsonPathError("objects are neither empty nor not empty")
    if right.kind != "boolean":
        raise InvalidPathError("empty takes true or false")
    return bool(right.content) == (not left.content)


def _elements(value: Value) -> list[Value] | None:
    """The elements; None for an object. Raises InvalidPathError for a scalar."""
    if value.kind != "json":
        raise InvalidPathError("a list is missing")
    return value.items()


def _among(value: Value, items: Sequence[Value]) -> bool:
    return any(equal(value, item) for item in items)


def _in(left: Value, right: Value) -> bool:
    items = _elements(right)
    return items is not None and _among(left, items)


def _contains(left: Value, right: Value) -> bool:
    if left.kind == right.kind == "string":
        return right.text in left.text
    items = left.items()
    return items is not None and _among(right, items)


def _both(judge: Callable[[list[Value], list[Value]], bool]) -> Callable[[Value, Value], bool]:
    def of_lists(left: Value, right: Value) -> bool:
        of_right = _elements(right)
        of_left = None if of_right is None else _elements(left)
        return of_left is not None and of_right is not None and judge(of_left, of_right)

    return of_lists


def _input(value: Value) -> str:
    """What a pattern is matched with."""
    if value.kind == "boolean":
        return "true" if value.content else "false"
    return value.text if value.kind in ("string", "number") else ""


def _matches(left: Value, right: Value) -> bool:
    if (left.kind == "pattern") == (right.kind == "pattern"):
        return False
    pattern, other = (left, right) if left.kind == "pattern" else (right, left)
    items = other.items()
    return any(pattern.content.fullmatch(_input(v)) is not None for v in ([other] if items is None else items))


def _never(left: Value, right: Value) -> bool:
    """Operators whose right side no path can write."""
    return False


_OPERATORS: dict[str, Callable[[Value, Value], bool]] = {
    "==": equal,
    "!=": lambda a, b: not equal(a, b),
    "===": _strictly,
    "!==": lambda a, b: not _strictly(a, b),
    "<": _comparison(lambda order: order < 0),
    "<=": _comparison(lambda order: order <= 0),
    ">": _comparison(lambda order: order > 0),
    ">=": _comparison(lambda order: order >= 0),
    "=~": _matches,
    "IN": _in,
    "NIN": lambda a, b: not _in(a, b),
    "CONTAINS": _contains,
    "SIZE": _size,
    "EMPTY": _empty,
    "SUBSETOF": _both(lambda a, b: all(_among(x, b) for x in a)),
    "ANYOF": _both(lambda a, b: any(_among(x, b) for x in a)),
    "NONEOF": _both(lambda a, b: not any(_among(x, b) for x in a)),
    "ALL": _never,
    "TYPE": _never,
    "MATCHES": _never,
    "EXISTS": _never,
}


@dataclass(frozen=True)
class _Operand:
    """One side of a comparison: a literal, or a path."""

    literal: Value | None
    query: Query | None = None
    negated: bool = False

    def value(self, item: Any, root: Any, lax: bool) -> Value:
        if self.query is None:
            return self.literal or _UNDEFINED
        try:
            return of(self.query.value(item, root, lax))
        except PathNotFoundError:
            return _UNDEFINED

    def exists(self) -> Condition:
        query = self.query
        if query is None:
            raise InvalidPathError("an operator is missing")

        return lambda item, root, lax: query.exists(item, root) != self.negated


_SIGNS = "<>=~!"
_FLAGS = {"d": 0, "i": re.I, "x": re.X, "m": re.M, "s": re.S, "u": 0, "U": 0}


class _BadLiteralError(InvalidPathError):
    """A literal that is none makes the whole path none, also where a comparison without it were one."""


_WORDS = {"true": Value("boolean", True), "false": Value("boolean", False), "null": _NULL}


class FilterReader:
    """Reads the text between ``[?`` and ``]``."""

    def __init__(self, text: str, compile_query: CompileQuery) -> None:
        self.cursor, self.compile_query = Cursor(text), compile_query

    def read(self) -> Condition:
        """The condition. Raises InvalidPathError."""
        condition = self._any_of()
        if self.cursor.skip_blanks().inside:
            raise InvalidPathError(f"{self.cursor.text} has more text after its end")
        return condition

    def _any_of(self) -> Condition:
        parts = [self._all_of()]
        while self.cursor.take("||"):
            parts.append(self._all_of())
        return parts[0] if len(parts) == 1 else lambda *at: any(p(*at) for p in parts)

    def _all_of(self) -> Condition:
        parts = [self._one()]
        while self.cursor.take("&&"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda *at: all(p(*at) for p in parts)

    def _one(self) -> Condition:
        cursor = self.cursor.skip_blanks()
        start = cursor.place
        if cursor.take("!"):
            if cursor.skip_blanks().char not in "$@":
                inner = self._one()
                return lambda *at: not inner(*at)
            cursor.place = start
        if cursor.take("("):
            inner = self._any_of()
            cursor.expect(")")
            return inner
        return self._comparison()

    def _comparison(self) -> Condition:
        left = self._operand()
        place = self.cursor.place
        try:
            judge = self._operator()
            right = self._operand()
        except _BadLiteralError:
            raise
        except InvalidPathError:
            self.cursor.place = place
            return left.exists()
        return lambda *at: judge(left.value(*at), right.value(*at))

    def _operator(self) -> Callable[[Value, Value], bool]:
        cursor = self.cursor.skip_blanks()
        start = cursor.place
        if cursor.char in _SIGNS:
            while cursor.inside and cursor.char in _SIGNS:
                cursor.place += 1
        else:
            while cursor.inside and cursor.char != " ":
                cursor.place += 1
        judge = _OPERATORS.get(cursor.text[start : cursor.place].upper())
        if judge is None:
            raise InvalidPathError(f"no operator in {cursor.text}")
        return judge

    def _operand(self) -> _Operand:
        cursor = self.cursor.skip_blanks()
        if cursor.char in "$@":
            return self._path()
        if cursor.char == "!":
            cursor.place += 1
            if cursor.skip_blanks().char not in "$@":
                raise InvalidPathError("! stands before a path")
            return self._path()
        return _Operand(self._LITERALS.get(cursor.char, FilterReader._number)(self))

    def _path(self) -> _Operand:
        cursor = self.cursor
        before, start = cursor.previous_visible(), cursor.place
        cursor.place += 1
        while cursor.inside:
            if cursor.char == "[":
                closed = cursor.find_closing(cursor.place, "[", "]")
                if closed < 0:
                    raise InvalidPathError(f"a ] is missing in {cursor.text}")
                cursor.place = closed + 1
            if cursor.char in _SIGNS or cursor.char == " " or (cursor.char == ")" and not self._closes_call(start)):
                break
            cursor.place += 1
        negated = before >= 0 and cursor.text[before] == "!"
        return _Operand(None, self.compile_query(cursor.text[start : cursor.place]), negated)

    def _closes_call(self, start: int) -> bool:
        """Whether the ``)`` here is that of a function without arguments."""
        opening = self.cursor.previous_visible()
        return self.cursor.text[opening] == "(" and "." in self.cursor.text[start + 1 : opening]

    def _string(self) -> Value:
        cursor = self.cursor
        start, end = cursor.place, cursor.find_unescaped(cursor.char)
        cursor.place = end + 1
        return Value("string", unescaped(cursor.text[start + 1 : end]))

    def _word(self) -> Value:
        for word, value in _WORDS.items():
            if self.cursor.take(word):
                return value
        raise InvalidPathError(f"no literal in {self.cursor.text}")

    def _json(self) -> Value:
        cursor = self.cursor
        start = cursor.place
        end = cursor.find_closing(start, cursor.char, "]" if cursor.char == "[" else "}")
        if end < 0:
            raise InvalidPathError(f"a bracket is not closed in {cursor.text}")
        cursor.place = end + 1
        return Value("json", lenient_json(cursor.text[start : end + 1]), literal=True)

    def _pattern(self) -> Value:
        cursor = self.cursor
        start, end = cursor.place, cursor.find_unescaped("/")
        cursor.place = end + 1
        flags = re.RegexFlag(0)
        while cursor.inside and cursor.char in _FLAGS:
            flags |= _FLAGS[cursor.char]
            cursor.place += 1
        compiled = python_regex(cursor.text[start + 1 : end])
        if compiled is None:
            raise _BadLiteralError(f"no pattern in {cursor.text}")
        return Value("pattern", re.compile(compiled.pattern, flags))

    def _number(self) -> Value:
        cursor = self.cursor
        start = cursor.place
        while cursor.inside and (cursor.char.isdigit() or cursor.char in "-.eE"):
            cursor.place += 1
        try:
            return Value("number", Decimal(cursor.text[start : cursor.place]))
        except InvalidOperation:
            raise _BadLiteralError(f"no number in {cursor.text}") from None

    _LITERALS: ClassVar[dict[str, Callable[[FilterReader], Value]]] = {
        **dict.fromkeys("'\"", _string),
        **dict.fromkeys("tfn", _word),
        **dict.fromkeys("[{", _json),
        "/": _pattern,
    }
