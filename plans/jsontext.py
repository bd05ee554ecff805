"""JSON text with positions: where each key and value of a plan file stands, and precise errors for bad text.

The text is parsed by the C parser of the standard library. Positions cost a second, slower reading, which
happens only when an error has to be placed or an edit has to find its span. Both readers accept the same
language: RFC 8259 without duplicate keys, without NaN and Infinity, at most :data:`MAX_DEPTH` levels deep,
numbers of at most :data:`MAX_NUMBER_LENGTH` characters (Jackson's limit) that fit a double when they have a
fraction or an exponent.

Error codes: PLAN010 to PLAN018.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from json import decoder as _decoder
from typing import Any, NamedTuple, NoReturn

from stateplan.common.errors import Place, PlanError

MAX_DEPTH = 500
MAX_NUMBER_LENGTH = 1000

_scanstring: Callable[[str, int, bool], tuple[str, int]] = _decoder.scanstring  # type: ignore[attr-defined] # not in the stubs
_scan_value: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined] # not in the stubs
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NUMBER_LIKE = re.compile(r"[-+.0-9][-+.\w]*")
_WORD = re.compile(r"[^\W\d]\w*")
_NEWLINE = re.compile(r"\r\n|\r|\n")
_PEEK = 512
"""A zero byte within this number of bytes says that a file is not text."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SQL_WORDS = frozenset(("ALTER", "BEGIN", "COMPILE", "CREATE", "EXECUTE", "EXPLAIN", "INSERT", "SELECT", "SET", "USE"))
"""Words that begin a script where a plan belongs."""

_CONSTANTS = {"true": True, "false": False, "null": None}
_OTHER_NUMBERS = ("NaN", "Infinity", "-Infinity", "+Infinity")
_VALUE = "a value: an object {, a list [, a text in double quotes, a number, true, false or null"


class Span(NamedTuple):
    """Characters ``start`` to ``end`` (exclusive) of a text, counted from 0."""

    start: int
    end: int


class Location(NamedTuple):
    """Where a value is, and its key (quotes included) when it is a member of an object."""

    value: Span
    key: Span | None


def join_pointer(parts: Sequence[str | int]) -> str:
    """The JSON pointer (RFC 6901) of a path: ``("nodes", 0, "a/b")`` is ``/nodes/0/a~1b``."""
    return "".join("/" + str(p).replace("~", "~0").replace("/", "~1") for p in parts)


def split_pointer(pointer: str) -> list[str]:
    """The parts of a JSON pointer, unescaped; the empty pointer has none."""
    return [p.replace("~1", "/").replace("~0", "~") for p in pointer.split("/")[1:]]


def line_column(text: str, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of character ``offset``. Lines end with LF, CRLF or CR."""
    line, start = 1, 0
    for match in _NEWLINE.finditer(text, 0, offset):
        if match.end() <= offset:
            line, start = line + 1, match.end()
    return line, offset - start + 1


def decode(data: bytes, file: str | None = None) -> tuple[str, bool]:
    """The text of a file's bytes, and whether they began with a UTF-8 byte order mark (which is taken off).

    Raises:
        PlanError: PLAN017 for anything but UTF-8, naming the encoding where it can be determined.
    """
    place = Place(file=file, line=1, column=1, pointer="")
    hint = "save the file as UTF-8"
    starts = (
        (b"\xff\xfe\x00\x00", "UTF-32"),
        (b"\x00\x00\xfe\xff", "UTF-32"),
        (b"\xff\xfe", "UTF-16"),
        (b"\xfe\xff", "UTF-16"),
    )
    for start, name in starts:
        if data.startswith(start):
            raise PlanError("PLAN017", what=f"{name} text", place=place, hint=hint)
    for start, name in ((b"\x1f\x8b", "gzip"), (b"PK\x03\x04", "zip")):
        if data.startswith(start):
            raise PlanError("PLAN017", what=f"compressed ({name})", place=place, hint="decompress it first")
    if len(data) >= 4 and data[:4].count(0) >= 2:
        raise PlanError("PLAN017", what="UTF-16 or UTF-32 text", place=place, hint=hint)
    bom = data.startswith(b"\xef\xbb\xbf")
    body = data[3:] if bom else data
    try:
        return body.decode("utf-8"), bom
    except UnicodeDecodeError as error:
        if b"\0" in body[:_PEEK]:
            raise PlanError("PLAN017", what="binary", place=place) from None
        source = body.decode("utf-8", errors="replace")
        at = len(body[: error.start].decode("utf-8"))
        line, column = line_column(source, at)
        place = Place(file, line, column, pointer=_open_at(source[:at]), source=source)
        raise PlanError("PLAN017.byte", body=body[error.start], place=place, hint=hint) from None


def _open_at(text: str) -> str:
    """JSON pointer of what is open at the end of ``text``, the beginning of JSON text."""
    try:
        scan(text)
    except PlanError as error:
        return (error.place and error.place.pointer) or ""
    return ""


class _RefusedError(Exception):
    """The quick reader met something the slow one has to explain."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _RefusedError
    return result


def _int(text: str) -> int:
    if len(text) > MAX_NUMBER_LENGTH:
        raise _RefusedError
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value) or len(text) > MAX_NUMBER_LENGTH:
        raise _RefusedError
    return value


def _constant(text: str) -> NoReturn:
    raise _RefusedError


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_int, parse_float=_float, parse_constant=_constant)


def _depth(value: Any) -> int:
    """How deep a value is nested."""
    containers = (dict, list)
    depth, level = 0, [value] if isinstance(value, containers) else []
    while level:
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, containers)
        ]
    return depth


def loads(text: str, file: str | None = None) -> Any:
    """The value of JSON text.

    Args:
        text: the text, without a byte order mark.
        file: its name, for the place of an error.

    Raises:
        PlanError: PLAN010 empty, PLAN011 not JSON, PLAN012 truncated, PLAN013 duplicate key, PLAN014 NaN or
            Infinity, PLAN015 nested too deep, PLAN016 number too large, PLAN017 not Unicode, PLAN018 text
            after the end; each with line, column and what was expected there.
    """
    raw = not text.isascii() and _SURROGATE.search(text)
    escaped = "\\u" in text and _ESCAPED_SURROGATE.search(text)
    if not raw and not escaped:
        try:
            value = _DECODER.decode(text)
            if _depth(value) <= MAX_DEPTH:
                return value
        except (ValueError, RecursionError, _RefusedError):
            pass
    return scan(text, file)[0]


class SourceMap:
    """Positions of everything in one JSON text, found on first use."""

    def __init__(self, text: str, file: str | None = None) -> None:
        self.text = text
        self.file = file

    @cached_property
    def locations(self) -> dict[str, Location]:
        """JSON pointer to location, for every value of the text.

        Raises:
            PlanError: as :func:`loads`.
        """
        return scan(self.text, self.file)[1]

    @cached_property
    def _members(self) -> dict[str, dict[str, Location]]:
        return {}

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _NEWLINE.finditer(self.text))]

    def location(self, pointer: str) -> Location | None:
        """The location of one value of a valid text, or None; only what lies on the way to it is read."""
        start = len(self.text) - len(self.text.lstrip(" \t\n\r"))
        location: Location | None = Location(Span(start, len(self.text.rstrip(" \t\n\r"))), None)
        at = ""
        for step in pointer.split("/")[1:]:
            if location is None:
                return None
            members = self._members.get(at)
            if members is None:
                members = self._members[at] = _members_of(self.text, location.value.start)
            location, at = members.get(step), f"{at}/{step}"
        return location

    def nearest_location(self, pointer: str) -> tuple[str, Location]:
        """The location of ``pointer``, or of the innermost value around it that exists, with its pointer.

        Raises:
            PlanError: as :func:`loads`.
        """
        try:
            find: Callable[[str], Location | None] = self.location
            while (location := find(pointer)) is None:
                pointer = pointer.rpartition("/")[0]
        except (ValueError, IndexError, StopIteration):  # the text is not valid: the slow reader says where
            return pointer, self.locations[pointer]
        return pointer, location

    def place(self, pointer: str, on_key: bool = False) -> Place:
        """Place of the value at ``pointer``; of its key when ``on_key``, or when it is an object or a list.

        For a value that is not there, the place of the innermost value around it that is.
        """
        nearest_pointer, location = self.nearest_location(pointer)
        span = location.value
        compound = self.text[span.start] in "{["
        if location.key is not None and (on_key or compound or nearest_pointer != pointer):
            span, compound = location.key, False
        line = bisect_right(self._line_starts, span.start)
        column = span.start - self._line_starts[line - 1] + 1
        return Place(self.file, line, column, 1 if compound else span.end - span.start, pointer, self.text)


def _members_of(text: str, start: int) -> dict[str, Location]:
    """Key or position (as in a JSON pointer) to location, for the object or list that begins at ``start``."""
    members: dict[str, Location] = {}
    if text[start] not in "{[":
        return members
    is_object = text[start] == "{"

    def skip(i: int) -> int:
        match = _SPACE.match(text, i)
        return match.end() if match else i

    i = skip(start + 1)
    while text[i] not in "}]":
        key, name = None, str(len(members))
        if is_object:
            member, end = _scanstring(text, i + 1, True)
            key, name = Span(i, end), join_pointer([member])[1:]
            i = skip(skip(end) + 1)
        _, end = _scan_value(text, i)
        members[name] = Location(Span(i, end), key)
        i = skip(end)
        if text[i] == ",":
            i = skip(i + 1)
    return members


class _Frame:
    """One open object or list of the slow reader."""

    __slots__ = ("closer", "count", "key", "pointer", "start", "value")

    def __init__(self, value: Any, pointer: str, start: int) -> None:
        self.value: Any = value
        self.closer = "}" if isinstance(value, dict) else "]"
        self.pointer = pointer
        self.start = start
        self.key: Span | None = None
        self.count = 0


def scan(text: str, file: str | None = None) -> tuple[Any, dict[str, Location]]:
    """The value of JSON text, and where each value in it is, by JSON pointer.

    Raises:
        PlanError: as :func:`loads`.
    """
    return _Scanner(text, file).run()


class _Scanner:
    """Reads without recursion, so that depth is a limit of ours and not of the interpreter."""

    def __init__(self, text: str, file: str | None) -> None:
        self.text = text
        self.file = file
        self.stack: list[_Frame] = []
        self.locations: dict[str, Location] = {}

    def run(self) -> tuple[Any, dict[str, Location]]:
        text = self.text
        lone = None if text.isascii() else _SURROGATE.search(text)
        if lone:
            self.fail("PLAN017.not_unicode", lone.start(), problem="half of a surrogate pair, not a character")
        i = self.skip(0)
        if i == len(text):
            problem = "the file is empty" if not text else "the file holds nothing but blanks"
            self.fail("PLAN010", 0, problem=problem)
        root, i = self.value(i, "", None)
        while self.stack:
            i = self.member(self.stack[-1], i)
        i = self.skip(i)
        if i < len(text):
            self.fail("PLAN018", i, what=self.describe(i))
        return root, self.locations

    def skip(self, i: int) -> int:
        match = _SPACE.match(self.text, i)
        return match.end() if match else i

    def member(self, frame: _Frame, i: int) -> int:
        """Reads the next member of ``frame``, or its end."""
        text, closer = self.text, frame.closer
        i = self.skip(i)
        is_object = closer == "}"
        first = 'a key in double quotes, or "}"' if is_object else 'a value, or "]"'
        if text.startswith(closer, i):
            self.stack.pop()
            location = self.locations[frame.pointer]
            self.locations[frame.pointer] = Location(Span(frame.start, i + 1), location.key)
            return i + 1
        comma = -1
        if frame.count:
            if not text.startswith(",", i):
                hint = "a comma is missing" if self.starts_value(i) else None
                self.unexpected(i, f'"," or "{closer}"', hint)
            comma = i
            i = self.skip(i + 1)
            if text.startswith(closer, i):
                self.fail(
                    "PLAN011", comma, closer=closer, wording="member of an object" if is_object else "entry of a list"
                )
        if not is_object:
            item, end = self.value(i, f"{frame.pointer}/{frame.count}", None, first if comma < 0 else _VALUE)
            frame.value.append(item)
            frame.count += 1
            return end
        if not text.startswith('"', i):
            bare = text.startswith("'", i) or _WORD.match(text, i)
            hint = "keys are written in double quotes" if bare else None
            self.unexpected(i, first if comma < 0 else "a key in double quotes", hint)
        key, end = self.string(i)
        span = Span(i, end)
        if key in frame.value:
            pointer = f"{frame.pointer}{join_pointer([key])}"
            line, column = line_column(text, self.locations[pointer].key.start)  # type: ignore[union-attr] # a key has a place
            self.fail("PLAN013", i, quote=_quote(key), line=line, column=column, length=end - i, pointer=pointer)
        i = self.skip(end)
        if not text.startswith(":", i):
            self.unexpected(i, f'":" and the value of {_quote(key)}')
        member, end = self.value(self.skip(i + 1), f"{frame.pointer}{join_pointer([key])}", span)
        frame.value[key] = member
        frame.count += 1
        return end

    def value(self, i: int, pointer: str, key: Span | None, expected: str = _VALUE) -> tuple[Any, int]:
        """The value at ``i`` and where it ends; an object or list is opened and continued by :meth:`member`."""
        text = self.text
        char = text[i] if i < len(text) else ""
        result: Any
        if char in ("{", "["):
            if len(self.stack) >= MAX_DEPTH:
                self.fail(
                    "PLAN015",
                    i,
                    max_depth=MAX_DEPTH,
                    pointer="/".join(pointer.split("/")[:6]) + "/...",
                    what="the JSON text",
                )
            result = {} if char == "{" else []
            self.stack.append(_Frame(result, pointer, i))
            end = i + 1
        elif char == '"':
            result, end = self.string(i)
        elif char and char in "-0123456789":
            result, end = self.number(i)
        else:
            word = _WORD.match(text, i)
            if word is None or word.group() not in _CONSTANTS:
                self.not_a_value(i, word.group() if word else "", expected)
            result, end = _CONSTANTS[word.group()], word.end()
        self.locations[pointer] = Location(Span(i, end), key)
        return result, end

    def string(self, i: int) -> tuple[str, int]:
        try:
            value, end = _scanstring(self.text, i + 1, True)
        except json.JSONDecodeError as error:
            self.bad_string(i, error)
        lone = _SURROGATE.search(value)
        if lone:
            problem = f"a text holds half of a surrogate pair (\\u{ord(lone.group()):04X})"
            self.fail("PLAN017.not_unicode", i, problem=problem, length=end - i)
        return value, end

    def bad_string(self, i: int, error: json.JSONDecodeError) -> NoReturn:
        at = error.pos
        if error.msg.startswith("Unterminated"):
            newline = _NEWLINE.search(self.text, i)
            if newline is None:
                self.fail_at_end("a text is not closed", i)
            self.fail("PLAN011.unterminated", i, length=newline.start() - i)
        if error.msg.startswith("Invalid control"):
            char = self.text[at]
            if char in "\r\n":
                self.fail("PLAN011.unterminated", i, length=at - i)
            short = {"\t": r"\t"}.get(char, f"\\u{ord(char):04X}")
            name = f"control character U+{ord(char):04X}"
            self.fail("PLAN011.in_string", at, what=name, expected=f"the escape {short}")
        if at >= len(self.text) or (len(self.text) - at < 5 and '"' not in self.text[at:]):
            self.fail_at_end("a text is not closed", i)
        backslash = self.text.rfind("\\", i, at + 1)
        at = backslash if backslash >= 0 else at
        self.fail("PLAN011.in_string", at, what=f"unknown escape {self.text[at : at + 2]}", length=2)

    def number(self, i: int) -> tuple[int | float, int]:
        text = self.text
        like = _NUMBER_LIKE.match(text, i)
        word = like.group() if like else text[i]
        match = _NUMBER.match(text, i)
        if word in _OTHER_NUMBERS:
            self.fail("PLAN014", i, value=word, length=len(word))
        if match is None or match.end() != i + len(word):
            if i + len(word) == len(text) and word[-1] in "-+.eE":
                self.fail_at_end("a number is not complete", i)
            hint = "a number has no leading zeros" if re.match(r"-?0\d", word) else None
            self.fail("PLAN011.no_number", i, word=word[:60], length=len(word), hint=hint)
        end = match.end()
        if end - i > MAX_NUMBER_LENGTH:
            self.fail("PLAN016", i, end=end - i, max_number_length=MAX_NUMBER_LENGTH)
        if match.group(1) is None and match.group(2) is None:
            return int(match.group()), end
        value = float(match.group())
        if math.isinf(value):
            self.fail("PLAN016.magnitude", i, word=word[:60], length=len(word))
        return value, end

    def not_a_value(self, i: int, word: str, expected: str) -> NoReturn:
        rest = self.text[i : i + 12]
        for other in _OTHER_NUMBERS:
            if rest.startswith(other):
                self.fail("PLAN014", i, value=other, length=len(other))
        if word and i + len(word) == len(self.text) and any(c.startswith(word) for c in _CONSTANTS):
            self.fail_at_end(f"the value {word} is not complete", i)
        lower = {c.lower(): c for c in ("true", "false", "null")}
        hint = None
        if word.lower() in lower or word == "None":
            hint = f"did you mean {lower.get(word.lower(), 'null')}?"
        elif rest.startswith("'"):
            hint = "texts are written in double quotes"
        elif word.upper() in _SQL_WORDS and not self.text[:i].strip():
            hint = "this is SQL: 'stateplan plan compile -f SCRIPT -o PLAN' makes a plan of it"
        elif word:
            hint = "a text stands in double quotes"
        elif rest.startswith(("+", ".")) and _NUMBER_LIKE.fullmatch(rest[:2]):
            hint = "a number begins with a digit or a minus"
        self.unexpected(i, expected, hint, len(word) or 1)

    def starts_value(self, i: int) -> bool:
        return i < len(self.text) and (self.text[i] in '"{[-' or self.text[i].isalnum())

    def describe(self, i: int) -> str:
        char = self.text[i]
        if char.isascii() and char.isprintable():
            word = _WORD.match(self.text, i)
            return _quote(word.group()) if word else _quote(char) if char != '"' else "a text"
        import unicodedata

        return f"the character U+{ord(char):04X} ({unicodedata.name(char, 'a control character').lower()})"

    def unexpected(self, i: int, expected: str, hint: str | None = None, length: int = 1) -> NoReturn:
        if i >= len(self.text):
            self.fail_at_end("the JSON text ends too early", i, expected)
        if self.text.startswith(("//", "/*", "#"), i):
            hint = "JSON has no comments"
        elif self.text[i] in "\u201c\u201d\u2018\u2019":
            hint = 'use straight double quotes: "'
        if self.stack:
            self.fail("PLAN011.unexpected_text", i, what=self.describe(i), length=length, expected=expected, hint=hint)
        problem = f"this is not JSON: it begins with {self.describe(i)}"
        self.fail("PLAN011.no_object", i, problem=problem, length=length, hint=hint)

    def fail_at_end(self, problem_text: str, i: int, expected: str | None = None) -> NoReturn:
        hint = None
        if self.stack:
            frame = self.stack[-1]
            line, column = line_column(self.text, frame.start)
            kind = "object" if frame.closer == "}" else "list"
            hint = f"the {kind} opened at line {line}, column {column} is not closed: is the file truncated?"
        self.fail(
            "PLAN012",
            min(i, max(0, len(self.text.rstrip()) - 1)),
            problem=problem_text,
            expected=expected or "more text",
            hint=hint,
        )

    def fail(
        self,
        code: str,
        i: int,
        *,
        expected: str | None = None,
        hint: str | None = None,
        length: int = 1,
        pointer: str | None = None,
        **values: object,
    ) -> NoReturn:
        line, column = line_column(self.text, i)
        error_pointer = pointer if pointer is not None else self.stack[-1].pointer if self.stack else ""
        raise PlanError(
            code,
            expected=expected,
            hint=hint,
            place=Place(self.file, line, column, length, error_pointer, self.text),
            **values,
        )


def _quote(text: str) -> str:
    short = text if len(text) <= 60 else text[:57] + "..."
    return json.dumps(short, ensure_ascii=False)
