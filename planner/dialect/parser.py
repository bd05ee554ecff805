"""The parser: scripts into statements, each by its first words, and the statements around queries and DDL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from stateplan.common.errors import SqlError, nearest, one_of
from stateplan.planner.dialect import nodes
from stateplan.planner.dialect.base import with_position
from stateplan.planner.dialect.ddl import DdlParser
from stateplan.planner.dialect.errors import place_of_token, token_text, too_deep

T = TypeVar("T")

_SHOW = (
    "CATALOGS",
    "CURRENT CATALOG",
    "DATABASES",
    "CURRENT DATABASE",
    "TABLES",
    "VIEWS",
    "FUNCTIONS",
    "PROCEDURES",
    "MODELS",
    "MODULES",
    "FULL MODULES",
    "JARS",
    "COLUMNS",
    "PARTITIONS",
    "JOBS",
    "CREATE TABLE",
    "CREATE VIEW",
    "CREATE CATALOG",
    "OPTIONS",
)
_SHOW_NOT_HERE = (
    "MATERIALIZED TABLES",
    "CONNECTIONS",
    "CREATE MODEL",
    "CREATE MATERIALIZED TABLE",
    "CREATE CONNECTION",
)
_SHOW_NAMED = {
    "COLUMNS": "a name of a table",
    "PARTITIONS": "a name of a table",
    "CREATE TABLE": "a name of a table",
    "CREATE VIEW": "a name of a view",
    "CREATE CATALOG": "a name of a catalog",
}
_SHOW_LIKE = ("CATALOGS", "DATABASES", "TABLES", "VIEWS", "FUNCTIONS", "PROCEDURES", "MODELS", "COLUMNS", "OPTIONS")
_SHOW_IN = ("TABLES", "VIEWS", "DATABASES", "FUNCTIONS", "PROCEDURES", "MODELS")
_FOR_OR_PATH = "FOR or the plan's path in single quotes"

_DETAILS = ("ESTIMATED_COST", "CHANGELOG_MODE", "PLAN_ADVICE", "JSON_EXECUTION_PLAN")

_NO_JARS = "functions are Python (CREATE FUNCTION f AS 'module.f' LANGUAGE PYTHON), and so are connectors"

_INSERT = "INSERT INTO a table with a primary key replaces the row of a key"
_ELSEWHERE = "a job deletes rows that its query has no more; others are deleted where they are kept, as in the database"

# Statements of Flink (or its SQL client) and of other databases that stateplan does not have, with what to do instead.
_NOT_HERE: dict[str, tuple[str, str | None]] = {
    "DELETE": ("DELETE", _ELSEWHERE),
    "UPDATE": ("UPDATE", _INSERT),
    "MERGE": ("MERGE", _INSERT),
    "TRUNCATE": ("TRUNCATE TABLE", _ELSEWHERE),
    "UPSERT": ("UPSERT INTO", _INSERT),
    "CALL": ("CALL", "there are no procedures"),
    "ANALYZE": ("ANALYZE TABLE", None),
    "FROM": ("FROM without SELECT", "write SELECT * FROM"),
    "SUMMARIZE": ("SUMMARIZE", "DESCRIBE lists columns, and SELECT COUNT(x), MIN(x), MAX(x) FROM t looks at values"),
    "ADD": ("ADD JAR", _NO_JARS),
    "REMOVE": ("REMOVE JAR", _NO_JARS),
    "GRANT": ("GRANT", None),
    "REVOKE": ("REVOKE", None),
}


_OF_JSON = "this is JSON, perhaps a plan: EXECUTE PLAN 'path' runs one, and 'plan rebase' takes it with --theirs"
"""The hint where a plan is in the place of SQL."""


class FlinkParser(DdlParser):
    """Parser of Flink SQL. One instance parses one text at a time."""

    # entry points

    def script(self, tokens: Sequence[Token], text: str, file: str | None = None) -> list[exp.Expr]:
        """The statements of a script. Raises SqlError."""
        return self._run(tokens, text, file, FlinkParser._script)

    def one(self, tokens: Sequence[Token], text: str, read: Callable[[FlinkParser], T], file: str | None = None) -> T:
        """What ``read`` reads, which must be all there is. Raises SqlError."""

        def parse_all(parser: FlinkParser) -> T:
            result = read(parser)
            if not parser._at_end():
                raise parser._unexpected("the end")
            return result

        return self._run(tokens, text, file, parse_all)

    def query(self) -> exp.Expr:
        return self._query()

    def scalar(self) -> exp.Expr:
        return self._expression()

    def path(self) -> exp.Table:
        return self._path()

    def _run(self, tokens: Sequence[Token], text: str, file: str | None, read: Callable[[FlinkParser], T]) -> T:
        self.reset()
        self.depth = 0
        self.sql = text
        self._tokens = list(tokens)
        self._tokens_size = len(self._tokens)
        self._index = -1
        self._advance()
        try:
            return read(self)
        except RecursionError:
            raise too_deep() from None
        except SqlError as error:
            if file is not None and error.place is not None and error.place.file is None:
                error.place = replace(error.place, file=file)
            raise

    def _parse(
        self, parse_method: Callable[[Any], exp.Expr | None], raw_tokens: list[Token], sql: str | None = None
    ) -> list[exp.Expr | None]:
        """sqlglot's entry point (``sqlglot.parse``, ``parse_one``): any text that this dialect's
        tokenizer read."""
        if parse_method.__name__ == "_parse_statement":
            return list(self.script(raw_tokens, sql or ""))
        return [self.one(raw_tokens, sql or "", FlinkParser.scalar)]

    def _parse_statement(self) -> exp.Expr:
        return self._statement()

    # statements

    def _script(self) -> list[exp.Expr]:
        statements: list[exp.Expr] = []
        while True:
            while self._accept(";"):
                pass
            if self._at_end():
                return statements
            statements.append(self._statement())
            if not self._at_end() and not self._is(";"):
                raise self._unexpected("; or the end of the statement")

    def _statement(self) -> exp.Expr:
        token, word = self._curr, self._word_at(0)
        reader = self._STATEMENTS.get(word)
        if reader is not None:
            return reader(self)
        if word in _NOT_HERE:
            problem, hint = _NOT_HERE[word]
            raise self._unsupported(problem, token, hint)
        raise SqlError(
            "SQL002",
            shown=token_text(token, self.sql),
            place=place_of_token(token, self.sql),
            expected=", ".join(sorted(w for w in self._STATEMENTS if w.isalpha())),
            hint=_OF_JSON
            if token is not None and token.text == "{"
            else nearest(word, self._STATEMENTS)
            if word
            else None,
        )

    @with_position
    def _use(self) -> nodes.UseObject | nodes.ModuleStatement:
        self._advance()
        if self._accept("MODULES"):
            return nodes.ModuleStatement(action="USE", expressions=self._csv(lambda: self._name("a name of a module")))
        kind = "CATALOG" if self._accept("CATALOG") else "DATABASE"
        most = 1 if kind == "CATALOG" else 2
        return nodes.UseObject(this=self._path(f"a name of a {kind.lower()}", most), kind=kind)

    @with_position
    def _module(self) -> nodes.ModuleStatement:
        """LOAD MODULE m [WITH (..)] and UNLOAD MODULE m."""
        action = self._word_at(0)
        self._advance()
        self._expect("MODULE")
        names = [self._name("a name of a module")]
        options = self._options() if action == "LOAD" and self._is("WITH") else None
        return nodes.ModuleStatement(action=action, expressions=names, options=options)

    @with_position
    def _show(self) -> nodes.ShowObjects:
        self._advance()
        scope = self._accept_any(("USER", "TEMPORARY")) if self._word_at(1) in ("FUNCTIONS", "TABLES") else None
        kind = self._accept_any(_SHOW)
        if kind is None and (other := self._accept_any(_SHOW_NOT_HERE)):
            raise self._unsupported(f"SHOW {other}")
        if kind is None and (first := self._accept_any(("CURRENT", "CREATE", "FULL"))):
            rest = [k.partition(" ")[2] for k in _SHOW if k.startswith(f"{first} ")]
            raise self._unexpected(" or ".join(rest), words=rest)
        if kind is None or scope == "TEMPORARY":
            raise self._unexpected("one of " + ", ".join(_SHOW), words={w for k in _SHOW for w in (k, *k.split())})
        parts: dict[str, Any] = {"kind": f"{scope} {kind}" if scope else kind}
        if kind in _SHOW_NAMED:
            if kind == "COLUMNS":
                parts["preposition"] = self._preposition(is_required=True)
            parts["this"] = self._path(_SHOW_NAMED[kind], 1 if kind == "CREATE CATALOG" else 3)
            if kind == "PARTITIONS" and self._is("PARTITION"):
                parts["partition"] = self._partition()
        elif kind in _SHOW_IN and (word := self._preposition()):
            parts["preposition"] = word
            parts["this"] = self._path("a name of a database", 1 if kind == "DATABASES" else 2)
        if kind in _SHOW_LIKE:
            negated = self._is("NOT")
            if negated:
                self._advance()
            operator = self._accept_any(("LIKE", "ILIKE"))
            if operator is None and negated:
                raise self._unexpected("LIKE or ILIKE", words=("LIKE", "ILIKE"))
            if operator is not None:
                parts |= {
                    "negated": negated,
                    "operator": operator,
                    "like": self._string("a pattern in single quotes"),
                }
        return nodes.ShowObjects(**parts)

    def _preposition(self, is_required: bool = False) -> str | None:
        word = self._accept_any(("FROM", "IN"))
        if word is None and is_required:
            raise self._unexpected("FROM or IN", words=("FROM", "IN"))
        return word

    @with_position
    def _stop_job(self) -> nodes.StopJob:
        self._advance()
        self._expect("JOB")
        job = self._string("the job's id in single quotes")
        savepoint = self._accept("WITH", "SAVEPOINT")
        if self._is("WITH", "DRAIN") and not savepoint:
            raise SqlError(
                "SQL007", word="WITH DRAIN", where="without WITH SAVEPOINT", place=place_of_token(self._curr, self.sql)
            )
        return nodes.StopJob(this=job, savepoint=savepoint, drain=self._accept("WITH", "DRAIN"))

    @with_position
    def _alter_job(self) -> nodes.AlterJob | nodes.AlterJobTtl | nodes.EndShadow:
        self._expect("ALTER", "JOB")
        job = self._string("the job's id in single quotes")
        plan = self._accept_any(("COMMIT", "ROLLBACK"))
        if plan is not None:
            return nodes.EndShadow(this=job, plan=plan)
        if self._accept("SET"):
            return nodes.AlterJobTtl(this=job, expressions=self._ttls())
        if not self._is("USING"):
            words = ("USING", "SET", "COMMIT", "ROLLBACK")
            raise self._unexpected("USING PLAN, SET TTL, COMMIT or ROLLBACK", words=words)
        self._expect("USING", "PLAN")
        path = self._string("the plan's path in single quotes")
        return nodes.AlterJob(this=job, path=path, options=self._options() if self._is("WITH") else None)

    @with_position
    def _describe(self) -> nodes.DescribeTable | nodes.DescribeJob:
        self._advance()
        if self._word_at(0) == "JOB" and (after := self._ahead(1)) and after.token_type == TokenType.STRING:
            self._advance()
            return nodes.DescribeJob(this=self._string("the job's id in single quotes"))
        if self._word_at(0) == "JOB" and self._word_at(1) == "EXTENDED" and not self._name_ahead(2):
            self._expect("JOB", "EXTENDED")
            return nodes.DescribeJob(this=self._string("the job's id in single quotes"), extended=True)
        ahead = self._name_ahead(1) or self._word_at(1) == "EXTENDED"
        kind = self._accept_any(("CATALOG", "DATABASE", "FUNCTION", "MODEL")) if ahead else None
        if kind == "MODEL":
            raise self._unsupported(f"DESCRIBE {kind}")
        extended = self._accept("EXTENDED")
        most = {"CATALOG": 1, "DATABASE": 2}.get(kind or "", 3)
        name_kind = f"a name of a {(kind or 'table or view').lower()}"
        return nodes.DescribeTable(this=self._path(name_kind, most), kind=kind, extended=extended)

    # SET, RESET: the key may be written without quotes, and the value too when it has no blanks

    @with_position
    def _set(self) -> nodes.SetOption:
        self._advance()
        if self._at_end() or self._is(";"):
            return nodes.SetOption()
        key = self._bare_text("an option's key", stop="=")
        if self._at_end() or self._is(";"):
            return nodes.SetOption(this=key)
        self._expect("=")
        value = self._bare_text("an option's value", stop=None)
        return nodes.SetOption(this=key, expression=value)

    @with_position
    def _reset(self) -> nodes.ResetOption:
        self._advance()
        if self._at_end() or self._is(";"):
            return nodes.ResetOption()
        return nodes.ResetOption(this=self._bare_text("an option's key", stop=None))

    def _bare_text(self, expected: str, stop: str | None) -> exp.Literal:
        """A text literal, or the characters up to a blank, ``;`` or ``stop``."""
        token = self._curr
        if self._at_end() or self._is(";") or (stop is not None and self._is(stop)):
            raise self._unexpected(expected)
        if token.token_type == TokenType.STRING:
            return self._string(expected)
        end = token
        self._advance()
        while (
            not self._at_end()
            and self._curr.start == end.end + 1
            and not self._is(";")
            and not (stop is not None and self._is(stop))
        ):
            end = self._curr
            self._advance()
        text = self.sql[token.start : end.end + 1]
        if "'" in text or "`" in text:
            raise self._unexpected(f"{expected} in single quotes", token=token)
        return self._mark(exp.Literal(this=text, is_string=True), token)

    # statement sets, plans, EXPLAIN

    @with_position
    def _execute(self) -> exp.Expr:
        self._advance()
        if self._accept("PLAN"):
            return nodes.ExecutePlan(path=self._string("the plan's path in single quotes"))
        if self._is("STATEMENT"):
            return nodes.ExecuteStatement(this=self._statement_set())
        if self._is("INSERT"):
            return nodes.ExecuteStatement(this=self._insert())
        if self._query_ahead():
            return nodes.ExecuteStatement(this=self._query())
        raise self._unexpected(
            "PLAN 'path', STATEMENT SET, INSERT or a query", words=("PLAN", "STATEMENT", "INSERT", "SELECT")
        )

    @with_position
    def _begin_statement_set(self) -> nodes.BeginStatementSet:
        self._advance()
        self._expect("STATEMENT", "SET")
        return nodes.BeginStatementSet()

    @with_position
    def _end_statement_set(self) -> nodes.EndStatementSet:
        self._advance()
        return nodes.EndStatementSet()

    @with_position
    def _rollback(self) -> nodes.RollbackStatementSet:
        self._advance()
        return nodes.RollbackStatementSet()

    @with_position
    def _statement_set(self) -> nodes.StatementSet:
        self._expect("STATEMENT", "SET")
        self._expect("BEGIN")
        inserts: list[exp.Expr] = []
        while not self._is("END"):
            if not self._is("INSERT"):
                if not self._at_end() and (self._query_ahead() or self._word_at(0) in self._STATEMENTS):
                    raise SqlError(
                        "SQL007",
                        word=self._word_at(0),
                        where="in a statement set",
                        place=place_of_token(self._curr, self.sql),
                    )
                raise self._unexpected("INSERT or END", words=("INSERT", "END"))
            inserts.append(self._insert())
            self._expect(";", expected="; after the INSERT")
        if not inserts:
            raise self._unexpected("INSERT", words=("INSERT",))
        self._advance()
        return nodes.StatementSet(expressions=inserts)

    @with_position
    def _compile(self) -> nodes.CompilePlan | nodes.MigratePlan:
        self._advance()
        execute = self._accept("AND")
        if execute:
            self._expect("EXECUTE")
        self._expect("PLAN")
        if self._is("IF"):
            raise self._unexpected("the plan's path in single quotes; IF NOT EXISTS comes after it")
        path: exp.Literal | None = None
        if not self._is("FOR") or execute:
            path = self._string("the plan's path in single quotes" + ("" if execute else " or FOR"))
        if_token = self._curr
        exists = self._if("NOT", "EXISTS")
        if exists and (execute or path is None):
            raise SqlError(
                "SQL007",
                word="IF NOT EXISTS",
                where="here",
                place=place_of_token(if_token, self.sql),
                hint="COMPILE AND EXECUTE PLAN runs the file when it exists" if execute else None,
            )
        if path is not None and not execute and self._accept("FROM"):
            old = self._string("the path of the plan to migrate in single quotes")
            return nodes.MigratePlan(this=old, path=path, exists=exists)
        starts = "FOR" if execute or path is None else "FOR or FROM"
        self._expect("FOR", expected=starts if exists or execute else f"IF NOT EXISTS, {starts}")
        return nodes.CompilePlan(this=self._compiled("after FOR"), path=path, exists=exists, execute=execute)

    def _compiled(self, context: str) -> exp.Expr:
        if self._is("INSERT"):
            return self._insert()
        if self._is("STATEMENT"):
            return self._statement_set()
        expected = "INSERT or STATEMENT SET"
        if not self._at_end() and (self._word_at(0) in self._STATEMENTS or self._query_ahead()):
            raise SqlError(
                "SQL007",
                word=self._word_at(0),
                where=context,
                place=place_of_token(self._curr, self.sql),
                expected=expected,
                hint="STATEMENT SET without EXECUTE" if self._is("EXECUTE", "STATEMENT") else None,
            )
        raise self._unexpected(expected, words=("INSERT", "STATEMENT"))

    def _explain_details(self) -> list[str]:
        details: list[str] = []
        left = list(_DETAILS)
        while word := self._accept_any(left):
            details.append(word)
            left.remove(word)
            if not self._accept(","):
                return details
        if details:
            raise self._unexpected(one_of(left) or "a statement", words=left)
        return details

    def _alter_any(self) -> exp.Expr:
        if self._word_at(1) == "PLAN":
            return self._alter_plan()
        return self._alter_job() if self._word_at(1) == "JOB" else self._alter()

    @with_position
    def _alter_plan(self) -> nodes.AlterPlan:
        self._expect("ALTER", "PLAN")
        path = self._string("the plan's path in single quotes")
        self._expect("SET")
        return nodes.AlterPlan(path=path, expressions=self._ttls())

    def _ttls(self) -> list[nodes.PlanTtl]:
        ttls = [self._plan_ttl()]
        while self._accept(","):
            ttls.append(self._plan_ttl())
        return ttls

    @with_position
    def _plan_ttl(self) -> nodes.PlanTtl:
        self._expect("TTL")
        ttl = self._string("a duration in single quotes, such as '1 d'")
        self._expect("FOR")
        expected = "a selector of a state, such as 'join.right'"
        selectors = [self._bare_text(expected, stop=",")]
        while self._is(",") and not (
            self._word_at(1) == "TTL" and (after := self._ahead(2)) and after.token_type == TokenType.STRING
        ):
            self._advance()
            selectors.append(self._bare_text(expected, stop=","))
        return nodes.PlanTtl(this=ttl, expressions=selectors)

    @with_position
    def _explain(self) -> nodes.Explain:
        self._advance()
        plan_for = self._accept("PLAN", "FOR")
        details = [] if plan_for else self._explain_details()
        if self._is("PLAN") and not plan_for:
            self._advance()
            if self._curr is None or self._curr.token_type != TokenType.STRING:
                words = () if details else ("FOR",)
                raise self._unexpected("the plan's path in single quotes" if details else _FOR_OR_PATH, words=words)
            path = self._string("the plan's path")
            return nodes.Explain(path=path, details=details or None)
        if self._is("EXECUTE", "STATEMENT"):
            self._advance()
        if self._query_ahead():
            this = self._query()
        elif self._is("INSERT") or self._is("STATEMENT"):
            this = self._compiled("after EXPLAIN")
        elif self._is("CREATE") or self._is("REPLACE"):
            token = self._curr
            this = self._statement()
            if not isinstance(this, nodes.CreateTableAs):
                raise SqlError(
                    "SQL007", word=token.text.upper(), where="in EXPLAIN", place=place_of_token(token, self.sql)
                )
        elif not self._at_end() and self._word_at(0) in self._STATEMENTS:
            raise SqlError(
                "SQL007", word=self._word_at(0), where="in EXPLAIN", place=place_of_token(self._curr, self.sql)
            )
        else:
            raise self._unexpected(
                "a query, INSERT, STATEMENT SET, PLAN 'path' or one of " + ", ".join(_DETAILS),
                words=("SELECT", "INSERT", "STATEMENT", "PLAN", *_DETAILS),
            )
        return nodes.Explain(this=this, details=details or None, plan_for=plan_for)

    _STATEMENTS: ClassVar[dict[str, Callable[[FlinkParser], exp.Expr]]] = {
        **dict.fromkeys(("SELECT", "WITH", "VALUES", "(", "TABLE"), lambda self: self._query()),
        "INSERT": lambda self: self._insert(),
        "CREATE": lambda self: self._create(),
        "REPLACE": lambda self: self._replace_table(),
        "DROP": lambda self: self._drop(),
        "ALTER": lambda self: self._alter_any(),
        "USE": _use,
        "LOAD": _module,
        "UNLOAD": _module,
        "SHOW": _show,
        "DESCRIBE": _describe,
        "DESC": _describe,
        "STOP": _stop_job,
        "SET": _set,
        "RESET": _reset,
        "EXECUTE": _execute,
        "STATEMENT": lambda self: self._statement_set(),
        "BEGIN": _begin_statement_set,
        "END": _end_statement_set,
        "ROLLBACK": _rollback,
        "COMPILE": _compile,
        "EXPLAIN": _explain,
    }
