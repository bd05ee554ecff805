"""Syntax nodes of Flink SQL that sqlglot has no class for.

Queries, INSERT and expressions use sqlglot's own classes (``exp.Select``, ``exp.Insert``, ``exp.Window``...);
the statements around them, and the parts of CREATE TABLE that only Flink has, are the classes here. Each
names its parts in ``arg_types`` as sqlglot does: True for a part that must be there. What is not an
expression (flags, kinds, option texts) is kept as plain text or bool.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


def _parts(names: str) -> dict[str, bool]:
    """What a node consists of; names with a ``?`` may be missing."""
    return {name.removesuffix("?"): not name.endswith("?") for name in names.split()}


# expressions


class TypedLiteral(exp.Expression, exp.Condition):
    """``DATE '2024-01-31'``, ``TIME '12:00:00'``, ``TIMESTAMP '...'``; ``kind`` is the keyword, ``this``
    a text literal."""

    arg_types: ClassVar = _parts("this kind")


class JoinedTables(exp.Expression):
    """Joins in parentheses: a table reference, and ``exp.Join``s."""

    arg_types: ClassVar = _parts("this joins")


class TableArgument(exp.Expression):
    """``TABLE t [PARTITION BY (..)] [ORDER BY ..]`` or ``(query)`` in the arguments of a table function."""

    arg_types: ClassVar = _parts("this partition_by? order?")


def is_json(node: exp.Is) -> bool:
    """Whether it is ``x IS [NOT] JSON ...``."""
    return isinstance(node.expression, exp.Var) and node.expression.name != "UNKNOWN"


class Difference(exp.Expression):
    """``(a - b) DAY TO SECOND``: the difference, in parentheses, and an ``exp.Var`` of the interval's qualifier."""

    arg_types: ClassVar = _parts("this unit")


class JsonReturning(exp.Expression):
    """``RETURNING type`` in a call of JSON_VALUE or JSON_QUERY."""

    arg_types: ClassVar = _parts("this")


class JsonDefault(exp.Expression):
    """``DEFAULT x ON EMPTY`` or ``ON ERROR`` in a call of JSON_VALUE; ``event`` is EMPTY or ERROR."""

    arg_types: ClassVar = _parts("this event")


# MATCH_RECOGNIZE


class MatchRecognize(exp.Expression):
    """``t MATCH_RECOGNIZE (..)``: ``this`` is a table reference, ``measures`` are aliases, ``rows`` is ONE or ALL,
    ``after`` a :class:`MatchSkip`, ``within`` an interval, ``subsets`` and ``defines`` are :class:`MatchVariable`."""

    arg_types: ClassVar = _parts(
        "this partition_by? order? measures rows? after? pattern within? subsets? defines alias?"
    )


class MatchSkip(exp.Expression):
    """``AFTER MATCH SKIP kind [this]``; ``this`` is a variable, ``kind`` one of PAST LAST ROW, TO NEXT ROW, TO FIRST,
    TO LAST and TO."""

    arg_types: ClassVar = _parts("kind this?")


class MatchVariable(exp.Expression):
    """``this AS expression`` in DEFINE, or ``this = (expressions)`` in SUBSET."""

    arg_types: ClassVar = _parts("this expression? expressions?")


class MatchModifier(exp.Expression):
    """``FINAL`` or ``RUNNING`` (``kind``) in front of a call."""

    arg_types: ClassVar = _parts("this kind")


class PatternSequence(exp.Expression):
    """Variables, repetitions and groups in parentheses, one after another."""

    arg_types: ClassVar = _parts("expressions")


class PatternRepeat(exp.Expression):
    """``this`` with a quantifier: at least ``low`` times and at most ``high`` times, both plain numbers; -1 for no
    bound. ``reluctant`` says that fewer are better, ``text`` is how it was written."""

    arg_types: ClassVar = _parts("this low high reluctant? text")


# what CREATE TABLE is made of


class Option(exp.Expression):
    """``'key' = 'value'``; ``this`` and ``expression`` are text literals."""

    arg_types: ClassVar = _parts("this expression?")


class PhysicalColumn(exp.Expression):
    """``name TYPE [[CONSTRAINT n] PRIMARY KEY NOT ENFORCED] [COMMENT '..']``."""

    arg_types: ClassVar = _parts("this kind primary_key? comment?")


class MetadataColumn(exp.Expression):
    """``name TYPE METADATA [FROM 'key'] [VIRTUAL] [COMMENT '..']``."""

    arg_types: ClassVar = _parts("this kind key? virtual? comment?")


class ComputedColumn(exp.Expression):
    """``name AS expression [COMMENT '..']``."""

    arg_types: ClassVar = _parts("this expression comment?")


class Watermark(exp.Expression):
    """``WATERMARK FOR column AS expression``; ``this`` is a list of identifiers (a path into a row)."""

    arg_types: ClassVar = _parts("expressions expression")


class PrimaryKey(exp.Expression):
    """``[CONSTRAINT name] PRIMARY KEY (columns) NOT ENFORCED``; without ``expressions`` when written at a
    column."""

    arg_types: ClassVar = _parts("this? expressions? enforced?")


class Distribution(exp.Expression):
    """``DISTRIBUTED [BY [HASH|RANGE] (columns)] [INTO n BUCKETS]``."""

    arg_types: ClassVar = _parts("kind? expressions? buckets?")


class LikeTable(exp.Expression):
    """``LIKE t (INCLUDING ALL, ...)``; each of ``expressions`` is a var such as ``INCLUDING OPTIONS``."""

    arg_types: ClassVar = _parts("this expressions?")


# statements


class Statement(exp.Expression):
    """Base of the statements that are not sqlglot's own."""


class CreateTable(Statement):
    arg_types: ClassVar = _parts(
        "this columns? names? watermarks? keys? comment? distribution? "
        "partitioned_by? options? like? temporary? exists?"
    )


class CreateTableAs(Statement):
    """``this`` (a :class:`CreateTable`, where ``names`` may say the order of the query's columns) with AS and the query
    ``expression``; ``replace`` is OR REPLACE, or REPLACE for a table that must be there."""

    arg_types: ClassVar = _parts("this expression replace?")


class CreateView(Statement):
    arg_types: ClassVar = _parts("this columns? expression comment? temporary? exists? replace?")


class CreateCatalog(Statement):
    arg_types: ClassVar = _parts("this exists? comment? options?")


class CreateDatabase(Statement):
    arg_types: ClassVar = _parts("this exists? comment? options?")


class DropObject(Statement):
    """``DROP [TEMPORARY] kind [IF EXISTS] this [RESTRICT | CASCADE]``."""

    arg_types: ClassVar = _parts("this kind temporary? exists? cascade?")


class FunctionStatement(Statement):
    """``action [TEMPORARY [SYSTEM]] FUNCTION [IF [NOT] EXISTS] this [AS 'expression' [LANGUAGE language] [USING ..]]``;
    ``action`` is CREATE, ALTER or DROP, ``using`` the texts behind USING."""

    arg_types: ClassVar = _parts("this action temporary? system? exists? expression? language? using?")


class AlterTable(Statement):
    """``action`` is SET (``options``), RESET (``options`` without values) or RENAME TO (``target``); ADD or MODIFY of
    ``elements`` (:class:`PlacedColumn`, :class:`Watermark`, :class:`PrimaryKey`); RENAME of ``column`` to ``target``;
    or DROP of ``names``, or of ``part``: WATERMARK, PRIMARY KEY or CONSTRAINT, which may have a ``target``."""

    arg_types: ClassVar = _parts("this exists? action options? target? elements? column? names? part?")


class PlacedColumn(Statement):
    """A column ``this``, with ``first``, or ``after`` another one, where its place is said."""

    arg_types: ClassVar = _parts("this first? after?")


class AlterView(Statement):
    """``action`` is RENAME TO (``target``) or AS (``expression``)."""

    arg_types: ClassVar = _parts("this action target? expression?")


class UseObject(Statement):
    """``USE [CATALOG] this``."""

    arg_types: ClassVar = _parts("this kind")


class ModuleStatement(Statement):
    """``LOAD MODULE name [WITH (..)]``, ``UNLOAD MODULE name`` or ``USE MODULES name, name``; ``action`` is the first
    word."""

    arg_types: ClassVar = _parts("action expressions options?")


class ShowObjects(Statement):
    """``SHOW kind [FROM|IN this] [PARTITION (..)] [[NOT] [I]LIKE 'pattern']``; ``kind`` as written, such as ``CREATE
    TABLE``."""

    arg_types: ClassVar = _parts("kind this? preposition? partition? like? operator? negated?")


class DescribeTable(Statement):
    """``DESCRIBE this``; ``kind`` is EXTENDED, CATALOG or DATABASE where written."""

    arg_types: ClassVar = _parts("this kind? extended?")


class DescribeJob(Statement):
    """``DESCRIBE JOB this`` (plain text)."""

    arg_types: ClassVar = _parts("this")


class StopJob(Statement):
    """``STOP JOB this [WITH SAVEPOINT] [WITH DRAIN]``; ``this`` is a plain text."""

    arg_types: ClassVar = _parts("this savepoint? drain?")


class SetOption(Statement):
    """``SET 'key' = 'value'`` (plain texts), ``SET 'key'``, or SET alone."""

    arg_types: ClassVar = _parts("this? expression?")


class ResetOption(Statement):
    """``RESET 'key'`` (plain text), or RESET alone."""

    arg_types: ClassVar = _parts("this?")


class StatementSet(Statement):
    """``[EXECUTE] STATEMENT SET BEGIN insert; insert; END``."""

    arg_types: ClassVar = _parts("expressions")


class BeginStatementSet(Statement):
    """``BEGIN STATEMENT SET``: the INSERTs that follow are run together, at ``END``."""

    arg_types: ClassVar = _parts("")


class EndStatementSet(Statement):
    """``END`` of a statement set that is open in the session."""

    arg_types: ClassVar = _parts("")


class RollbackStatementSet(Statement):
    """``ROLLBACK``: gives up a statement set that is open in the session. Flink has no way to do that."""

    arg_types: ClassVar = _parts("")


class ExecuteStatement(Statement):
    """``EXECUTE insert | query | STATEMENT SET ...``."""

    arg_types: ClassVar = _parts("this")


class CompilePlan(Statement):
    """``COMPILE [AND EXECUTE] PLAN ['path'] [IF NOT EXISTS] FOR insert | STATEMENT SET ...``."""

    arg_types: ClassVar = _parts("this path? exists? execute?")


class MigratePlan(Statement):
    """``COMPILE PLAN 'path' [IF NOT EXISTS] FROM 'path'`` (FLIP-190); ``this`` is the plan to read."""

    arg_types: ClassVar = _parts("this path exists?")


class AlterPlan(Statement):
    """``ALTER PLAN 'path' SET ttl, ttl``; the parts are :class:`PlanTtl`."""

    arg_types: ClassVar = _parts("path expressions")


class PlanTtl(exp.Expression):
    """``TTL 'duration' FOR 'selector', 'selector'``, all of them plain texts."""

    arg_types: ClassVar = _parts("this expressions")


class ExecutePlan(Statement):
    """``EXECUTE PLAN 'path'``."""

    arg_types: ClassVar = _parts("path")


class Explain(Statement):
    """``EXPLAIN [PLAN FOR | details] statement`` or ``EXPLAIN [details] PLAN 'path'``; ``details`` is a list
    of texts."""

    arg_types: ClassVar = _parts("this? path? details? plan_for?")


CLASSES: tuple[type[exp.Expr], ...] = tuple(
    made
    for made in list(vars().values())
    if isinstance(made, type) and made.__module__ == __name__ and made is not Statement
)
"""The classes above that stand for something a user writes."""
