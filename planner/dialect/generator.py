"""Syntax trees back to text: one row of a table for each class of node that sqlglot writes differently."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generator import Generator

from stateplan.planner.dialect import nodes
from stateplan.planner.dialect.calls import NO_PARENTHESES, NULL_TREATMENT, PATH
from stateplan.planner.dialect.keywords import RESERVED

# Calls that are written with words between their arguments.
_SPECIAL: dict[str, tuple[str, ...]] = {
    "EXTRACT": ("{0} FROM {1}",),
    "TRIM": ("{0}", "{0} FROM {1}", "{0} {1} FROM {2}"),
    "POSITION": ("{0} IN {1}", "{0} IN {1} FROM {2}"),
    "OVERLAY": ("{0} PLACING {1} FROM {2}", "{0} PLACING {1} FROM {2} FOR {3}"),
}
_ROUNDING = ("CEIL", "CEILING", "FLOOR")


_FORMS: dict[type[exp.Expr], str] = {
    exp.Interval: "INTERVAL {this} {unit}",
    exp.Is: "{this} IS {expression}",
    exp.Kwarg: "{this} => {expression}",
    exp.JSONKeyValue: "KEY {this} VALUE {expression}",
    exp.Any: "ANY {this}",
    exp.All: "ALL {this}",
    exp.Version: "FOR SYSTEM_TIME AS OF {expression}",
    exp.Lateral: "LATERAL {this} {alias:AS}",
    exp.Partition: "PARTITION {expressions*}",
    exp.OnConflict: "ON CONFLICT DO {action}",
    exp.Between: "{this} BETWEEN {symmetric?SYMMETRIC} {low} AND {high}",
    exp.Bracket: "{this}[{expressions,}]",
    exp.Exists: "EXISTS({this})",
    exp.HexString: "X'{this}'",
    exp.TableFromRows: "TABLE({this}) {alias:AS}",
    exp.Unnest: "UNNEST{expressions*} {offset?WITH ORDINALITY} {alias:AS}",
    nodes.TypedLiteral: "{kind} {this}",
    nodes.MatchSkip: "AFTER MATCH SKIP {kind} {this}",
    nodes.MatchModifier: "{kind} {this}",
    nodes.MatchVariable: "{this} {expressions*:=} {expression:AS}",
    nodes.PatternSequence: "{expressions+}",
    nodes.PatternRepeat: "{text}",
    nodes.JsonReturning: "RETURNING {this}",
    nodes.Difference: "{this} {unit}",
    nodes.JsonDefault: "DEFAULT {this} ON {event}",
    nodes.Option: "{this} {expression:=}",
    nodes.Watermark: "WATERMARK FOR {expressions.} AS {expression}",
    nodes.PrimaryKey: "{this:CONSTRAINT} PRIMARY KEY {expressions*} NOT ENFORCED",
    nodes.Distribution: "DISTRIBUTED {expressions?BY} {kind} {expressions*} {buckets:INTO} {buckets?BUCKETS}",
    nodes.LikeTable: "LIKE {this} ({expressions+})",
    nodes.PhysicalColumn: "{this} {kind} {primary_key} {comment:COMMENT}",
    nodes.MetadataColumn: "{this} {kind} METADATA {key:FROM} {virtual?VIRTUAL} {comment:COMMENT}",
    nodes.ComputedColumn: "{this} AS {expression} {comment:COMMENT}",
    nodes.CreateView: "CREATE {replace?OR REPLACE} {temporary?TEMPORARY} VIEW {exists?IF NOT EXISTS} {this} "
    "{columns*} {comment:COMMENT} AS {expression}",
    nodes.CreateCatalog: "CREATE CATALOG {exists?IF NOT EXISTS} {this} {comment:COMMENT} {options*:WITH}",
    nodes.CreateDatabase: "CREATE DATABASE {exists?IF NOT EXISTS} {this} {comment:COMMENT} {options*:WITH}",
    nodes.DropObject: "DROP {temporary?TEMPORARY} {kind} {exists?IF EXISTS} {this} {cascade}",
    nodes.AlterTable: "ALTER TABLE {exists?IF EXISTS} {this} {action} {options*} {part} {names*} {elements*} "
    "{column} {column?TO} {target}",
    nodes.PlacedColumn: "{this} {first?FIRST} {after:AFTER}",
    nodes.AlterView: "ALTER VIEW {this} {action} {target} {expression}",
    nodes.ShowObjects: "SHOW {kind} {preposition} {this} {partition} {negated?NOT} {operator} {like}",
    nodes.DescribeTable: "DESCRIBE {kind} {extended?EXTENDED} {this}",
    nodes.DescribeJob: "DESCRIBE JOB {extended?EXTENDED} {this}",
    nodes.StopJob: "STOP JOB {this} {savepoint?WITH SAVEPOINT} {drain?WITH DRAIN}",
    nodes.AlterJob: "ALTER JOB {this} USING PLAN {path} {options*:WITH}",
    nodes.AlterJobTtl: "ALTER JOB {this} SET {expressions,}",
    nodes.EndShadow: "ALTER JOB {this} {plan}",
    nodes.SetOption: "SET {this} {expression:=}",
    nodes.ResetOption: "RESET {this}",
    nodes.Explain: "EXPLAIN {plan_for?PLAN FOR} {details,} {path:PLAN} {this}",
    nodes.BeginStatementSet: "BEGIN STATEMENT SET",
    nodes.EndStatementSet: "END",
    nodes.RollbackStatementSet: "ROLLBACK",
    nodes.ExecuteStatement: "EXECUTE {this}",
    nodes.CompilePlan: "COMPILE {execute?AND EXECUTE} PLAN {path} {exists?IF NOT EXISTS} FOR {this}",
    nodes.MigratePlan: "COMPILE PLAN {path} {exists?IF NOT EXISTS} FROM {this}",
    nodes.ExecutePlan: "EXECUTE PLAN {path}",
    nodes.AlterPlan: "ALTER PLAN {path} SET {expressions,}",
    nodes.PlanTtl: "TTL {this} FOR {expressions,}",
}
"""How nodes are written whose parts follow each other. ``{key}`` is a part, where it is there; ``{key:WORDS}`` has
words in front of it, ``{key*}`` is a list in parentheses, ``{key,}``, ``{key+}`` and ``{key.}`` are lists without them,
with commas, blanks or points between, and ``{key?WORDS}`` are words where a flag is set. What is written next to a part
without a blank is there if the part is."""

_WORD = re.compile(r"(?:\{[^}]*\}|\S)+")
_PART = re.compile(r"\{(\w+)([*,+.])?(?:([?:])([^}]*))?\}")
_BETWEEN = {"*": ", ", ",": ", ", "+": " ", ".": "."}


def _is_clause(argument: exp.Expr) -> bool:
    """Whether an argument of a JSON function is one of its clauses."""
    if isinstance(argument, exp.Var):
        return " " in argument.name
    return isinstance(argument, (nodes.JsonReturning, nodes.JsonDefault))


class FlinkGenerator(Generator):
    """Flink SQL from trees, on one line; names keep their quotes, and get them where they are reserved."""

    RESERVED_KEYWORDS: ClassVar[set[str]] = {word.lower() for word in RESERVED}

    def _words(self, *parts: Any) -> str:
        """The parts that are there, with blanks between."""
        return " ".join(p if isinstance(p, str) else self.sql(p) for p in parts if p)

    def _formed(self, expression: exp.Expr) -> str:
        """What :data:`_FORMS` says."""
        words = []
        for word in _WORD.findall(_FORMS[type(expression)]):
            texts = [self._part(expression, *match.groups()) for match in _PART.finditer(word)]
            if not texts or any(text is not None for text in texts):
                pieces = iter(texts)
                words.append(_PART.sub(lambda _, pieces=pieces: next(pieces) or "", word))  # type: ignore[misc]
        return " ".join(filter(None, words))

    def _part(self, expression: exp.Expr, key: str, separator: str | None, mark: str | None, words: str) -> str | None:
        value: Any = expression.args.get(key)
        if value is None or (not value and not separator):
            return None
        if mark == "?":
            return words if value else None
        if separator:
            text = _BETWEEN[separator].join(self.sql(item) for item in value)
            text = f"({text})" if separator == "*" else text
        else:
            text = self.sql(value) if isinstance(value, exp.Expr) else str(value)
        return f"{words} {text}" if words else text

    def _list(self, items: list[Any] | None) -> str:
        return "(" + ", ".join(self.sql(i) for i in items or ()) + ")"

    # expressions

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        name = self.sql(expression, "this") if isinstance(expression.this, exp.Expr) else str(expression.this)
        name = ".".join(self.sql(part) for part in expression.args.get(PATH) or ()) or name
        word = name.upper()
        arguments = [self.sql(a) for a in expression.expressions]
        if expression.meta.get("brackets"):
            return f"{name}[{', '.join(arguments)}]"
        if not arguments and word in NO_PARENTHESES:
            return name
        if word in _ROUNDING and len(arguments) == 2 and isinstance(expression.expressions[1], exp.Var):
            return f"{name}({arguments[0]} TO {arguments[1]})"
        form = next((f for f in _SPECIAL.get(word, ()) if f.count("{") == len(arguments)), None)
        if form:
            return f"{name}({form.format(*arguments)})"
        if word.startswith("JSON_"):
            first = next((i for i, a in enumerate(expression.expressions) if _is_clause(a)), len(arguments))
            plain, clauses = arguments[:first], arguments[first:]
            return f"{name}({' '.join(p for p in (', '.join(plain), *clauses) if p)})"
        treatment = expression.args.get(NULL_TREATMENT)
        return f"{name}({', '.join(arguments)}{f' {treatment} NULLS' if treatment else ''})"

    def datatype_sql(self, expression: exp.DataType) -> str:
        kind = expression.args.get("kind")
        return str(kind) if kind else super().datatype_sql(expression)

    def ordered_sql(self, expression: exp.Ordered) -> str:
        descending = bool(expression.args.get("desc"))
        nulls_first = bool(expression.args.get("nulls_first"))
        clause = expression.parent
        small_nulls = clause is None or not isinstance(clause.parent, nodes.TableArgument)
        nulls = "" if nulls_first == (descending != small_nulls) else f" NULLS {'FIRST' if nulls_first else 'LAST'}"
        return f"{self.sql(expression, 'this')}{' DESC' if descending else ''}{nulls}"

    def not_sql(self, expression: exp.Not) -> str:
        inner = expression.this
        if isinstance(inner, exp.Is) and not nodes.is_json(inner):
            return f"{self.sql(inner, 'this')} IS NOT {self.sql(inner, 'expression')}"
        if isinstance(inner, (exp.In, exp.Between, exp.Like, exp.SimilarTo)):
            left = self.sql(inner, "this")
            return f"{left} NOT{self.sql(inner)[len(left) :]}"
        if isinstance(inner, exp.Escape) and isinstance(inner.this, (exp.Like, exp.SimilarTo)):
            left = self.sql(inner.this, "this")
            return f"{left} NOT{self.sql(inner)[len(left) :]}"
        return f"NOT {self.sql(inner)}"

    def neg_sql(self, expression: exp.Neg) -> str:
        inner = expression.this
        if isinstance(inner, exp.Interval):
            return f"INTERVAL -{self.sql(inner)[len('INTERVAL ') :]}"
        text = self.sql(inner)
        return f"- {text}" if text.startswith("-") else f"-{text}"

    def div_sql(self, expression: exp.Div) -> str:
        return self.binary(expression, "/")

    def dpipe_sql(self, expression: exp.DPipe) -> str:
        return self.binary(expression, "||")

    def tableargument_sql(self, expression: nodes.TableArgument) -> str:
        partition, order = expression.args.get("partition_by"), expression.args.get("order")
        return self._words(
            "TABLE",
            expression.this,
            "PARTITION BY " + self._list(partition) if partition else "",
            "ORDER BY " + self._list(order.expressions) if order is not None else "",
        )

    # queries

    def matchrecognize_sql(self, expression: exp.Expr) -> str:
        e, args = expression, expression.args
        clauses = self._words(
            f"PARTITION BY {self._list(args['partition_by'])[1:-1]}" if args.get("partition_by") else "",
            self.sql(e, "order").strip(),
            f"MEASURES {self._list(args['measures'])[1:-1]}",
            f"{args['rows'].name} ROW PER MATCH" if args.get("rows") else "",
            args.get("after"),
            f"PATTERN ({self.sql(e, 'pattern')})",
            f"WITHIN {self.sql(e, 'within')}" if args.get("within") else "",
            f"SUBSET {self._list(args['subsets'])[1:-1]}" if args.get("subsets") else "",
            f"DEFINE {self._list(args['defines'])[1:-1]}",
        )
        return self._words(e.this, f"MATCH_RECOGNIZE ({clauses})", self._alias(e))

    def values_sql(self, expression: exp.Values, values_as_table: bool = True) -> str:
        rows = ", ".join(self.sql(row) for row in expression.expressions)
        return f"VALUES {rows}" + "".join(self.sql(expression, key) for key in ("order", "limit", "offset"))

    def _alias(self, expression: exp.Expr) -> str:
        alias = expression.args.get("alias")
        return f"AS {self.sql(alias)}" if alias else ""

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        name = ".".join(self.sql(p) for p in expression.parts)
        return self._words(
            name,
            *(expression.args.get("hints") or ()),
            expression.args.get("version"),
            self._alias(expression),
        )

    def group_sql(self, expression: exp.Group) -> str:
        keys = ("expressions", "grouping_sets", "cube", "rollup")
        return " GROUP BY " + ", ".join(self.sql(item) for key in keys for item in expression.args.get(key) or ())

    def hint_sql(self, expression: exp.Hint, *_: Any) -> str:
        text = "/*+ " + ", ".join(self.sql(i) for i in expression.expressions) + " */"
        return f" {text}" if isinstance(expression.parent, exp.Select) else text

    def join_sql(self, expression: exp.Join, join_op: str | None = None) -> str:
        words = [expression.args.get(k) for k in ("method", "side", "kind")]
        on, using = expression.args.get("on"), expression.args.get("using")
        if not any(words) and on is None and not using:
            # A plain JOIN without a condition is the same cross product as a comma.
            return f", {self.sql(expression, 'this')}"
        return " " + self._words(
            *words,
            "JOIN",
            expression.this,
            f"ON {self.sql(on)}" if on is not None else "",
            f"USING {self._list(using)}" if using else "",
        )

    def joinedtables_sql(self, e: nodes.JoinedTables) -> str:
        return f"({self.sql(e, 'this')}{''.join(self.sql(j) for j in e.args['joins'])})"

    def insert_sql(self, expression: exp.Insert) -> str:
        target = expression.this
        columns = target.expressions if isinstance(target, exp.Schema) else None
        table = target.this if isinstance(target, exp.Schema) else target
        return self._words(
            "INSERT OVERWRITE" if expression.args.get("overwrite") else "INSERT INTO",
            table,
            expression.args.get("partition"),
            self._list(columns) if columns else "",
            expression.expression,
            expression.args.get("conflict"),
        )

    # DDL

    def _comment(self, e: exp.Expr) -> str:
        comment = e.args.get("comment")
        return f"COMMENT {self.sql(comment)}" if comment else ""

    def _with(self, e: exp.Expr) -> str:
        options = e.args.get("options")
        return f"WITH {self._list(options)}" if options is not None else ""

    def createtableas_sql(self, e: nodes.CreateTableAs) -> str:
        table, replace = self.sql(e.this), e.args.get("replace")
        if replace is not None:
            table = table.replace("CREATE", "CREATE OR REPLACE" if replace == "OR REPLACE" else "REPLACE", 1)
        return self._words(table, "AS", e.expression)

    def createtable_sql(self, e: nodes.CreateTable) -> str:
        elements = [
            *(e.args.get("columns") or ()),
            *(e.args.get("watermarks") or ()),
            *(e.args.get("keys") or ()),
        ]
        partitioned, names = e.args.get("partitioned_by"), e.args.get("names")
        return self._words(
            "CREATE TEMPORARY TABLE" if e.args.get("temporary") else "CREATE TABLE",
            "IF NOT EXISTS" if e.args.get("exists") else "",
            e.this,
            self._list(elements) if elements or e.args.get("columns") is not None else "",
            self._list(names) if names else "",
            self._comment(e),
            e.args.get("distribution"),
            f"PARTITIONED BY {self._list(partitioned)}" if partitioned is not None else "",
            self._with(e),
            e.args.get("like"),
        )

    def functionstatement_sql(self, e: nodes.FunctionStatement) -> str:
        scope = [e.args["action"], *(w.upper() for w in ("temporary", "system") if e.args.get(w))]
        exists = "IF NOT EXISTS" if e.args["action"] == "CREATE" else "IF EXISTS"
        language = e.args.get("language")
        using = e.args.get("using")
        return self._words(
            *scope,
            "FUNCTION",
            exists if e.args.get("exists") else "",
            e.this,
            "AS" if e.args.get("expression") else "",
            e.args.get("expression"),
            f"LANGUAGE {language}" if language else "",
            "USING " + ", ".join(f"JAR {self.sql(u)}" for u in using) if using else "",
        )

    # session

    def modulestatement_sql(self, e: nodes.ModuleStatement) -> str:
        action = e.args["action"]
        kind = "MODULES" if action == "USE" else "MODULE"
        return self._words(action, kind, self._list(e.expressions)[1:-1], self._with(e))

    def useobject_sql(self, e: nodes.UseObject) -> str:
        return self._words("USE", "CATALOG" if e.args["kind"] == "CATALOG" else "", e.this)

    def statementset_sql(self, e: nodes.StatementSet) -> str:
        return self._words("STATEMENT SET BEGIN", *(self.sql(i) + ";" for i in e.expressions), "END")


_Writer = Callable[[FlinkGenerator, Any], str]

#: One writer for each other class of nodes.py, found by name (``CreateTable`` is written by ``createtable_sql``).
_OURS: dict[type[exp.Expr], _Writer] = {
    node_class: getattr(FlinkGenerator, f"{node_class.__name__.lower()}_sql")
    for node_class in nodes.CLASSES
    if node_class not in _FORMS
}
FlinkGenerator.TRANSFORMS = {**Generator.TRANSFORMS, **_OURS, **dict.fromkeys(_FORMS, FlinkGenerator._formed)}  # noqa: SLF001
