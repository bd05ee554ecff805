"""Flink's type grammar inside SQL: ``DECIMAL(10, 2) NOT NULL``, ``ROW<a INT, b ARRAY<STRING>>``.

A type in the syntax tree is ``exp.DataType`` whose ``kind`` holds Flink's serializable text;
:func:`logical_type` turns it into the type the plan uses.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from stateplan.common.errors import SqlError
from stateplan.common.types import MAX_LENGTH, LogicalType, RowField, parse_type
from stateplan.planner.dialect.base import ParserBase, with_position
from stateplan.planner.dialect.errors import place_of_token

# Types that are one word (and its synonyms), nothing in parentheses.
_PLAIN: dict[str, LogicalType] = {
    "BOOLEAN": LogicalType("BOOLEAN"),
    "TINYINT": LogicalType("TINYINT"),
    "SMALLINT": LogicalType("SMALLINT"),
    "INT": LogicalType("INTEGER"),
    "INTEGER": LogicalType("INTEGER"),
    "BIGINT": LogicalType("BIGINT"),
    "FLOAT": LogicalType("FLOAT"),
    "DOUBLE": LogicalType("DOUBLE"),
    "DATE": LogicalType("DATE"),
    "STRING": LogicalType("VARCHAR", length=MAX_LENGTH),
    "BYTES": LogicalType("VARBINARY", length=MAX_LENGTH),
    "NULL": LogicalType("NULL"),
    "VARIANT": LogicalType("VARIANT"),
}

# Types with one optional number: root, field, default, smallest, largest.
_SIZED: dict[str, tuple[str, str, int, int, int]] = {
    "CHAR": ("CHAR", "length", 1, 1, MAX_LENGTH),
    "CHARACTER": ("CHAR", "length", 1, 1, MAX_LENGTH),
    "VARCHAR": ("VARCHAR", "length", MAX_LENGTH, 1, MAX_LENGTH),
    "BINARY": ("BINARY", "length", 1, 1, MAX_LENGTH),
    "VARBINARY": ("VARBINARY", "length", MAX_LENGTH, 1, MAX_LENGTH),
    "TIME": ("TIME_WITHOUT_TIME_ZONE", "precision", 0, 0, 9),
    "TIMESTAMP": ("TIMESTAMP_WITHOUT_TIME_ZONE", "precision", 6, 0, 9),
    "TIMESTAMP_LTZ": ("TIMESTAMP_WITH_LOCAL_TIME_ZONE", "precision", 6, 0, 9),
}

_VARYING = {"CHAR": "VARCHAR", "CHARACTER": "VARCHAR", "BINARY": "VARBINARY"}

# sqlglot's name of each root, for tools that look at exp.DataType.this.
_DTYPE: dict[str, exp.DType] = {
    "BOOLEAN": exp.DType.BOOLEAN,
    "TINYINT": exp.DType.TINYINT,
    "SMALLINT": exp.DType.SMALLINT,
    "INTEGER": exp.DType.INT,
    "BIGINT": exp.DType.BIGINT,
    "FLOAT": exp.DType.FLOAT,
    "DOUBLE": exp.DType.DOUBLE,
    "DECIMAL": exp.DType.DECIMAL,
    "CHAR": exp.DType.CHAR,
    "VARCHAR": exp.DType.VARCHAR,
    "BINARY": exp.DType.BINARY,
    "VARBINARY": exp.DType.VARBINARY,
    "DATE": exp.DType.DATE,
    "TIME_WITHOUT_TIME_ZONE": exp.DType.TIME,
    "TIMESTAMP_WITHOUT_TIME_ZONE": exp.DType.TIMESTAMPNTZ,
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": exp.DType.TIMESTAMPLTZ,
    "INTERVAL_DAY_TIME": exp.DType.INTERVAL,
    "INTERVAL_YEAR_MONTH": exp.DType.INTERVAL,
    "ARRAY": exp.DType.ARRAY,
    "MAP": exp.DType.MAP,
    "ROW": exp.DType.STRUCT,
    "NULL": exp.DType.NULL,
}

_OTHERS = ("DECIMAL", "NUMERIC", "DEC", "ARRAY", "MAP", "MULTISET", "ROW", "INTERVAL")
TYPE_NAMES = (*_PLAIN, *_SIZED, *_OTHERS)

_SUBSTITUTES = {
    "BLOB": "BYTES",
    "BOOL": "BOOLEAN",
    "BYTE": "TINYINT",
    "BYTEA": "BYTES",
    "CLOB": "STRING",
    "DATETIME": "TIMESTAMP(3)",
    "FLOAT64": "DOUBLE",
    "INT32": "INT",
    "INT64": "BIGINT",
    "JSON": "VARIANT, or STRING",
    "JSONB": "VARIANT, or STRING",
    "LONG": "BIGINT",
    "NUMBER": "DECIMAL(10, 2)",
    "NVARCHAR": "STRING",
    "SHORT": "SMALLINT",
    "STRUCT": "ROW<a INT, b STRING>",
    "TEXT": "STRING",
    "TIMESTAMPTZ": "TIMESTAMP_LTZ(3)",
    "UUID": "STRING",
    "VARCHAR2": "STRING",
}
"""Types of other databases and formats, with the type to write instead."""

_NOT_HERE = {
    "RAW": "the type RAW",
    "STRUCTURED": "the type STRUCTURED",
    "BITMAP": "the type BITMAP",
}

UNITS_YEAR_MONTH = ("YEAR", "QUARTER", "MONTH")
UNITS_DAY_TIME = ("WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
UNITS = (*UNITS_YEAR_MONTH, *UNITS_DAY_TIME)
PLURALS = {f"{unit}S": unit for unit in UNITS}


def data_type(logical: LogicalType) -> exp.DataType:
    """The syntax node of a type."""
    return exp.DataType(this=_DTYPE.get(logical.root, exp.DType.USERDEFINED), kind=str(logical))


def logical_type(node: exp.DataType) -> LogicalType:
    """The type of a syntax node made by this dialect.

    Raises:
        StateplanError: TYPE001, for a node whose ``kind`` is not one of Flink's types.
    """
    return parse_type(str(node.args["kind"]))


class TypeParser(ParserBase):
    """The part of the parser that reads types."""

    @with_position
    def _flink_type(self) -> exp.DataType:
        return data_type(self._logical_type())

    @with_position
    def _type_before_null(self) -> exp.DataType:
        """A type; NULL behind it does not belong to it."""
        return data_type(self._logical_type(nullability=False))

    def _logical_type(self, *, nullability: bool = True) -> LogicalType:
        base = self._deeper(self._base_type)
        while True:
            if nullability and self._accept("NOT", "NULL"):
                base = base.not_null()
            elif nullability and self._accept("NULL"):
                base = base.as_nullable()
            elif self._is("ARRAY") or self._is("MULTISET"):
                base = LogicalType(self._accept_any(("ARRAY", "MULTISET")) or "", children=(base,))
            else:
                return base

    def _base_type(self) -> LogicalType:
        if self._at_end() or self._curr.token_type.name in ("STRING", "NUMBER"):
            raise self._unexpected("a type", words=TYPE_NAMES)
        token, word = self._curr, self._curr.text.upper()
        is_quoted = token.token_type.name == "IDENTIFIER"
        if not is_quoted and word in _NOT_HERE:
            raise self._unsupported(_NOT_HERE[word], token)
        reader: Callable[[], LogicalType] | None = None
        if not is_quoted:
            reader = {
                "ARRAY": self._collection,
                "MULTISET": self._collection,
                "MAP": self._map,
                "ROW": self._row,
                "DECIMAL": self._decimal,
                "DEC": self._decimal,
                "NUMERIC": self._decimal,
                "INTERVAL": self._interval_type,
            }.get(word)
        if reader is not None:
            return reader()
        if not is_quoted and word in _PLAIN:
            self._advance()
            if word == "DOUBLE":
                self._accept("PRECISION")
            elif word == "STRING":
                self._character_set()
            return _PLAIN[word]
        if not is_quoted and word in _SIZED:
            return self._sized(word)
        if not self._name_ahead() and not word[:1].isalpha():
            raise self._unexpected("a type", words=TYPE_NAMES)
        from stateplan.common.errors import nearest

        hint = f"write {_SUBSTITUTES[word]}" if word in _SUBSTITUTES else nearest(word, TYPE_NAMES)
        raise SqlError("SQL005", text=token.text, place=place_of_token(token, self.sql), hint=hint)

    def _number(self, subject: str, low: int, high: int) -> int:
        token = self._curr
        value = self._integer(f"the {subject}, a whole number")
        if not low <= value <= high:
            raise SqlError(
                "SQL005.out_of_range",
                what=subject,
                value=value,
                low=low,
                high=high,
                place=place_of_token(token, self.sql),
            )
        return value

    def _sized(self, word: str) -> LogicalType:
        token = self._take()
        if word in _VARYING and self._accept("VARYING"):
            word = _VARYING[word]
        root, field, default, low, high = _SIZED[word]
        value = self._parens(lambda: self._number(f"{field} of {word}", low, high)) if self._is("(") else default
        if word in ("TIME", "TIMESTAMP"):
            if self._accept("WITH", "LOCAL", "TIME", "ZONE") and word == "TIMESTAMP":
                root = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
            elif self._is("WITH", "TIME", "ZONE"):
                raise self._unsupported(
                    f"the type {word} WITH TIME ZONE",
                    token,
                    "use TIMESTAMP_LTZ (TIMESTAMP WITH LOCAL TIME ZONE)",
                )
            else:
                self._accept("WITHOUT", "TIME", "ZONE")
        if root in ("CHAR", "VARCHAR"):
            self._character_set()
        return LogicalType(root, length=value) if field == "length" else LogicalType(root, precision=value)

    def _character_set(self) -> None:
        """CHARACTER SET behind a type of texts, as Calcite writes it. All texts are Unicode: it means nothing."""
        if self._accept("CHARACTER", "SET"):
            self._name("a name of a character set")

    def _decimal(self) -> LogicalType:
        self._advance()
        precision, scale = 10, 0
        if self._accept("("):
            precision = self._number("precision of DECIMAL", 1, 38)
            if self._accept(","):
                scale = self._number("scale of DECIMAL", 0, precision)
            self._expect(")")
        return LogicalType("DECIMAL", precision=precision, scale=scale)

    def _collection(self) -> LogicalType:
        word = self._curr.text.upper()
        self._advance()
        self._expect("<")
        child = self._logical_type()
        self._expect(">")
        return LogicalType(word, children=(child,))

    def _map(self) -> LogicalType:
        self._advance()
        self._expect("<")
        key = self._logical_type()
        self._expect(",")
        value = self._logical_type()
        self._expect(">")
        return LogicalType("MAP", children=(key, value))

    def _row(self) -> LogicalType:
        self._advance()
        if not self._is("<") and not self._is("("):
            raise self._unexpected("< or (")
        closer = ">" if self._curr.text == "<" else ")"
        self._advance()
        fields: list[RowField] = []
        if not self._is(closer):
            fields = self._csv(self._row_field)
        self._expect(closer)
        return LogicalType("ROW", fields=tuple(fields))

    def _row_field(self) -> RowField:
        name = self._name("a name of a field").name
        self._accept(":")
        field_type = self._logical_type()
        comment = self._string("a comment").name if self._curr and self._curr.token_type.name == "STRING" else None
        return RowField(name, field_type, comment)

    def _interval_type(self) -> LogicalType:
        self._advance()
        return self._interval_qualifier()[1]

    def _interval_qualifier(self) -> tuple[str, LogicalType]:
        """``SECOND(3)``, ``DAY TO SECOND``: its text in capitals, and the interval's type."""
        start = self._curr
        first = self._unit()
        low, high = (1, 4) if first in UNITS_YEAR_MONTH else (1, 6)
        lead = self._parens(lambda: self._number(f"precision of {first}", low, high)) if self._is("(") else None
        text = first + (f"({lead})" if lead is not None else "")
        last = first
        fraction = None
        if self._accept("TO"):
            last = self._unit()
            family = UNITS_YEAR_MONTH if first in UNITS_YEAR_MONTH else UNITS_DAY_TIME
            if last not in family or family.index(last) <= family.index(first):
                raise SqlError(
                    "SQL006",
                    text=f"{first} TO {last}",
                    kind="a range of units",
                    place=place_of_token(self._prev, self.sql),
                )
            if last == "SECOND" and self._is("("):
                fraction = self._parens(lambda: self._number("fraction of SECOND", 0, 9))
            text += f" TO {last}" + (f"({fraction})" if fraction is not None else "")
        del start
        root = "INTERVAL_YEAR_MONTH" if first in UNITS_YEAR_MONTH else "INTERVAL_DAY_TIME"
        return text, LogicalType(root, resolution=text, precision=lead)

    def _unit(self) -> str:
        word = self._curr.text.upper() if not self._at_end() else ""
        if self._at_end() or self._curr.token_type.name == "IDENTIFIER" or PLURALS.get(word, word) not in UNITS:
            raise self._unexpected("a unit of time: " + ", ".join(UNITS), words=UNITS)
        self._advance()
        return PLURALS.get(word, word)
