"""Lines of a statement: what fits on a line is on one, clauses have their own, and items of long lists, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stateplan.planner.formatting.clauses import clauses, head_length, is_query, word_at
from stateplan.planner.formatting.lexemes import Group, Lexeme, Part, tokens_of

_STEP = 2


class Layout:
    """Writes statements.

    Args:
        width: the most characters of a line, where it can be broken.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._lines: list[str] = []
        self._line = ""
        self._indent = 0
        self._must_break = False

    def statement(self, items: Sequence[Part]) -> str:
        """The text of a statement."""
        self._lines, self._line, self._indent, self._must_break = [], "", 0, False
        parts_of_statement = clauses(items, of_query=True)
        text = _flat(items)
        is_short = text is not None and len(text) < self._width and len(parts_of_statement) <= 2
        if is_short and not _inserts(items):
            self._write_flat(items)
        else:
            self._write_clauses(parts_of_statement)
        self._end_line()
        return "\n".join(self._lines)

    # lines

    def _end_line(self) -> None:
        if self._line:
            self._lines.append(self._line.rstrip())
        self._line, self._must_break = "", False

    def _new_line(self, indent: int) -> None:
        self._end_line()
        self._indent = indent

    def _token(self, token: Lexeme, text: str | None = None) -> None:
        """Writes a token, or what begins with it, with the comments around it."""
        if token.above or self._must_break:
            self._end_line()
        for comment in token.above:
            self._lines.append(" " * self._indent + comment)
        for comment in token.inside:
            self._append(comment, True)
        self._append(token.text if text is None else text, token.follows_blank)
        if text is None:
            self._behind(token)

    def _behind(self, token: Lexeme) -> None:
        for comment in token.behind:
            self._append(comment, True)
        self._must_break = self._must_break or token.breaks_line

    def _append(self, text: str, has_blank: bool) -> None:
        if not self._line:
            self._line = " " * self._indent + text
        else:
            self._line += f" {text}" if has_blank else text

    # parts

    def _write_clauses(self, parts_of_statement: Sequence[Sequence[Part]]) -> None:
        """Writes clauses, each on a line of its own."""
        indent = self._indent
        for place, clause in enumerate(parts_of_statement):
            if place:
                self._new_line(indent)
            self._write_clause(clause)
            self._indent = indent

    def _write_clause(self, clause: Sequence[Part]) -> None:
        if self._fits(clause):
            self._write_flat(clause)
            return
        indent, length = self._indent, head_length(clause)
        if length and len(_list_items(clause[length:])) > 1:
            self._write_parts(clause[:length])
            for item in _list_items(clause[length:]):
                self._new_line(indent + _STEP)
                self._write_item(item)
            return
        self._write_item(clause)

    def _write_item(self, items: Sequence[Part]) -> None:
        """Writes parts that need not fit on a line. They break in front of AND, OR and the ON of a join."""
        if self._fits(items):
            self._write_flat(items)
            return
        indent = self._indent
        for place, piece in enumerate(_conditions(items)):
            if place:
                self._new_line(indent + _STEP)
            if self._fits(piece):
                self._write_flat(piece)
            else:
                self._write_parts(piece)
        self._indent = indent

    def _write_parts(self, items: Sequence[Part]) -> None:
        """Writes parts one by one, and breaks the groups that do not fit."""
        indent = self._indent
        for place, item in enumerate(items):
            if isinstance(item, Lexeme):
                self._token(item)
            elif self._fits_with(items[place:]):
                self._write_flat([item])
            else:
                self._write_group(item)
            if self._must_break and place + 1 < len(items):
                self._new_line(indent + _STEP)
        self._indent = indent

    def _fits_with(self, items: Sequence[Part]) -> bool:
        """Whether a group fits, with the tokens behind it and the beginning of the next group."""
        count = 1
        while count < len(items) and isinstance(items[count], Lexeme):
            count += 1
        following = items[count] if count < len(items) else None
        room = len(following.first.text) + 1 if isinstance(following, Group) else 0
        if _flat(items[:count]) is None:  # a comment ends the line
            return self._fits(items[:1])
        return self._fits(items[:count], room)

    def _write_group(self, group: Group) -> None:
        """Writes a group over several lines."""
        indent = len(self._line) - len(self._line.lstrip()) if self._line else self._indent
        self._token(group.first)
        inner = indent + _STEP
        for piece in self._pieces(group):
            self._new_line(inner)
            self._write_clause(piece) if is_query(group.parts) else self._write_item(piece)
        if group.last.above:
            self._new_line(inner)
            self._lines += [" " * inner + comment for comment in group.last.above]
            group.last.above = []
        self._new_line(indent)
        self._token(group.last)

    def _pieces(self, group: Group) -> Iterator[Sequence[Part]]:
        """What has lines of its own in a group."""
        if group.first.word == "CASE":
            yield from _cases(group.parts)
        elif is_query(group.parts):
            yield from clauses(group.parts, of_query=True)
        elif len(items := _list_items(group.parts)) > 1 and len(clauses(group.parts, of_query=False)) == 1:
            yield from items
        else:
            yield from clauses(group.parts, of_query=False)

    # what fits

    def _fits(self, items: Sequence[Part], room: int = 0) -> bool:
        text = _flat(items)
        if text is None:
            return False
        start = len(self._line) + 1 if self._line else self._indent
        return start + len(text) + room <= self._width

    def _write_flat(self, items: Sequence[Part]) -> None:
        for token in tokens_of(items):
            self._token(token)


def _flat(items: Sequence[Part]) -> str | None:
    """Parts on one line; None if comments between them need lines. Those in front of the first and behind the last
    token do not count."""
    tokens = list(tokens_of(items))
    out = ""
    for place, token in enumerate(tokens):
        if (place and token.above) or (token.breaks_line and place + 1 < len(tokens)):
            return None
        comments = "".join(f"{comment} " for comment in token.inside)
        behind = "".join(f" {comment}" for comment in token.behind) if place + 1 < len(tokens) else ""
        out += (" " if place and token.follows_blank else "") + comments + token.text + behind
    return out


def _list_items(items: Sequence[Part]) -> list[list[Part]]:
    """The items of a list, each with its comma."""
    out: list[list[Part]] = [[]]
    for item in items:
        out[-1].append(item)
        if isinstance(item, Lexeme) and item.text == ",":
            out.append([])
    return [item for item in out if item]


def _conditions(items: Sequence[Part]) -> list[list[Part]]:
    """Parts that begin with AND, OR, or the ON of a join; the AND of BETWEEN begins none."""
    out: list[list[Part]] = [[]]
    is_between = False
    for place, item in enumerate(items):
        word = word_at(items, place)
        begins = word == "OR" or (word == "AND" and not is_between) or (word == "ON" and place > 0)
        if begins and out[-1]:
            out.append([])
        is_between = word == "BETWEEN" or (is_between and word != "AND")
        out[-1].append(item)
    return out


def _cases(items: Sequence[Part]) -> list[list[Part]]:
    """The branches of a CASE."""
    out: list[list[Part]] = [[]]
    for place, item in enumerate(items):
        if word_at(items, place) in ("WHEN", "ELSE") and out[-1]:
            out.append([])
        out[-1].append(item)
    return [item for item in out if item]


def _inserts(items: Sequence[Part]) -> bool:
    """Whether a statement is an INSERT, whose query begins a line."""
    return word_at(items, 0) == "INSERT"
