"""What every part of the parser stands on: looking at tokens, demanding one, and saying what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar

from sqlglot import exp, parser
from sqlglot.tokenizer_core import Token, TokenType

from stateplan.common.errors import SqlError, nearest
from stateplan.planner.dialect.errors import end_place, place_of_token, token_text, unsupported
from stateplan.planner.dialect.keywords import KEYWORDS, RESERVED, words

T = TypeVar("T")
E = TypeVar("E", bound=exp.Expr)
P = ParamSpec("P")
S = TypeVar("S", bound="ParserBase")

_MAX_DEPTH = 50

_STRUCTURE = words("""
    FROM WHERE GROUP ORDER HAVING SELECT ON AND OR NOT THEN WHEN ELSE END UNION EXCEPT INTERSECT AS JOIN INNER
    LEFT RIGHT FULL CROSS LIMIT WINDOW INTO BY SET IS IN LIKE BETWEEN USING OFFSET VALUES WITH CASE DISTINCT ALL
    INSERT CREATE TABLE
""")

#: Of these, what people do call tables and columns.
_NAMELIKE = words("ORDER GROUP TABLE VALUES SET ALL END LEFT RIGHT FULL WINDOW OFFSET LIMIT CASE")

_WORDS = frozenset(
    {
        TokenType.VAR,
        TokenType.IDENTIFIER,
        TokenType.STRING,
        TokenType.NUMBER,
        TokenType.HEX_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.UNICODE_STRING,
    }
)
_SIGNS = frozenset(
    [
        "(",
        ")",
        "[",
        "]",
        ",",
        ".",
        ";",
        ":",
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "+",
        "-",
        "*",
        "/",
        "%",
        "||",
        "=>",
        "->",
        "/*+",
        "*/",
    ]
)
_NO_SQL = {
    '"': ("double quotes quote nothing in Flink SQL", "backquotes around a name, single quotes around a text"),
    "!=": ("'!=' is not an operator of Flink SQL", "<>"),
    "==": ("'==' is not an operator of Flink SQL", "="),
    "::": ("'::' is not an operator of Flink SQL", "CAST(x AS type)"),
    "&": ("'&' is not an operator of Flink SQL", "AND between conditions"),
    "^": ("'^' is not an operator of Flink SQL", "POWER(x, y)"),
    "~": ("'~' is not an operator of Flink SQL", "REGEXP(s, 'pattern')"),
}
_FOREIGN_WORDS = {
    "->": "write JSON_VALUE(s, '$.a'), or JSON_QUERY(s, '$.a') for an object or array",
    "ANTI": "write WHERE NOT EXISTS (SELECT 1 FROM ...)",
    "ILIKE": "write LOWER(s) LIKE LOWER(p)",
    "LATERAL": "write a comma before LATERAL, or CROSS JOIN UNNEST(t.a) AS u (x) for LATERAL VIEW EXPLODE",
    "REGEXP": "write REGEXP(s, 'pattern')",
    "RLIKE": "write REGEXP(s, 'pattern')",
    "SEMI": "write WHERE EXISTS (SELECT 1 FROM ...)",
    "XOR": "write a <> b",
}
"""Operators of other databases that Flink does not have, with what to write instead."""


def alternatives(words: Sequence[str]) -> str:
    """``a, b or c``."""
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def with_position(read: Callable[Concatenate[S, P], E]) -> Callable[Concatenate[S, P], E]:
    """Adds the position to the node that a method of the parser reads."""

    @wraps(read)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> E:
        start = self._curr
        return self._mark(read(self, *args, **kwargs), start)

    return run


class ParserBase(parser.Parser):
    """Strict helpers over sqlglot's token cursor. Nothing here backtracks: the first error is the error."""

    depth = 0

    if TYPE_CHECKING:  # the cursor of the base class
        _curr: Token
        _prev: Token
        _next: Token

    # looking

    def _is(self, *words: str) -> bool:
        """Whether the next tokens are these words or signs (names in backquotes are not)."""
        for offset, word in enumerate(words):
            token = self._ahead(offset)
            if (
                token is None
                or token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
                or token.text.upper() != word
            ):
                return False
        return True

    def _ahead(self, offset: int) -> Token | None:
        index = self._index + offset
        return self._tokens[index] if index < len(self._tokens) else None

    def _word_at(self, offset: int) -> str:
        """The word or sign ``offset`` tokens ahead in capitals; nothing for a text, a name in backquotes,
        the end."""
        token = self._ahead(offset)
        if token is None or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return ""
        return token.text.upper()

    def _accept(self, *words: str) -> bool:
        """Takes these words if they are next."""
        if self._is(*words):
            self._advance(len(words))
            return True
        return False

    def _take(self) -> Token:
        """Takes the next token."""
        token = self._curr
        self._advance()
        return token

    def _accept_any(self, words: Iterable[str]) -> str | None:
        """Takes one of these words, and returns it in capitals."""
        for word in words:
            if self._accept(*word.split(" ")):
                return word
        return None

    def _expect(self, *words: str, expected: str | None = None) -> Token:
        """Takes these words one after another; an error at the first that is not there."""
        for word in words:
            if not self._accept(word):
                raise self._unexpected(expected or word, words=[word])
        return self._prev

    def _at_end(self) -> bool:
        return self._index >= len(self._tokens)

    # saying what is wrong

    def _unexpected(self, expected: str, *, words: Iterable[str] = (), token: Token | None = None) -> SqlError:
        """SQL001 at ``token`` (the next one): not what was ``expected``.

        ``words`` are keywords that may appear there.
        """
        token = token or self._ahead(0)
        if token is None or (token.token_type == TokenType.SEMICOLON and token is self._ahead(0)):
            last = self._tokens[self._index - 1] if self._index else None
            return SqlError("SQL001", place=end_place(self.sql, last), expected=expected)
        if token.token_type not in _WORDS and token.text not in _SIGNS:
            problem, replacement = _NO_SQL.get(
                token.text, (f"unexpected character '{token_text(token, self.sql):.10}'", expected)
            )
            quoted_text = re.match(r'"([^"\n`]+)"', self.sql[token.start :])
            if quoted_text is not None:
                replacement = "'{}' for a text, `{}` for a name".format(
                    quoted_text[1].replace("'", "''"), quoted_text[1]
                )
            return SqlError("SQL003", problem=problem, place=place_of_token(token, self.sql), expected=replacement)
        if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            hint = self._foreign_before(token)
        else:
            near = nearest(token.text.upper(), words) if len(token.text) > 2 else None
            hint = _FOREIGN_WORDS.get(token.text.upper()) or near or self._misspelled_before(token, words)
        if hint is None and expected.startswith("a name") and self._quotable(token):
            return self._reserved(token)
        if hint is None and expected.startswith("a name") and token.text.upper() in _NAMELIKE:
            hint = f"as a name it needs backquotes: `{token.text}`"
        return SqlError(
            "SQL001.wrong_word",
            shown=token_text(token, self.sql),
            place=place_of_token(token, self.sql),
            expected=expected,
            hint=hint,
        )

    def _misspelled_before(self, token: Token, words: Iterable[str]) -> str | None:
        """A name just taken as an alias may have been meant as a keyword: ``SELECT a FORM t``."""
        before = self._before(token)
        if before is None or before.token_type != TokenType.VAR or before.text.upper() in KEYWORDS:
            return None
        hint = nearest(before.text.upper(), words)
        return self._foreign_before(token) or (f"'{before.text}' before it: {hint}" if hint else None)

    def _foreign_before(self, token: Token) -> str | None:
        """The hint for an operator of other databases that was just taken as an alias: ``SELECT a REGEXP 'x'``."""
        before = self._before(token)
        return None if before is None else _FOREIGN_WORDS.get(before.text.upper())

    def _before(self, token: Token) -> Token | None:
        """The token before the next one, if that is ``token``."""
        return self._tokens[self._index - 1] if self._index and token is self._ahead(0) else None

    @staticmethod
    def _quotable(token: Token) -> bool:
        """Whether the word is reserved, and not one that is rather misplaced than meant as a name."""
        word = token.text.upper()
        return token.token_type == TokenType.VAR and word in RESERVED and word not in _STRUCTURE

    def _reserved(self, token: Token) -> SqlError:
        return SqlError("SQL008", text=token.text, place=place_of_token(token, self.sql))

    def _unsupported(self, syntax: str, token: Token | None = None, hint: str | None = None) -> SqlError:
        token = token or self._prev
        return unsupported(syntax, place_of_token(token, self.sql), hint)

    def _operator_follows(self, text: str) -> bool:
        """Whether the characters of an operator that Flink does not have come next, without a blank between them."""
        ahead = self._ahead(0)
        return ahead is not None and self.sql[ahead.start : ahead.start + len(text)] == text

    def _no_operator(self, text: str) -> SqlError:
        """SQL003 for an operator of other dialects of two characters, which come next."""
        problem, replacement = _NO_SQL[text]
        place = place_of_token(self._curr, self.sql)
        return SqlError("SQL003", problem=problem, place=replace(place, length=len(text)), expected=replacement)

    def raise_error(self, message: str, token: Any = None) -> NoReturn:
        """Errors of sqlglot's own helpers, in our form."""
        raise self._unexpected(message, token=token or None)

    # positions

    def _mark(self, node: E, start: Token) -> E:
        """Sets the position of ``node``: from ``start`` to the last token that was read."""
        end = self._prev if self._index else start
        node.meta.update(line=start.line, col=start.col, start=start.start, end=max(end.end, start.end))
        return node

    def _deeper(self, parse: Callable[[], T]) -> T:
        """Runs ``parse`` one level deeper. Raises SqlError SQL009 past 50 levels."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            token = self._curr if not self._at_end() else self._prev
            raise SqlError("SQL009", place=place_of_token(token, self.sql), expected=f"at most {_MAX_DEPTH} levels")
        try:
            return parse()
        finally:
            self.depth -= 1

    # lists and names

    def _either(self, words: Sequence[str]) -> str:
        """The one of ``words`` that comes next."""
        word = self._accept_any(words)
        if word is None:
            raise self._unexpected(alternatives(words), words=words)
        return word

    def _csv(self, parse: Callable[[], T]) -> list[T]:
        items = [parse()]
        while self._accept(","):
            items.append(parse())
        return items

    def _parens(self, parse: Callable[[], T]) -> T:
        self._expect("(")
        result = parse()
        self._expect(")")
        return result

    def _name_ahead(self, offset: int = 0) -> bool:
        """Whether the token can be a name as it is."""
        token = self._ahead(offset)
        if token is None:
            return False
        if token.token_type == TokenType.IDENTIFIER:
            return True
        return _is_word(token) and token.text.upper() not in RESERVED

    def _name(self, expected: str = "a name", words: Iterable[str] = ()) -> exp.Identifier:
        """A name: backquoted, or a word that is not reserved."""
        if not self._name_ahead():
            raise self._unexpected(expected, words=words)
        token = self._take()
        has_quotes = token.token_type == TokenType.IDENTIFIER
        text = token.text if has_quotes else self.sql[token.start : token.end + 1]
        node = exp.Identifier(this=text, quoted=has_quotes)
        return self._mark(node, token)

    def _path(self, expected: str = "a name", most: int = 3) -> exp.Table:
        """``[[catalog.]database.]name`` as a Table."""
        start = self._curr
        parts = [self._name(expected)]
        while self._accept("."):
            if len(parts) == most:
                raise self._unexpected(f"at most {most} parts in this name", token=self._prev)
            parts.append(self._name("a name after '.'"))
        table = exp.Table(**dict(zip(("this", "db", "catalog"), reversed(parts), strict=False)))
        return self._mark(table, start)

    def _string(self, expected: str) -> exp.Literal:
        """A text literal."""
        token = self._curr
        if self._at_end() or token.token_type != TokenType.STRING:
            raise self._unexpected(expected)
        self._advance()
        return self._mark(exp.Literal(this=token.text, is_string=True), token)

    def _integer(self, expected: str = "a whole number") -> int:
        token = self._curr
        if self._at_end() or token.token_type != TokenType.NUMBER or not token.text.isdigit():
            raise self._unexpected(expected)
        self._advance()
        return int(token.text)


def _is_word(token: Token) -> bool:
    return (
        token.token_type not in (TokenType.STRING, TokenType.NUMBER)
        and (token.text[:1].isalpha() or token.text[:1] in "_$")
        and " " not in token.text
    )
