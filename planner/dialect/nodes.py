"""Syntax nodes of Flink SQL that sqlglot has no class for.

Queries, INSERT and expressions use sqlglot's own classes (``exp.Select``, ``exp.Insert``, ``exp.Window``...);
the statements around them, and the parts of CREATE TABLE that only Flink has, are the classes here. Each
names its parts, which become sqlglot's ``arg_types``: True for a part that must be there. What is not an
expression (flags, kinds, option texts) is kept as plain text or bool.
"""

from __future__ import annotations

from sqlglot import exp


class Node(exp.Expression):
    """A syntax node. The names of its ``parts`` end with a ``?`` if they may be missing."""

    def __init_subclass__(cls, parts: str = "") -> None:
        cls.arg_types = {part.removesuffix("?"): not part.endswith("?") for part in parts.split()}
        super().__init_subclass__()


# expressions


class TypedLiteral(Node, exp.Condition, parts="this kind"):
    """``DATE '2024-01-31'``, ``TIME '12:00:00'``, ``TIMESTAMP '...'``; ``kind`` is the keyword, ``this``
    a text literal."""


class JoinedTables(Node, parts="this joins"):
    """Joins in parentheses: a table reference, and ``exp.Join``s."""


class TableArgument(Node, parts="this partition_by? order?"):
    """``TABLE t [PARTITION BY (..)] [ORDER BY ..]`` or ``(query)`` in the arguments of a table function."""


def is_json(node: exp.Is) -> bool:
    """Whether it is ``x IS [NOT] JSON ...``."""
    return isinstance(node.expression, exp.Var) and node.expression.name != "UNKNOWN"


class Difference(Node, parts="this unit"):
    """``(a - b) DAY TO SECOND``: the difference, in parentheses, and an ``exp.Var`` of the interval's qualifier."""


class JsonReturning(Node, parts="this"):
    """``RETURNING type`` in a call of JSON_VALUE or JSON_QUERY."""


class JsonDefault(Node, parts="this event"):
    """``DEFAULT x ON EMPTY`` or ``ON ERROR`` in a call of JSON_VALUE; ``event`` is EMPTY or ERROR."""


# MATCH_RECOGNIZE


class MatchRecognize(
    Node,
    parts="this partition_by? order? measures rows? after? pattern within? subsets? defines alias?",
):
    """``t MATCH_RECOGNIZE (..)``: ``this`` is a table reference, ``measures`` are aliases, ``rows`` is ONE or ALL,
    ``after`` a :class:`MatchSkip`, ``within`` an interval, ``subsets`` and ``defines`` are :class:`MatchVariable`."""


class MatchSkip(Node, parts="kind this?"):
    """``AFTER MATCH SKIP kind [this]``; ``this`` is a variable, ``kind`` one of PAST LAST ROW, TO NEXT ROW, TO FIRST,
    TO LAST and TO."""


class MatchVariable(Node, parts="this expression? expressions?"):
    """``this AS expression`` in DEFINE, or ``this = (expressions)`` in SUBSET."""


class MatchModifier(Node, parts="this kind"):
    """``FINAL`` or ``RUNNING`` (``kind``) in front of a call."""


class PatternSequence(Node, parts="expressions"):
    """Variables, repetitions and groups in parentheses, one after another."""


class PatternRepeat(Node, parts="this low high reluctant? text"):
    """``this`` with a quantifier: at least ``low`` times and at most ``high`` times, both plain numbers; -1 for no
    bound. ``reluctant`` says that fewer are better, ``text`` is how it was written."""


# what CREATE TABLE is made of


class Option(Node, parts="this expression?"):
    """``'key' = 'value'``; ``this`` and ``expression`` are text literals."""


class PhysicalColumn(Node, parts="this kind primary_key? comment?"):
    """``name TYPE [[CONSTRAINT n] PRIMARY KEY NOT ENFORCED] [COMMENT '..']``."""


class MetadataColumn(Node, parts="this kind key? virtual? comment?"):
    """``name TYPE METADATA [FROM 'key'] [VIRTUAL] [COMMENT '..']``."""


class ComputedColumn(Node, parts="this expression comment?"):
    """``name AS expression [COMMENT '..']``."""


class Watermark(Node, parts="expressions expression"):
    """``WATERMARK FOR column AS expression``; ``this`` is a list of identifiers (a path into a row)."""


class PrimaryKey(Node, parts="this? expressions? enforced?"):
    """``[CONSTRAINT name] PRIMARY KEY (columns) NOT ENFORCED``; without ``expressions`` when written at a
    column."""


class Distribution(Node, parts="kind? expressions? buckets?"):
    """``DISTRIBUTED [BY [HASH|RANGE] (columns)] [INTO n BUCKETS]``."""


class LikeTable(Node, parts="this expressions?"):
    """``LIKE t (INCLUDING ALL, ...)``; each of ``expressions`` is a var such as ``INCLUDING OPTIONS``."""


# statements


class Statement(Node):
    """Base of the statements that are not sqlglot's own."""


class CreateTable(
    Statement,
    parts="this columns? names? watermarks? keys? comment? distribution? "
    "partitioned_by? options? like? temporary? exists?",
):
    """``CREATE TABLE this (..) WITH (..)``."""


class CreateTableAs(Statement, parts="this expression replace?"):
    """``this`` (a :class:`CreateTable`, where ``names`` may say the order of the query's columns) with AS and the query
    ``expression``; ``replace`` is OR REPLACE, or REPLACE for a table that must be there."""


class CreateView(Statement, parts="this columns? expression comment? temporary? exists? replace?"):
    """``CREATE VIEW this ..``."""


class CreateCatalog(Statement, parts="this exists? comment? options?"):
    """``CREATE CATALOG this ..``."""


class CreateDatabase(Statement, parts="this exists? comment? options?"):
    """``CREATE DATABASE this ..``."""


class DropObject(Statement, parts="this kind temporary? exists? cascade?"):
    """``DROP [TEMPORARY] kind [IF EXISTS] this [RESTRICT | CASCADE]``."""


class FunctionStatement(Statement, parts="this action temporary? system? exists? expression? language? using?"):
    """``action [TEMPORARY [SYSTEM]] FUNCTION [IF [NOT] EXISTS] this [AS 'expression' [LANGUAGE language] [USING ..]]``;
    ``action`` is CREATE, ALTER or DROP, ``using`` the texts behind USING."""


class AlterTable(Statement, parts="this exists? action options? target? elements? column? names? part?"):
    """``action`` is SET (``options``), RESET (``options`` without values) or RENAME TO (``target``); ADD or MODIFY of
    ``elements`` (:class:`PlacedColumn`, :class:`Watermark`, :class:`PrimaryKey`); RENAME of ``column`` to ``target``;
    or DROP of ``names``, or of ``part``: WATERMARK, PRIMARY KEY or CONSTRAINT, which may have a ``target``."""


class PlacedColumn(Statement, parts="this first? after?"):
    """A column ``this``, with ``first``, or ``after`` another one, where its place is said."""


class AlterView(Statement, parts="this action target? expression?"):
    """``action`` is RENAME TO (``target``) or AS (``expression``)."""


class UseObject(Statement, parts="this kind"):
    """``USE [CATALOG] this``."""


class ModuleStatement(Statement, parts="action expressions options?"):
    """``LOAD MODULE name [WITH (..)]``, ``UNLOAD MODULE name`` or ``USE MODULES name, name``; ``action`` is the first
    word."""


class ShowObjects(Statement, parts="kind this? preposition? partition? like? operator? negated?"):
    """``SHOW kind [FROM|IN this] [PARTITION (..)] [[NOT] [I]LIKE 'pattern']``; ``kind`` as written, such as ``CREATE
    TABLE``."""


class DescribeTable(Statement, parts="this kind? extended?"):
    """``DESCRIBE this``; ``kind`` is EXTENDED, CATALOG or DATABASE where written."""


class DescribeJob(Statement, parts="this extended?"):
    """``DESCRIBE JOB [EXTENDED] this`` (plain text)."""


class StopJob(Statement, parts="this savepoint? drain?"):
    """``STOP JOB this [WITH SAVEPOINT] [WITH DRAIN]``; ``this`` is a plain text."""


class AlterJob(Statement, parts="this path options?"):
    """``ALTER JOB this USING PLAN path [WITH (..)]`` (plain texts). Flink has no way to do that."""


class AlterJobTtl(Statement, parts="this expressions"):
    """``ALTER JOB this SET ttl, ttl``; the parts are :class:`PlanTtl`. Flink has no way to do that."""


class EndShadow(Statement, parts="this plan"):
    """``ALTER JOB this COMMIT`` or ``ALTER JOB this ROLLBACK``; ``plan`` is the last word."""


class SetOption(Statement, parts="this? expression?"):
    """``SET 'key' = 'value'`` (plain texts), ``SET 'key'``, or SET alone."""


class ResetOption(Statement, parts="this?"):
    """``RESET 'key'`` (plain text), or RESET alone."""


class StatementSet(Statement, parts="expressions"):
    """``[EXECUTE] STATEMENT SET BEGIN insert; insert; END``."""


class BeginStatementSet(Statement):
    """``BEGIN STATEMENT SET``: the INSERTs that follow are run together, at ``END``."""


class EndStatementSet(Statement):
    """``END`` of a statement set that is open in the session."""


class RollbackStatementSet(Statement):
    """``ROLLBACK``: gives up a statement set that is open in the session. Flink has no way to do that."""


class ExecuteStatement(Statement, parts="this"):
    """``EXECUTE insert | query | STATEMENT SET ...``."""


class CompilePlan(Statement, parts="this path? exists? execute?"):
    """``COMPILE [AND EXECUTE] PLAN ['path'] [IF NOT EXISTS] FOR insert | STATEMENT SET ...``."""


class MigratePlan(Statement, parts="this path exists?"):
    """``COMPILE PLAN 'path' [IF NOT EXISTS] FROM 'path'`` (FLIP-190); ``this`` is the plan to read."""


class AlterPlan(Statement, parts="path expressions"):
    """``ALTER PLAN 'path' SET ttl, ttl``; the parts are :class:`PlanTtl`."""


class PlanTtl(Node, parts="this expressions"):
    """``TTL 'duration' FOR 'selector', 'selector'``, all of them plain texts."""


class ExecutePlan(Statement, parts="path"):
    """``EXECUTE PLAN 'path'``."""


class Explain(Statement, parts="this? path? details? plan_for?"):
    """``EXPLAIN [PLAN FOR | details] statement`` or ``EXPLAIN [details] PLAN 'path'``; ``details`` is a list
    of texts."""


CLASSES: tuple[type[exp.Expr], ...] = tuple(
    value
    for value in list(vars().values())
    if isinstance(value, type) and value.__module__ == __name__ and value not in (Node, Statement)
)
"""The classes above that stand for something a user writes."""
