"""The part of the parser that reads CREATE, DROP and ALTER."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from stateplan.common.errors import SqlError
from stateplan.planner.dialect import nodes
from stateplan.planner.dialect.base import alternatives, with_position
from stateplan.planner.dialect.errors import place_of_token
from stateplan.planner.dialect.queries import QueryParser

_CREATABLE = ("TABLE", "VIEW", "CATALOG", "DATABASE")
_LIKE_WHAT = ("ALL", "CONSTRAINTS", "DISTRIBUTION", "GENERATED", "METADATA", "OPTIONS", "PARTITIONS", "WATERMARKS")
_LIKE_HOW = ("INCLUDING", "EXCLUDING", "OVERWRITING")
# OVERWRITING does not go with what can only be there or not.
_NO_OVERWRITING = ("ALL", "CONSTRAINTS", "DISTRIBUTION", "PARTITIONS")
_LAID_OUT = {
    "PARTITION": "the partitions of a table are its folders: an INSERT makes them",
    "DISTRIBUTION": "no connector here divides a table into buckets",
}
"""Parts of a table that ALTER TABLE does not change, and why."""

# What Flink can create, drop or alter and stateplan cannot.
_NOT_HERE = ("MODEL", "MATERIALIZED TABLE", "CONNECTION")


class DdlParser(QueryParser):
    """The part of the parser that reads CREATE, DROP and ALTER."""

    def _if(self, *words: str) -> bool:
        """Whether IF NOT EXISTS, or IF EXISTS, is there."""
        if not self._is("IF"):
            return False
        self._expect("IF", *words)
        return True

    def _columns(self) -> list[exp.Identifier]:
        return self._parens(lambda: self._csv(lambda: self._name("a name of a column")))

    def _refuse_object(self, verb: str) -> None:
        for words in _NOT_HERE:
            if self._is(*words.split(" ")):
                raise SqlError(
                    "SQL004",
                    what=f"{verb} {words}",
                    place=place_of_token(self._curr, self.sql),
                    expected=", ".join(_CREATABLE),
                )

    @with_position
    def _create(self) -> exp.Expr:
        self._advance()
        replace = self._accept("OR", "REPLACE")
        temporary = self._accept("TEMPORARY")
        if self._create_function_ahead():
            return self._function_statement("CREATE", temporary)
        self._refuse_object("CREATE")
        if self._is("VIEW"):
            return self._create_view(temporary, replace)
        if self._is("TABLE"):
            return self._create_table(temporary, "OR REPLACE" if replace else None)
        if replace:
            raise self._unsupported("CREATE OR REPLACE", self._curr, "drop it first")
        if not temporary and self._is("CATALOG"):
            return self._create_container(nodes.CreateCatalog, 1)
        if not temporary and self._is("DATABASE"):
            return self._create_container(nodes.CreateDatabase, 2)
        expected = ("TABLE", "VIEW") if temporary else (*_CREATABLE, "TEMPORARY")
        raise self._unexpected(alternatives(expected), words=expected)

    def _create_container(self, kind: type[nodes.Statement], most: int) -> nodes.Statement:
        self._advance()
        exists = self._if("NOT", "EXISTS")
        name = self._path("a name", most)
        comment = self._comment()
        options = self._options() if self._is("WITH") else None
        return kind(this=name, exists=exists, comment=comment, options=options)

    def _comment(self) -> exp.Literal | None:
        return self._string("a text in single quotes") if self._accept("COMMENT") else None

    def _create_view(self, temporary: bool, replace: bool) -> nodes.CreateView:
        self._advance()
        exists = self._if("NOT", "EXISTS")
        name = self._path("a name of a view")
        columns = self._columns() if self._is("(") else None
        comment = self._comment()
        self._expect("AS")
        return nodes.CreateView(
            this=name,
            columns=columns,
            comment=comment,
            expression=self._query(),
            temporary=temporary,
            exists=exists,
            replace=replace,
        )

    # CREATE TABLE

    @with_position
    def _replace_table(self) -> exp.Expr:
        self._advance()
        if not self._is("TABLE"):
            raise self._unexpected("TABLE", words=("TABLE",))
        return self._create_table(False, "REPLACE")

    def _create_table(self, temporary: bool, replace: str | None) -> nodes.CreateTable | nodes.CreateTableAs:
        start = self._curr
        self._advance()
        if_token = self._curr
        exists = self._if("NOT", "EXISTS")
        parts: dict[str, Any] = {
            "this": self._path("a name of a table"),
            "temporary": temporary,
            "exists": exists,
        }
        if self._is("(") and self._name_ahead(1) and self._word_at(2) in (",", ")"):
            parts["names"] = self._columns()
        elif self._is("("):
            parts |= self._elements()
        parts["comment"] = self._comment()
        if self._is("DISTRIBUTED"):
            parts["distribution"] = self._distribution()
        if self._is("PARTITIONED"):
            self._expect("PARTITIONED", "BY")
            parts["partitioned_by"] = self._parens(
                lambda: [] if self._is(")") else self._csv(lambda: self._name("a name of a column"))
            )
        parts["options"] = self._options() if self._is("WITH") else None
        if self._is("LIKE"):
            parts["like"] = self._like()
        elif self._is("AS"):
            if temporary:
                raise self._unsupported("CREATE TEMPORARY TABLE ... AS", start, "leave TEMPORARY out, as in Flink")
            if exists and replace is not None:
                raise self._unsupported("IF NOT EXISTS with REPLACE", if_token, "leave one of them out")
            table = self._mark(nodes.CreateTable(**parts), start)
            self._advance()
            if not self._query_ahead():
                raise self._unexpected("a query", words=("SELECT", "VALUES", "WITH", "TABLE"))
            return nodes.CreateTableAs(this=table, expression=self._query(), replace=replace)
        elif (not self._at_end() and not self._is(";")) or replace == "REPLACE" or "names" in parts:
            only = replace == "REPLACE" or "names" in parts
            raise self._unexpected(
                "AS and a query" if only else "COMMENT, PARTITIONED BY, WITH, LIKE, AS or the end of the statement",
                words=("COMMENT", "PARTITIONED", "DISTRIBUTED", "WITH", "LIKE", "AS"),
            )
        if replace is not None:
            raise self._unsupported("CREATE OR REPLACE TABLE without AS", start, "drop the table first")
        return nodes.CreateTable(**parts)

    def _elements(self) -> dict[str, list[exp.Expr]]:
        elements: dict[str, list[exp.Expr]] = {"columns": [], "watermarks": [], "keys": []}
        self._expect("(")
        while True:
            self._element(elements)
            if not self._accept(","):
                break
        self._expect(")", expected=", or )")
        return elements

    def _element(self, elements: dict[str, list[exp.Expr]], has_position: bool = False) -> None:
        if self._is("WATERMARK", "FOR"):
            elements["watermarks"].append(self._watermark())
        elif self._is("PRIMARY", "KEY") or self._is("CONSTRAINT") or self._is("UNIQUE"):
            elements["keys"].append(self._table_key())
        else:
            elements["columns"].append(self._placed_column() if has_position else self._column())

    @with_position
    def _watermark(self) -> nodes.Watermark:
        self._advance(2)
        path = [self._name("a name of a column")]
        while self._accept("."):
            path.append(self._name("a name of a field"))
        self._expect("AS")
        return nodes.Watermark(expressions=path, expression=self._expression())

    def _table_key(self) -> nodes.PrimaryKey:
        start = self._curr
        name = self._name("a name of the constraint") if self._accept("CONSTRAINT") else None
        self._refuse_unique()
        self._expect("PRIMARY", "KEY")
        columns = self._columns()
        return self._mark(nodes.PrimaryKey(this=name, expressions=columns, enforced=self._enforced()), start)

    def _refuse_unique(self) -> None:
        if self._is("UNIQUE"):
            raise self._unsupported("UNIQUE", self._curr, "Flink, too, has only PRIMARY KEY ... NOT ENFORCED")

    def _enforced(self) -> bool:
        if self._accept("NOT", "ENFORCED"):
            return False
        if self._accept("ENFORCED") or self._is(",") or self._is(")") or self._is("COMMENT"):
            raise SqlError("SQL004", what="an enforced PRIMARY KEY", place=place_of_token(self._prev, self.sql))
        raise self._unexpected("NOT ENFORCED", words=("NOT", "ENFORCED"))

    @with_position
    def _column(self, has_position: bool = False) -> exp.Expr:
        words = ("WATERMARK", "PRIMARY", "CONSTRAINT")
        name = self._name("a name of a column, WATERMARK FOR, PRIMARY KEY or CONSTRAINT", words)
        if self._accept("AS"):
            expression = self._expression()
            return nodes.ComputedColumn(this=name, expression=expression, comment=self._comment())
        kind = self._flink_type()
        if self._accept("METADATA"):
            key = self._string("a key in single quotes") if self._accept("FROM") else None
            virtual = self._accept("VIRTUAL")
            return nodes.MetadataColumn(this=name, kind=kind, key=key, virtual=virtual, comment=self._comment())
        key_node = None
        if self._is("CONSTRAINT") or self._is("PRIMARY", "KEY") or self._is("UNIQUE"):
            key_start = self._curr
            constraint = self._name("a name of the constraint") if self._accept("CONSTRAINT") else None
            self._refuse_unique()
            self._expect("PRIMARY", "KEY")
            key_node = self._mark(nodes.PrimaryKey(this=constraint, enforced=self._enforced()), key_start)
        comment = self._comment()
        ends = self._at_end() or self._word_at(0) in (",", ")", ";", *(("FIRST", "AFTER") if has_position else ()))
        if not ends:
            raise self._unexpected(
                "FIRST, AFTER or the end of the column" if has_position else ", or ) after the column",
                words=("METADATA", "PRIMARY", "COMMENT", "NOT", "NULL", "AS", "CONSTRAINT"),
            )
        return nodes.PhysicalColumn(this=name, kind=kind, primary_key=key_node, comment=comment)

    @with_position
    def _distribution(self) -> nodes.Distribution:
        self._advance()
        kind, columns, buckets = None, None, None
        if self._accept("BY"):
            kind = self._accept_any(("HASH", "RANGE"))
            columns = self._columns()
        if self._accept("INTO"):
            buckets = self._integer("the number of buckets")
            self._expect("BUCKETS")
        if columns is None and buckets is None:
            raise self._unexpected("BY (columns) or INTO n BUCKETS", words=("BY", "INTO"))
        return nodes.Distribution(kind=kind, expressions=columns, buckets=buckets)

    def _options(self) -> list[nodes.Option]:
        self._expect("WITH")
        return self._parens(lambda: [] if self._is(")") else self._csv(self._option))

    @with_position
    def _option(self) -> nodes.Option:
        key = self._string("an option's key in single quotes")
        self._expect("=")
        return nodes.Option(this=key, expression=self._string("an option's value in single quotes"))

    @with_position
    def _like(self) -> nodes.LikeTable:
        self._advance()
        table = self._path("a name of a table")
        options = None
        if self._accept("("):
            options = []
            while not self._is(")"):
                options.append(self._like_option())
            self._expect(")")
        return nodes.LikeTable(this=table, expressions=options)

    @with_position
    def _like_option(self) -> exp.Var:
        strategy = self._either(_LIKE_HOW)
        token = self._curr
        feature = self._accept_any(_LIKE_WHAT)
        allowed_features = [w for w in _LIKE_WHAT if strategy != "OVERWRITING" or w not in _NO_OVERWRITING]
        if feature is None:
            raise self._unexpected(alternatives(allowed_features), words=allowed_features)
        if feature not in allowed_features:
            raise SqlError(
                "SQL001.conflict",
                other=feature,
                word="OVERWRITING",
                place=place_of_token(token, self.sql),
                expected=f"{', '.join(allowed_features)} after {strategy}",
            )
        return exp.Var(this=f"{strategy} {feature}")

    # functions

    def _create_function_ahead(self) -> bool:
        return self._is("FUNCTION") or self._is("SYSTEM", "FUNCTION")

    def _function_statement(self, action: str, temporary: bool) -> nodes.FunctionStatement:
        system = self._accept("SYSTEM")
        if system and not temporary:
            raise SqlError(
                "SQL001.wrong_word", action=action, shown="SYSTEM FUNCTION", place=place_of_token(self._curr, self.sql)
            )
        self._expect("FUNCTION")
        exists = self._if("NOT", "EXISTS") if action == "CREATE" else self._if("EXISTS")
        parts: dict[str, Any] = {
            "this": self._path("a name of a function", 1 if system else 3),
            "action": action,
            "temporary": temporary,
            "system": system,
            "exists": exists,
        }
        if action == "DROP":
            return nodes.FunctionStatement(**parts)
        self._expect("AS")
        parts["expression"] = self._string("'module.name' in single quotes")
        if self._accept("LANGUAGE"):
            parts["language"] = self._either(("JAVA", "SCALA", "SQL", "PYTHON"))
        if self._is("USING"):
            token = self._curr
            if parts.get("language") == "PYTHON":
                raise SqlError(
                    "SQL001.conflict", word="USING", other="LANGUAGE PYTHON", place=place_of_token(token, self.sql)
                )
            self._advance()
            parts["using"] = self._csv(self._resource)
        return nodes.FunctionStatement(**parts)

    def _resource(self) -> exp.Literal:
        if self._accept_any(("JAR", "FILE", "ARCHIVE")) is None:
            raise self._unexpected("JAR", words=("JAR", "FILE", "ARCHIVE"))
        return self._string("a path in single quotes")

    # DROP, ALTER

    @with_position
    def _drop(self) -> exp.Expr:
        self._advance()
        temporary = self._accept("TEMPORARY")
        if self._create_function_ahead():
            return self._function_statement("DROP", temporary)
        self._refuse_object("DROP")
        kinds = ("TABLE", "VIEW") if temporary else _CREATABLE
        kind = self._either(kinds)
        exists = self._if("EXISTS")
        most = {"CATALOG": 1, "DATABASE": 2}.get(kind, 3)
        name = self._path(f"a name of a {kind.lower()}", most)
        cascade = self._accept_any(("RESTRICT", "CASCADE")) if kind == "DATABASE" else None
        return nodes.DropObject(this=name, kind=kind, temporary=temporary, exists=exists, cascade=cascade)

    @with_position
    def _alter(self) -> exp.Expr:
        self._advance()
        temporary = self._accept("TEMPORARY")
        if self._create_function_ahead():
            return self._function_statement("ALTER", temporary)
        if temporary:
            raise self._unexpected("FUNCTION or SYSTEM FUNCTION", words=("FUNCTION", "SYSTEM"))
        self._refuse_object("ALTER")
        kind = self._accept_any(("TABLE", "VIEW"))
        if kind is None:
            if self._is("DATABASE") or self._is("CATALOG"):
                raise self._unsupported(f"ALTER {self._curr.text.upper()}", self._curr)
            raise self._unexpected(
                "TABLE, VIEW, FUNCTION, JOB or PLAN", words=("TABLE", "VIEW", "FUNCTION", "JOB", "PLAN")
            )
        exists = self._if("EXISTS") if kind == "TABLE" else False
        name = self._path(f"a name of a {kind.lower()}")
        actions = ("SET", "RESET", "RENAME TO") if kind == "TABLE" else ("RENAME TO", "AS")
        changes = ("ADD", "MODIFY", "DROP", "RENAME") if kind == "TABLE" else ()
        action = self._accept_any(actions)
        if action is None:
            if self._word_at(0) in changes:
                return nodes.AlterTable(this=name, exists=exists, **self._schema_change())
            raise self._unexpected(alternatives((*actions, *changes)), words=(*changes, "SET", "RESET", "AS"))
        target = self._path("a name") if action == "RENAME TO" else None
        if kind == "VIEW":
            query = self._query() if action == "AS" else None
            return nodes.AlterView(this=name, action=action, target=target, expression=query)
        options = None
        if action == "SET":
            options = self._parens(lambda: self._csv(self._option))
        elif action == "RESET":
            options = self._parens(lambda: self._csv(self._option_key))
        return nodes.AlterTable(this=name, exists=exists, action=action, options=options, target=target)

    def _schema_change(self) -> dict[str, Any]:
        """What follows ALTER TABLE name, where that changes columns, watermarks or keys."""
        token = self._curr
        action = self._either(("ADD", "MODIFY", "DROP", "RENAME"))
        before = 3 if self._is("IF", "NOT", "EXISTS") else 2 if self._is("IF", "EXISTS") else 0
        kind = self._word_at(before)
        if kind in _LAID_OUT:
            raise self._unsupported(f"ALTER TABLE ... {action} {kind}", token, _LAID_OUT[kind])
        if action == "RENAME":
            column = self._name("a name of a column, or TO", ("TO",))
            self._expect("TO")
            return {"action": action, "column": column, "target": self._name("a name of a column")}
        if action == "DROP":
            part = self._accept_any(("WATERMARK", "PRIMARY KEY", "CONSTRAINT"))
            if part is not None:
                target = self._name("a name of the constraint") if part == "CONSTRAINT" else None
                return {"action": action, "part": part, "target": target}
            names = self._columns() if self._is("(") else [self._name("a name of a column, or WATERMARK")]
            return {"action": action, "names": names}
        changes: dict[str, Any] = {"columns": [], "watermarks": [], "keys": []}
        if self._is("("):
            self._parens(lambda: self._csv(lambda: self._element(changes, has_position=True)))
        else:
            self._element(changes, has_position=True)
        return {"action": action, "elements": [*changes["columns"], *changes["watermarks"], *changes["keys"]]}

    @with_position
    def _placed_column(self) -> nodes.PlacedColumn:
        column = self._column(has_position=True)
        first = self._accept("FIRST")
        after = self._name("a name of a column") if not first and self._accept("AFTER") else None
        return nodes.PlacedColumn(this=column, first=first, after=after)

    @with_position
    def _option_key(self) -> nodes.Option:
        return nodes.Option(this=self._string("an option's key in single quotes"))
