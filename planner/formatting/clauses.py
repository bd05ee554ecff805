"""Where clauses of a statement begin."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.planner.formatting.lexemes import Group, Lexeme, Part

_QUERY = frozenset(
    {
        "SELECT",
        "FROM",
        "WHERE",
        "HAVING",
        "WINDOW",
        "QUALIFY",
        "LIMIT",
        "OFFSET",
        "FETCH",
        "UNION",
        "INTERSECT",
        "EXCEPT",
        "MINUS",
        "VALUES",
        "INSERT",
    }
)
_SETS = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS"})
_JOIN = frozenset({"NATURAL", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "OUTER", "SEMI", "ANTI", "JOIN"})
_OTHERS = frozenset(
    {"PARTITION", "ORDER", "MEASURES", "AFTER", "PATTERN", "WITHIN", "SUBSET", "DEFINE", "ROWS", "RANGE"}
)
"""Begin a line of OVER and MATCH_RECOGNIZE, in parentheses that have no query."""

_LISTS = frozenset(
    {"SELECT", "GROUP", "ORDER", "VALUES", "WITH", "WINDOW", "MEASURES", "DEFINE", "SUBSET", "PARTITION"}
)
_HEAD_WORDS = frozenset(
    {"SELECT", "DISTINCT", "ALL", "GROUP", "ORDER", "PARTITION", "BY", "WITH", "RECURSIVE", "VALUES"}
)


def word_at(items: Sequence[Part], place: int) -> str:
    """The word at a place, in capital letters; empty for anything else."""
    item = items[place] if 0 <= place < len(items) else None
    return item.word if isinstance(item, Lexeme) else ""


def is_query(items: Sequence[Part]) -> bool:
    """Whether parts are a query."""
    return word_at(items, 0) in ("SELECT", "WITH", "VALUES") or (
        bool(items)
        and isinstance(items[0], Group)
        and is_query(items[0].parts)
        and len(items) > 1
        and word_at(items, 1) in _SETS
    )


def clauses(items: Sequence[Part], *, of_query: bool) -> list[list[Part]]:
    """The clauses of a statement, or of the inside of parentheses."""
    out: list[list[Part]] = []
    for place, item in enumerate(items):
        if not out or _begins_clause(items, place, of_query):
            out.append([])
        out[-1].append(item)
    return out


def _begins_clause(items: Sequence[Part], place: int, of_query: bool) -> bool:
    word, before = word_at(items, place), word_at(items, place - 1)
    if not of_query:
        return word in _OTHERS or (word in ("ONE", "ALL") and word_at(items, place + 1).startswith("ROW"))
    if word in _JOIN:
        return before not in _JOIN and _leads_to_join(items, place)
    if word in ("GROUP", "ORDER"):
        return word_at(items, place + 1) == "BY"
    if word == "ON":
        return word_at(items, place + 1) == "CONFLICT"
    if word == "FROM":
        return before != "DISTINCT" or word_at(items, place - 2) not in ("IS", "NOT")
    if word == "WITH":
        return before == "AS" or place == 0
    if isinstance(items[place], Group):
        return before in _SETS or (before in ("ALL", "DISTINCT") and word_at(items, place - 2) in _SETS)
    return word in _QUERY and before != "FOR"


def _leads_to_join(items: Sequence[Part], place: int) -> bool:
    """Whether words from a place on end with JOIN: LEFT and RIGHT are functions, too."""
    while word_at(items, place) in _JOIN:
        if word_at(items, place) == "JOIN":
            return True
        place += 1
    return False


def head_length(clause: Sequence[Part]) -> int:
    """How many parts of a clause are in front of its list; 0 for a clause without a list."""
    if word_at(clause, 0) not in _LISTS:
        return 0
    length = 0
    while length < len(clause) and (
        word_at(clause, length) in _HEAD_WORDS
        or (isinstance(item := clause[length], Group) and item.first.text == "/*+")
        or (length == 0)
    ):
        length += 1
    return length
