"""The names a statement gives to its tables: ``FROM Orders AS o`` makes ``o`` another name of ``Orders``.

Read from the SQL text that a plan records, without a parser: plan commands start fast, and a name that is not
understood is only a name that cannot be used to point at an operator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOKEN = re.compile(
    r"""--[^\n]* | /\*.*?\*/ | (?P<token>'(?:[^']|'')*' | `(?:[^`]|``)*` | [\w$]+ | \S)""",
    re.X | re.S,
)

# fmt: off
_NOT_AN_ALIAS = frozenset((
    "AND", "ANTI", "AS", "CROSS", "ELSE", "END", "EXCEPT", "FETCH", "FOR", "FROM", "FULL", "GROUP", "HAVING", "IN",
    "INNER", "INTERSECT", "INTO", "IS", "JOIN", "LATERAL", "LEFT", "LIMIT", "MATCH_RECOGNIZE", "MINUS", "NATURAL",
    "OFFSET", "ON", "OR", "ORDER", "PARTITION", "PIVOT", "QUALIFY", "RIGHT", "SELECT", "SEMI", "SET", "TABLE",
    "TABLESAMPLE", "THEN", "UNION", "UNNEST", "USING", "VALUES", "WHEN", "WHERE", "WINDOW", "WITH",
))
# fmt: on

Tables = frozenset[str]


def unquoted(name: str) -> str:
    """A name without its backquotes."""
    return name[1:-1].replace("``", "`") if len(name) > 1 and name[0] == name[-1] == "`" else name


def aliases(sql: str) -> Mapping[str, frozenset[Tables]]:
    """What each alias and each WITH name of a statement stands for: a set of table names for every place it is given.

    Tables are named by the last part of their path. A subquery stands for the tables in it.
    """
    reader = _Reader([match["token"] for match in _TOKEN.finditer(sql) if match["token"]])
    reader.read()
    return {name: frozenset(reader.resolve(tables) for tables in uses) for name, uses in reader.tables_by_name.items()}


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.tables_by_name: dict[str, list[Tables]] = {}
        self.with_tables: dict[str, Tables] = {}

    def word(self, i: int) -> str:
        return self.tokens[i].upper() if i < len(self.tokens) else ""

    def resolve(self, tables: Tables, names_so_far: Tables = frozenset()) -> Tables:
        """``tables`` with the names of WITH replaced by what they stand for."""
        names: set[str] = set()
        for name in tables:
            inner = self.with_tables.get(name)
            names |= {name} if inner is None or name in names_so_far else self.resolve(inner, names_so_far | {name})
        return frozenset(names)

    def read(self) -> None:
        """Reads all tokens. Without recursion: statements may be nested deeper than the interpreter goes."""
        tables: list[set[str]] = [set()]
        names: list[str | None] = [None]
        last_name: str | None = None
        i = 0
        while i < len(self.tokens):
            word = self.word(i)
            if word == "(":
                tables.append(set())
                names.append(last_name)
                last_name = None
                i += 1
            elif word == ")":
                i += 1
                if len(tables) > 1:
                    inner, name = frozenset(tables.pop()), names.pop()
                    tables[-1] |= inner
                    if name is None:
                        i = self.alias(i, inner)
                    else:
                        self.with_tables[name] = inner
                        self.note(name, inner)
            elif word in ("FROM", "JOIN", "TABLE") and self.is_name(i + 1):
                i = self.table(i + 1, tables[-1])
                while word != "TABLE" and self.word(i) == "," and self.is_name(i + 1):
                    i = self.table(i + 1, tables[-1])
            elif self.is_name(i) and self.word(i + 1) == "AS" and self.word(i + 2) == "(":
                last_name = unquoted(self.tokens[i])
                i += 2
            else:
                i += 1

    def table(self, i: int, tables: set[str]) -> int:
        """The table at ``i`` with what belongs to it, added to ``tables``; the position after it."""
        name, i = self.path(i)
        tables.add(name)
        if self.word(i) == "FOR" and self.word(i + 1) == "SYSTEM_TIME":
            i += 4
            if self.is_name(i):
                i = self.path(i)[1]
            if self.word(i) == "(" and self.word(i + 1) == ")":
                i += 2
        return self.alias(i, frozenset({name}))

    def is_name(self, i: int) -> bool:
        if i >= len(self.tokens):
            return False
        token = self.tokens[i]
        return token[0] == "`" or ((token[0].isalpha() or token[0] == "_") and token.upper() not in _NOT_AN_ALIAS)

    def path(self, i: int) -> tuple[str, int]:
        """The last part of the name at ``i``, and the position after it."""
        while self.word(i + 1) == "." and self.is_name(i + 2):
            i += 2
        return unquoted(self.tokens[i]), i + 1

    def alias(self, i: int, tables: Tables) -> int:
        """Notes the alias at ``i``, if there is one, for ``tables``; the position after it."""
        at = i + 1 if self.word(i) == "AS" else i
        if not tables or not self.is_name(at):
            return i
        self.note(unquoted(self.tokens[at]), tables)
        return at + 1

    def note(self, name: str, tables: Tables) -> None:
        self.tables_by_name.setdefault(name, []).append(tables)
