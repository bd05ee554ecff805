"""The one error tree of stateplan.

Every error that bad input can cause is a :class:`StateplanError` with a stable code, the place it was
found, what was expected there and, where one exists, the nearest valid name. The command line prints
``str(error)``; a traceback means a bug in stateplan.
"""

from __future__ import annotations

import difflib
import json
import re
import string
from collections.abc import Iterable
from dataclasses import asdict, replace
from functools import lru_cache, partial
from typing import Any, Self

from stateplan.common.errors.catalogue import texts_of
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import amount
from stateplan.common.redaction import masked, redacted, without_secrets

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def _printable(text: str) -> str:
    """``text`` with escapes for control characters, which it may quote from a file and a terminal would obey."""
    return "\n".join(_CONTROL.sub(lambda c: f"\\u{ord(c.group()):04x}", line) for line in text.split("\n"))


@lru_cache(maxsize=4)
def _lines(source: str) -> list[str]:
    return re.split(r"\r\n|\r|\n", masked(source))


def _clipped(text: str, length: int) -> str:
    """``text`` without its middle where it is longer: a file may hold keys and names of any length."""
    return text if len(text) <= length else f"{text[: length - 60]} ... {text[-50:]}"


@dataclass(frozen=True)
class Place:
    """Where an error was found. Every field is optional; lines and columns count from 1.

    Attributes:
        source: the text that line and column point into; the span in it is underlined.
        row: the number of the row among those that were read of the file, from 1.
        operator: the operator that failed on a row, as ``plan show`` names it.
        expression: the expression of the operator that failed, as SQL.
    """

    file: str | None = None
    line: int | None = None
    column: int | None = None
    length: int = 1
    pointer: str | None = None
    source: str | None = None
    operator: str | None = None
    expression: str | None = None
    row: int | None = None

    def __str__(self) -> str:
        parts = []
        if self.file:
            parts.append(self.file)
        if self.line is not None:
            parts.append(f"line {self.line}" + (f", column {self.column}" if self.column is not None else ""))
        if self.row is not None:
            parts.append(f"row {self.row}")
        if self.pointer is not None:
            parts.append(f"at {_clipped(self.pointer or '/', 400)}")
        if self.operator:
            parts.append(self.operator)
        return _printable(", ".join(parts))

    def excerpt(self) -> str | None:
        """The expression, or the source line with the span underlined and stars for secrets; None if there is
        neither."""
        if self.expression is not None:
            return "  " + _clipped(_CONTROL.sub(" ", self.expression), 400)
        if self.source is None or self.line is None:
            return None
        lines = _lines(self.source)
        if not 1 <= self.line <= len(lines):
            return None
        text = _CONTROL.sub(" ", lines[self.line - 1])
        if not text.strip():
            return None
        # Of a long line the part around the column, narrow enough for the carets to appear below it in a terminal.
        at = (self.column or 1) - 1
        start = 0 if at < _EXCERPT * 3 // 4 else at - _EXCERPT // 3
        head, tail = "..." if start else "", "..." if len(text) > start + _EXCERPT else ""
        out = f"  {head}{text[start + len(head) : start + _EXCERPT - len(tail)]}{tail}"
        if self.column is not None:
            span = max(1, min(self.length, len(text) - at, _EXCERPT - (at - start)))
            out += "\n  " + " " * (at - start) + "^" * span
        return out


_EXCERPT = 120
"""How many characters of a line are shown at most."""


class _Texts(string.Formatter):
    """Fills the texts of the catalogue.

    Lists are written ``a, b``, and ``'a', 'b'`` with ``{names:quoted}``. ``{fields:# column}`` counts: ``1 column``,
    ``2 columns``; ``{fields:#}`` gives the number alone. Types and tables are written by their ``summary``.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec.startswith("#"):
            number = value if isinstance(value, int) else len(value)
            noun, _, plural = format_spec[2:].partition("|")
            return amount(number, noun, plural or None) if noun else str(number)
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return ", ".join(f"'{v}'" if format_spec == "quoted" else str(_summary(v)) for v in value)
        return str(super().format_field(_summary(value), format_spec))


def _summary(value: Any) -> Any:
    """The short form of a type or a table, any other value itself."""
    summary = getattr(value, "summary", value)
    return summary() if callable(summary) else summary


_TEXTS = _Texts()


def one_of(names: Iterable[str]) -> str | None:
    """``one of a, b``; None if there is none."""
    text = ", ".join(names)
    return f"one of {text}" if text else None


class StateplanError(Exception):
    """Root of all errors caused by input, configuration or environment.

    The catalogue (``texts/*.toml``) has its texts, and for each code a title, the cause and the remedy.

    Args:
        code: stable code, a family prefix and three digits, such as ``PLAN012``; ``PLAN012.empty`` chooses one of the
            texts of a code that has several.
        place: where.
        expected: overrides the catalogue: what would have been right there.
        hint: overrides the catalogue: what to do, or the nearest valid name.
        values: fill the names in the texts.
    """

    code: str
    message: str
    place: Place | None
    expected: str | None
    hint: str | None

    def __init__(
        self,
        code: str,
        *,
        place: Place | None = None,
        expected: str | None = None,
        hint: str | None = None,
        **values: object,
    ) -> None:
        texts = texts_of(code, values)

        def text_of(part: str) -> str | None:
            return _TEXTS.vformat(texts[part], (), values) if part in texts else None

        self._set(
            code.partition(".")[0],
            _TEXTS.vformat(texts["message"], (), values),
            place,
            text_of("expected") if expected is None else expected,
            text_of("hint") if hint is None else hint,
        )

    def _set(self, code: str, message: str, place: Place | None, expected: str | None, hint: str | None) -> None:
        self.code = code
        self.message = redacted(_clipped(message, 2000))
        self.place = place
        self.expected = expected and redacted(_clipped(expected, 2000))
        self.hint = hint and redacted(_clipped(hint, 2000))
        self.args = (self.message,)

    def within(self, operator: str) -> Self:
        """This error, of ``operator`` where it does not name one."""
        place = self.place or Place()
        self.place = place if place.operator else replace(place, operator=operator)
        return self

    @classmethod
    def with_text(
        cls,
        code: str,
        message: str,
        *,
        place: Place | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> Self:
        """An error whose text was made elsewhere: in another process, or by an error that this one stands for."""
        error = cls.__new__(cls)
        error._set(code, message, place, expected, hint)  # noqa: SLF001 - of the same class
        return error

    def __str__(self) -> str:
        lines = [f"[{self.code}] {_printable(self._without_secrets(self.message))}"]
        if self.place is not None:
            place_text = str(self.place)
            if place_text:
                lines.append(f"  --> {place_text}")
            excerpt = self.place.excerpt()
            if excerpt:
                lines.append(excerpt)
        if self.expected:
            lines.append(f"  expected: {_printable(self._without_secrets(self.expected))}")
        if self.hint:
            lines.append(f"  hint: {_printable(self._without_secrets(self.hint))}")
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the error alone, which says all that its reader can change."""
        return str(self).splitlines()

    def _without_secrets(self, text: str) -> str:
        """One of the texts without the secrets of the statement or file that it is about."""
        return text if self.place is None or self.place.source is None else without_secrets(text, self.place.source)

    def to_dict(self) -> dict[str, object]:
        """The error as JSON-ready data, for ``--format json``."""
        place = {k: v for k, v in asdict(self.place).items() if v is not None and k != "source"} if self.place else None
        return {
            "code": self.code,
            "message": self._without_secrets(self.message),
            "place": place,
            "expected": self.expected and self._without_secrets(self.expected),
            "hint": self.hint and self._without_secrets(self.hint),
        }

    def __reduce__(self) -> tuple[object, ...]:
        rebuild = partial(type(self).with_text, place=self.place, expected=self.expected, hint=self.hint)
        return (rebuild, (self.code, self.message))

    def encoded(self) -> str:
        """One line that survives a trip through Spark's exception text; see :func:`find_encoded`."""
        return f"<<stateplan:{type(self).__name__}:{json.dumps(self.to_dict())}:stateplan>>"


class SqlError(StateplanError):
    """SQL text that cannot be parsed, bound or planned (codes ``SQL...``). Correct the statement."""


class PlanError(StateplanError):
    """A plan file that cannot be read or written, or whose content is not valid (codes ``PLAN...``)."""


class CatalogError(StateplanError):
    """Something named in SQL or in a plan is not in the catalog, or differs from it (codes ``CAT...``)."""


class OptionError(StateplanError):
    """An unknown or malformed option of a table, a session or the command line (codes ``OPT...``)."""


class DataError(StateplanError):
    """Input data that does not fit the table's schema and format (codes ``DATA...``)."""


class RunError(StateplanError):
    """A job that cannot be started or that failed while running (codes ``RUN...``)."""


class GatewayError(StateplanError):
    """A request that a gateway refuses, or a gateway that cannot be reached or started (codes ``GW...``)."""


class CheckpointError(RunError):
    """A checkpoint that does not fit the plan, or is damaged (codes ``CKPT...``)."""


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """A hint naming the closest candidate(s) to ``name``, or None if nothing is close."""
    if len(name) > 200:
        return None
    pool = list(dict.fromkeys(candidates))
    by_lower_case = {c.lower(): c for c in pool}
    hits = difflib.get_close_matches(name.lower(), list(by_lower_case), n=3, cutoff=0.6)
    if not hits:
        return None
    return "did you mean " + " or ".join(f"'{by_lower_case[h]}'" for h in hits) + "?"


def find_encoded(text: str) -> StateplanError | None:
    """The first error encoded in ``text`` by :meth:`StateplanError.encoded`, rebuilt; None if there is none."""
    match = re.search(r"<<stateplan:(\w+):(\{.*?\}):stateplan>>", text, re.S)
    if not match:
        return None
    classes = {
        c.__name__: c for c in (SqlError, PlanError, CatalogError, OptionError, DataError, RunError, CheckpointError)
    }
    data = json.loads(match.group(2))
    place = Place(**data["place"]) if data["place"] else None
    cls = classes.get(match.group(1), StateplanError)
    return cls.with_text(data["code"], data["message"], place=place, expected=data["expected"], hint=data["hint"])
