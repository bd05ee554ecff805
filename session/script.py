"""A script, cut into its statements: each with its syntax tree, its text and its place in the script."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from stateplan.common.errors import Place, SqlError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.planner.dialect import nodes, parse
from stateplan.planner.positions import place_of, text_of

_SURROGATE = re.compile("[\ud800-\udfff]")
"""Stands for a byte of standard input or of an argument that is not text."""

CONFIGURING = (
    nodes.CreateTable,
    nodes.CreateView,
    nodes.CreateCatalog,
    nodes.CreateDatabase,
    nodes.DropObject,
    nodes.FunctionStatement,
    nodes.AlterTable,
    nodes.AlterView,
    nodes.UseObject,
    nodes.SetOption,
    nodes.ResetOption,
)
"""Statements that configure a session: what it has, and its options."""

DECLARATIONS = (*CONFIGURING, nodes.ModuleStatement)
"""Statements that later ones depend on, and that start no job."""


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


@dataclass(frozen=True, eq=False)
class Insert:
    """An INSERT.

    Attributes:
        node: its syntax tree.
        source: the text that the positions of the tree point into.
        sql: its own text.
    """

    node: exp.Expr
    source: str
    sql: str

    @classmethod
    def read(cls, node: exp.Expr, source: str) -> Insert:
        """One that was read from ``source``."""
        return cls(node, source, text_of(node, source))


@dataclass(frozen=True)
class Inserts:
    """INSERTs that run as one job: an INSERT, or those of a statement set.

    Attributes:
        inserts: in order.
        sql: the text of the statement.
        place: the place of the statement; None if no text has all of them.
    """

    inserts: Sequence[Insert]
    sql: str
    place: Place | None = None

    @classmethod
    def of(cls, node: exp.Expr, source: str) -> Inserts:
        """Those of an INSERT, a statement set or EXECUTE of one of them, which was read from ``source``.

        Raises:
            SqlError: SQL012, for anything else.
        """
        if isinstance(node, nodes.ExecuteStatement):
            node = node.this
        place = place_of(node, source)
        if isinstance(node, exp.Insert):
            return cls([Insert.read(node, source)], text_of(node, source), place)
        if isinstance(node, nodes.StatementSet):
            return cls([Insert.read(insert, source) for insert in node.expressions], text_of(node, source), place)
        raise SqlError("SQL012", place=place, expected="INSERT or STATEMENT SET")

    @classmethod
    def of_all(cls, inserts: Sequence[Insert]) -> Inserts:
        """A statement set of INSERTs that were read one by one."""
        return cls(tuple(inserts), "STATEMENT SET BEGIN\n" + "".join(f"{insert.sql};\n" for insert in inserts) + "END")


def is_query(node: exp.Expr) -> bool:
    """Whether a statement is a query: SELECT, VALUES, or what is made of them."""
    return isinstance(node, (exp.Query, exp.Values))


def read_script(text: str, file: str | None = None) -> list[ScriptStatement]:
    """The statements of a script, in order; none for a script of blanks and comments.

    Raises:
        SqlError: SQL001 to SQL009, with the place; SQL401, it is not text. Nothing has been run then.
    """
    if not text.isascii() and _SURROGATE.search(text):
        raise SqlError("SQL401", reason="it is not UTF-8 text", what="the script", place=Place(file=file))
    return [ScriptStatement(node, text_of(node, text), text, file) for node in parse(text, file)]


def read_statement(text: str, file: str | None = None) -> ScriptStatement:
    """The one statement that ``text`` is, with or without a semicolon behind it.

    Raises:
        SqlError: SQL001 to SQL009; SQL010 when there is none or more than one.
    """
    statements = read_script(text, file)
    if len(statements) != 1:
        count_text = "no statement" if not statements else f"{len(statements)} statements"
        place = statements[1].place if len(statements) > 1 else Place(file=file)
        raise SqlError("SQL010", what=count_text, place=place)
    return statements[0]
