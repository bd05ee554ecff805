"""The Flink dialect: text of Flink SQL to syntax trees and back.

    >>> statements = parse("SELECT a FROM t; SELECT 1")
    >>> statements[0].sql(dialect="flink")
    'SELECT a FROM t'

What the trees look like: queries.py (queries, INSERT, hints), expressions.py (expressions, calls), types.py (types),
nodes.py (all other statements). Each node carries where it is in the text: ``meta["start"]`` and ``meta["end"]`` (both
inclusive), see :mod:`planner.positions`.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect, NormalizationStrategy

from stateplan.planner.dialect.calls import function_name, name_parts
from stateplan.planner.dialect.generator import FlinkGenerator
from stateplan.planner.dialect.parser import FlinkParser
from stateplan.planner.dialect.tokenizer import FlinkTokenizer, scan
from stateplan.planner.dialect.types import data_type, logical_type

__all__ = ["data_type", "function_name", "logical_type", "name_parts"]


class Flink(Dialect):
    """Apache Flink SQL."""

    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_SENSITIVE
    NULL_ORDERING = "nulls_are_small"
    INDEX_OFFSET = 1
    TYPED_DIVISION = True
    SUPPORTS_USER_DEFINED_TYPES = False

    Tokenizer = FlinkTokenizer
    Parser = FlinkParser
    Generator = FlinkGenerator


def parse(text: str, file: str | None = None) -> list[exp.Expr]:
    """The statements of a script, in order.

    Raises:
        SqlError: SQL001 to SQL009, with the place in ``text``.
    """
    return FlinkParser(dialect=Flink()).script(scan(text, file), text, file)


def parse_query(text: str, file: str | None = None) -> exp.Expr:
    """The one query that ``text`` is. Raises SqlError."""
    return FlinkParser(dialect=Flink()).one(scan(text, file), text, FlinkParser.query, file)


def parse_expression(text: str, file: str | None = None) -> exp.Expr:
    """The one expression that ``text`` is. Raises SqlError."""
    return FlinkParser(dialect=Flink()).one(scan(text, file), text, FlinkParser.scalar, file)


def parse_path(text: str) -> exp.Table:
    """The name of a table or of another object, with its catalog and database if it has them. Raises SqlError."""
    return FlinkParser(dialect=Flink()).one(scan(text), text, FlinkParser.path)


def to_sql(node: exp.Expr) -> str:
    """The text of a tree, on one line."""
    return node.sql(dialect=Flink, comments=False)
