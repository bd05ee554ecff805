"""What an editor shows of a document, before it is written in the words of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum

from stateplan.common.lazy_dataclass import dataclass
from stateplan.editor.positions import Span

SHOW_PLAN = "stateplan.showPlan"
"""The command that returns what EXPLAIN prints: of a statement, or of a plan file."""


class Level(IntEnum):
    """How bad a finding is, with the numbers of the protocol."""

    ERROR = 1
    WARNING = 2
    INFORMATION = 3
    HINT = 4


@dataclass(frozen=True)
class Edit:
    """A text in place of a span."""

    span: Span
    text: str


@dataclass(frozen=True)
class Fix:
    """A quick fix.

    Attributes:
        title: what it does.
        edits: the changes of the text.
        preferred: whether it is the one right answer.
    """

    title: str
    edits: tuple[Edit, ...]
    preferred: bool = False


@dataclass(frozen=True)
class OtherPlace:
    """Another place that a finding is about."""

    span: Span
    message: str
    file: str | None = None


@dataclass(frozen=True)
class Finding:
    """An error, a finding of lint or a note.

    Attributes:
        span: what is underlined.
        level: how bad it is.
        code: of the catalogue, or of a rule of lint; empty for a note.
        message: what is wrong, what was expected, and a hint, a line each.
        fixes: what would mend it.
        other_places: that it is about, too.
    """

    span: Span
    level: Level
    code: str
    message: str
    fixes: tuple[Fix, ...] = ()
    other_places: tuple[OtherPlace, ...] = ()


@dataclass(frozen=True)
class Lens:
    """A line above a place.

    Attributes:
        span: the place.
        title: what it says.
        command, arguments: what it does; empty for nothing.
    """

    span: Span
    title: str
    command: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Hover:
    """What is shown for the words under the pointer, in Markdown."""

    span: Span
    text: str


@dataclass(frozen=True)
class Target:
    """A place of this document or, with a path, of another one."""

    span: Span
    file: str | None = None


@dataclass(frozen=True)
class Symbol:
    """An entry of the outline.

    Attributes:
        name, kind: ``table``, ``view``, ``function``, ``catalog``, ``query``, ``operator``, ``state`` or ``test``.
        span: the whole of it.
        name_span: its name.
    """

    name: str
    kind: str
    span: Span
    name_span: Span
    detail: str = ""
    children: tuple[Symbol, ...] = ()


@dataclass(frozen=True)
class Insight:
    """Everything about one version of a document.

    Attributes:
        findings: in the order of their places.
        lenses: likewise.
        symbols: the outline.
    """

    findings: tuple[Finding, ...] = ()
    lenses: tuple[Lens, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

    def hover(self, offset: int) -> Hover | None:
        """What is shown for the character at ``offset``."""
        return None

    def definitions(self, offset: int) -> tuple[Target, ...]:
        """Where the name at ``offset`` is declared."""
        return ()

    def references(self, offset: int) -> tuple[Target, ...]:
        """Where the name at ``offset`` is used in this document."""
        return ()

    def complete(self, text: str, offset: int) -> tuple[Span, tuple[str, ...]]:
        """What may appear at ``offset`` of a text that may be newer, and what it replaces."""
        return Span(offset, offset), ()

    def show(self, argument: str) -> str:
        """The text that the command of a lens shows. Raises KeyError for an unknown argument."""
        return self.extra[argument]
