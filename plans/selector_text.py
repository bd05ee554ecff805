"""Selectors: short texts that point at states of a plan, such as ``join[Orders*Logistics].right``.

::

    selector  := operator ["." state]
    operator  := "*" | type | type "[" which "]" | "[" which "]" | id | uid | state name | table
    which     := "*" | id | uid | table {"*" table}
    state     := "*" | "left" | "right" | index | state name | table

Types, state names and sides are compared without case, ``-`` and ``_``. Tables and aliases are compared as written, and
if none matches, without case. A name with other characters than letters, digits, ``_``, ``-``, ``$`` and ``:`` is in
backquotes.

A table or an alias means the operators that read it. Operators that read it without another stateful operator in
between are preferred, and among these the operators that read no other table. ``A*B`` means an operator that reads
``A`` and ``B`` through different inputs, in the order of the inputs.

Error codes: PLAN100, PLAN105.
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from stateplan.common.errors import Place, PlanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.plans.document import edited_ttl

_ASSIGNMENT = "SELECTOR=TTL, such as 'deduplicate=1 h' or 'join[Orders*Logistics].right=7 d'"
_TOKEN = re.compile(r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<name>[\w$:-]+)|(?P<mark>[.*×\[\]]))\s*")


class Name(NamedTuple):
    """A name in a selector, its parts without backquotes; a quoted one is a table or an alias, never a number."""

    parts: tuple[str, ...]
    in_backquotes: bool = False

    @property
    def text(self) -> str:
        return self.parts[-1]

    @property
    def number(self) -> int | None:
        plain = len(self.parts) == 1 and not self.in_backquotes and self.text.isascii() and self.text.isdecimal()
        return int(self.text) if plain and len(self.text) < 19 else None


ALL = Name(("*",))


@dataclass(frozen=True)
class Selector:
    """A selector, read.

    Attributes:
        text: as it was written.
        operator: the operator's name; None when only brackets are given, :data:`ALL` for ``*``.
        brackets: the names in the brackets; None without brackets, ``(ALL,)`` for ``[*]``.
        state: the name behind the point; None without one, :data:`ALL` for ``.*``.
        place: where it was written, for messages.
    """

    text: str
    operator: Name | None
    brackets: tuple[Name, ...] | None = None
    state: Name | None = None
    place: Place | None = None

    @property
    def many(self) -> bool:
        """Whether it asks for several operators."""
        return self.operator == ALL or self.brackets == (ALL,)


@dataclass(frozen=True)
class Assignment:
    """A TTL for what a selector points at: ``ttl`` in milliseconds, 0 for never."""

    selector: Selector
    ttl: int


def parse_assignment(text: str) -> Assignment:
    """``join.right=1 d``; ``never`` is a TTL too.

    Raises:
        PlanError: PLAN100 (not a selector), PLAN105 (not an assignment), PLAN05x and PLAN072 (not a TTL).
    """
    left, equals, right = text.rpartition("=")
    if not equals or not left.strip():
        problem = "has no '='" if not equals else "has no selector before '='"
        raise PlanError("PLAN105", text=text, what=problem, expected=_ASSIGNMENT)
    selector = parse_selector(left)
    try:
        return Assignment(selector, edited_ttl(right))
    except PlanError as error:
        start = len(left) + 1 + len(right) - len(right.lstrip())
        error.place = Place(line=1, column=start + 1, length=max(1, len(right.strip())), source=text)
        raise


def parse_selector(text: str, place: Place | None = None) -> Selector:
    """A selector from its text.

    Args:
        text: the selector.
        place: where it is; by default the text is its own place.

    Raises:
        PlanError: PLAN100, with the place of what is wrong.
    """
    return _Parser(text, place).selector()


class _Parser:
    def __init__(self, text: str, place: Place | None) -> None:
        self.text = text
        self.place = place
        self.at = 0

    def selector(self) -> Selector:
        operator = inputs = state = None
        if not self.text.strip():
            self.fail("an operator: its type, id or uid, or a table")
        bracket = self.accept("[")
        if not bracket:
            operator = self.star() or self.name("an operator: its type, id or uid, a table, or *")
            bracket = self.accept("[")
        if bracket:
            inputs = self.brackets()
        if self.accept("."):
            state = self.star() or self.name("a state: left, right, its index or name, a table, or *")
        if self.at < len(self.text):
            self.fail("the end" if state else "'.' and a state, or the end" if inputs else "'[', '.' or the end")
        place = self.place or Place(line=1, column=1, length=max(1, len(self.text)), source=self.text)
        return Selector(self.text.strip(), operator, inputs, state, place)

    def brackets(self) -> tuple[Name, ...]:
        if self.accept("*"):
            self.close()
            return (ALL,)
        names = [self.path("an id, a uid or a table")]
        while self.accept("*") or self.accept("×"):
            names.append(self.path("a table"))
        self.close()
        return tuple(names)

    def close(self) -> None:
        if not self.accept("]"):
            self.fail("'*' and another table, or ']'")

    def path(self, expected: str) -> Name:
        """A name that may have points in it, such as ``db.Orders``."""
        name = self.name(expected)
        while self.accept("."):
            name = Name((*name.parts, *self.name("a name").parts), True)
        return name

    def star(self) -> Name | None:
        return ALL if self.accept("*") else None

    def name(self, expected: str) -> Name:
        match = _TOKEN.match(self.text, self.at)
        if match is None or match["mark"]:
            self.fail(expected)
        self.at = match.end()
        if match["quoted"]:
            return Name((match["quoted"][1:-1].replace("``", "`"),), True)
        return Name((match["name"],))

    def accept(self, mark: str) -> bool:
        match = _TOKEN.match(self.text, self.at)
        if match is None or match["mark"] != mark:
            return False
        self.at = match.end()
        return True

    def fail(self, expected: str) -> NoReturn:
        rest = self.text[self.at :]
        problem = f"{rest.split()[0][:40]!r} is not allowed here" if rest.split() else "the selector ends too early"
        place = self.place or Place(
            line=1, column=min(self.at, len(self.text)) + 1, length=max(1, len(rest.split()[0]) if rest.split() else 1),
            source=self.text + " ",
        )  # fmt: skip
        raise PlanError("PLAN100", what=problem, text=self.text, place=place, expected=expected)
