"""Scripts in one form: what fits on a line is on one, clauses have lines of their own, words that SQL reserves are in
capital letters. Comments stay where they are, and everything between statements does.

Statements are laid out by their tokens. sqlglot's generator writes a tree, in which comments and the order of columns,
watermarks and keys are no longer where they were written.

Whatever is written has the same tokens, comments and trees as before. A statement for which that does not hold stays as
it is, and so do SET and RESET, whose keys and values need no quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stateplan.common.errors import Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.planner.dialect import parse
from stateplan.planner.dialect.errors import place_at
from stateplan.planner.formatting.layout import Layout
from stateplan.planner.formatting.lexemes import Lexeme, comments, lexemes, parts
from stateplan.planner.formatting.spacing import set_blanks

WIDTH = 100
"""The most characters of a line."""

_VERBATIM = frozenset({"SET", "RESET"})
_SECTION = re.compile(r"^(?=-- test:)", re.M)
"""Where a test begins. The statements of each test are a script of their own."""


@dataclass(frozen=True)
class Formatted:
    """A script that was laid out.

    Attributes:
        text: the script.
        verbatim: where statements begin that were left as they are, because another layout would change them.
    """

    text: str
    verbatim: tuple[Place, ...] = ()


def format_sql(source: str, file: str | None = None, width: int = WIDTH) -> Formatted:
    """A script in one form.

    Args:
        source: the script.
        file: its name, for errors.
        width: the most characters of a line, where it can be broken.

    Raises:
        SqlError: SQL001 to SQL009, it is not a script.
    """
    sections = _SECTION.split(source) if _SECTION.search(source) else [source]
    texts, places, line = list[str](), list[Place](), 0
    for section in sections:
        # Lines in front of a section keep the places of errors right.
        formatted = _format(section, file, width, is_test=len(sections) > 1, line=line)
        texts.append(formatted.text)
        places += formatted.verbatim
        line += section.count("\n")
    return Formatted("".join(texts), tuple(places))


def _format(source: str, file: str | None, width: int, is_test: bool, line: int) -> Formatted:
    trees = parse("\n" * line + source, file)
    run = _Run(source, file, width, is_test, line)
    text, places = run.laid_out(frozenset())
    if _means(text, trees):
        return Formatted(text, tuple(places))
    # One statement at a time, so that only those stay as they are that must.
    numbers = range(len(run.statements))
    verbatim = frozenset(n for n in numbers if not _means(run.laid_out(frozenset(numbers) - {n})[0], trees))
    text, places = run.laid_out(verbatim)
    return Formatted(text, tuple(places))


def _means(text: str, trees: Sequence[object]) -> bool:
    try:
        return parse(text) == trees
    except Exception:
        return False


def _statements(source: str) -> Iterator[list[tuple[Lexeme, int, int]]]:
    """The tokens of each statement with its semicolon. BEGIN and END of a statement set count as statements."""
    current: list[tuple[Lexeme, int, int]] = []
    for token in lexemes(source):
        current.append(token)
        words = [entry[0].word for entry in current[-3:]]
        if token[0].text == ";" or words == ["STATEMENT", "SET", "BEGIN"]:
            yield current
            current = []
    if current:
        yield current


def _gap_behind(statements: Sequence[str], gap: str) -> str:
    """What is between two statements. It begins on a line of its own behind a comment that would take it in."""
    last = comments(statements[-1])[-1:] if statements else []
    is_open = bool(last) and not last[0].startswith("/*") and statements[-1].endswith(last[0])
    rest = gap.lstrip(" \t")
    return f"\n{rest}" if is_open and rest and not rest.startswith("\n") else gap


class _Run:
    """A script, or a section of one with tests, and the ways to lay it out.

    Args:
        source: its text.
        file, width: as of :func:`format_sql`.
        is_test: whether comments at the first column have a meaning.
        line: how many lines of the file are above it.

    Attributes:
        statements: the tokens of each.
    """

    def __init__(self, source: str, file: str | None, width: int, is_test: bool, line: int) -> None:
        self._source = source
        self._file = file
        self._layout = Layout(width)
        self._is_test = is_test
        self._line = line
        self.statements = list(_statements(source))

    def laid_out(self, verbatim: frozenset[int]) -> tuple[str, list[Place]]:
        """The text, and the places of statements that stay as they are, because they are in ``verbatim`` or because
        of their tokens or comments."""
        out, position, places = list[str](), 0, list[Place]()
        for number, statement in enumerate(self.statements):
            start, end = statement[0][1], statement[-1][2]
            own = self._source[start:end]
            gap = _gap_behind(out, self._source[position:start])
            is_first, position = not position, end
            is_fixed = statement[0][0].word in _VERBATIM or (self._is_test and "\n--" in own)
            text = own if is_fixed else None if number in verbatim else self._text_of(own)
            if text is None:
                places.append(
                    place_at("\n" * self._line + self._source, start + self._line, end + self._line, self._file)
                )
            if text is not None and not is_fixed:
                gap = gap.rstrip(" \t")
                gap = gap if is_first or "\n" in gap or gap.strip() else "\n"
            out += [gap, own if text is None else text]
        return "".join([*out, _gap_behind(out, self._source[position:])]), places

    def _text_of(self, source: str) -> str | None:
        """A statement in one form; None if that would change its tokens or its comments."""
        tokens = [token for token, _, _ in lexemes(source)]
        before = [token.text for token in tokens]
        set_blanks(tokens)
        text = self._layout.statement(parts(tokens))
        after = [token.text for token, _, _ in lexemes(text)]
        return text if before == after and comments(source) == comments(text) else None
