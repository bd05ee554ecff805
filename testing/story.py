"""A test file as its author sees it: tables and a query, tests, steps, and what is expected after each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from stateplan.common.errors import Place
from stateplan.common.lazy_dataclass import dataclass

Form: TypeAlias = Literal["table", "json", "csv", "values"]
"""How the rows of a block are written."""

Subject: TypeAlias = Literal["table", "changelog", "rows", "state", "warning", "no warning", "error", "lint"]
"""What an expectation is about."""


@dataclass(frozen=True)
class Row:
    """A row as it is written.

    Attributes:
        kind: ``+I``, ``-U``, ``+U`` or ``-D``.
        cells: the text of each cell; None is NULL.
        line: its line in the file, from 1.
    """

    kind: str
    cells: tuple[str | None, ...]
    line: int


@dataclass(frozen=True)
class Block:
    """The rows below a directive.

    Attributes:
        form: how they are written.
        columns: the names in the header; of ``json`` and ``values`` those that appear.
        rows: the rows.
        first, last: the lines of the block, from 1; ``last`` is before ``first`` for a block without lines.
        indent: what is written between ``--`` and the rows.
        sql: the text of a VALUES block.
    """

    form: Form
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    first: int
    last: int
    indent: str = "   "
    sql: str = ""


@dataclass(frozen=True)
class Directive:
    """A line that says what happens, or what is expected.

    Attributes:
        line: its line in the file, from 1.
        text: what is written behind ``--``.
    """

    line: int
    text: str


@dataclass(frozen=True)
class GivenRows(Directive):
    """Rows arrive in a table."""

    table: str
    block: Block


@dataclass(frozen=True)
class Watermark(Directive):
    """The watermark of a table advances to ``time``, ms since 1970."""

    table: str
    time: int


@dataclass(frozen=True)
class Advance(Directive):
    """The clock advances by ``ms``."""

    ms: int


@dataclass(frozen=True)
class Restart(Directive):
    """The job stops and continues from its state."""


@dataclass(frozen=True)
class SetTtl(Directive):
    """The job stops, the TTL of a state is edited in its plan, and the job continues from its state."""

    selector: str
    ttl: int


@dataclass(frozen=True)
class UsePlan(Directive):
    """The plan in a file runs from here on."""

    path: str


@dataclass(frozen=True)
class End(Directive):
    """All input ends."""


@dataclass(frozen=True)
class Expect(Directive):
    """What is expected.

    Attributes:
        subject: what it is about.
        name: the table, the selector of a state, or the code of an error; empty where none is written.
        detail: a part of a message, or the codes of lint findings.
        count: the rows of a state.
        block: the rows.
        in_order: whether their order matters.
    """

    subject: Subject
    name: str = ""
    detail: str = ""
    count: int | None = None
    block: Block | None = None
    in_order: bool = False


@dataclass(frozen=True)
class OrderDependence(Directive):
    """The rows of operators depend on the order in which rows arrive, as their author knows.

    Attributes:
        operators: their names, with or without the number of the node.
    """

    operators: tuple[str, ...]


Action: TypeAlias = GivenRows | Watermark | Advance | Restart | SetTtl | UsePlan | End


@dataclass(frozen=True)
class Sql:
    """SQL between directives; its lines are where they are in the file, so that errors point there.

    Attributes:
        text: the whole file, with blanks in place of all else.
        line: the line where it begins.
        file: the file.
    """

    text: str
    line: int
    file: str


@dataclass(frozen=True)
class Case:
    """A test.

    Attributes:
        title: what it is about; unique in its file.
        file: the file.
        line: where it begins.
        sql: its statements, those that stand above the first test of the file first.
        steps: what happens and what is expected, in order.
        clock: where the clock begins, ms since 1970.
        order_dependent: the operators whose rows depend on the order in which rows arrive.
    """

    title: str
    file: str
    line: int
    sql: tuple[Sql, ...]
    steps: tuple[Action | Expect, ...]
    clock: int
    order_dependent: tuple[OrderDependence, ...] = ()

    @property
    def name(self) -> str:
        """The file and the title."""
        return f"{self.file}: {self.title}"

    def place(self, line: int | None = None) -> Place:
        """A line of the file."""
        return Place(file=self.file, line=self.line if line is None else line)

    def expectations(self) -> Iterator[Expect]:
        """All of them, in order."""
        return (step for step in self.steps if isinstance(step, Expect))

    def given_rows(self) -> Iterator[GivenRows]:
        """The rows that arrive, in order."""
        return (step for step in self.steps if isinstance(step, GivenRows))


@dataclass(frozen=True)
class Story:
    """A test file.

    Attributes:
        file: its path.
        text: its text.
        cases: its tests.
    """

    file: str
    text: str = field(repr=False)
    cases: Sequence[Case] = ()
