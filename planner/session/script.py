"""A script, cut into its statements: each with its syntax tree, its text and its place in the script."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from stateplan.execnodes.errors import Place, SqlError
from stateplan.planner.dialect import parse
from stateplan.planner.positions import place_of, text_of

_SURROGATE = re.compile("[\ud800-\udfff]")
"""Stands for a byte of standard input or of an argument that is not text."""


@dataclass(frozen=True)
class ScriptStatement:
    """One statement.

    Attributes:
        node: its syntax tree; positions are offsets into ``source``.
        text: what was written, from its first to its last character, without the semicolon.
        source: the whole script.
        file: the script's name, for messages.
    """

    node: exp.Expr
    text: str
    source: str
    file: str | None = None

    @property
    def place(self) -> Place:
        """The place of the whole statement (its first line)."""
        return place_of(self.node, self.source, self.file)


def is_query(node: exp.Expr) -> bool:
    """Whether a statement is a query: SELECT, VALUES, or what is made of them."""
    return isinstance(node, (exp.Query, exp.Values))


def read_script(text: str, file: str | None = None) -> list[ScriptStatement]:
    """The statements of a script, in order; none for a script of blanks and comments.

    Raises:
        SqlError: SQL001 to SQL009, with the place; SQL401, it is not text. Nothing has been run then.
    """
    if not text.isascii() and _SURROGATE.search(text):
        raise SqlError("SQL401", reason="it is not UTF-8 text", place=Place(file=file))
    return [ScriptStatement(node, text_of(node, text), text, file) for node in parse(text, file)]


def read_statement(text: str, file: str | None = None) -> ScriptStatement:
    """The one statement that ``text`` is, with or without a semicolon behind it.

    Raises:
        SqlError: SQL001 to SQL009; SQL010 when there is none or more than one.
    """
    found = read_script(text, file)
    if len(found) != 1:
        what = "no statement" if not found else f"{len(found)} statements"
        place = found[1].place if len(found) > 1 else Place(file=file)
        raise SqlError("SQL010", what=what, place=place)
    return found[0]
