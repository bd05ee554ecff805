"""What an editor shows for the words of a script."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from sqlglot import exp

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option
from stateplan.common.readable import without_markup
from stateplan.common.settings import OPTIONS
from stateplan.connectors.registry import known_connector
from stateplan.editor.compiled import Clause, Compiled
from stateplan.editor.findings import Hover, Insight, Target
from stateplan.editor.names import ColumnOwner, Declaration, Resolver, name_span, node_at, projections, with_query
from stateplan.editor.pieces import Piece, statement_around
from stateplan.editor.positions import Span
from stateplan.editor.scripts import ScriptReading
from stateplan.editor.signatures import declaration_line
from stateplan.planner.catalog import ddl
from stateplan.planner.catalog.objects import CatalogObject, CatalogTable
from stateplan.planner.dialect import nodes
from stateplan.session.completion import complete
from stateplan.session.session import Session

_MOST_COLUMNS = 40


@dataclass(frozen=True)
class SqlInsight(Insight):
    """A script, or the scripts of a test file, that were read.

    Attributes:
        text: the text of the file.
        readings: what became of the statements; several for a test file.
        declared_elsewhere: where other files of the workspace declare a name.
    """

    text: str = ""
    readings: tuple[ScriptReading, ...] = ()
    declared_elsewhere: Callable[[str], tuple[Target, ...]] = lambda name: ()

    def _at(self, offset: int) -> tuple[ScriptReading, Piece] | None:
        for script in self.readings:
            for piece in script.pieces:
                if piece.span.touches(offset):
                    return script, piece
        return None

    def hover(self, offset: int) -> Hover | None:
        at = self._at(offset)
        if at is None:
            return None
        script, piece = at
        node = None if piece.statement is None else node_at(piece.statement.node, offset - piece.start)
        words = _Words(script, piece)
        if node is not None:
            text = words.of(node)
            if text is not None:
                return Hover(name_span(node, piece.start), text)
        return self._clause_hover(script, piece, offset)

    def _clause_hover(self, script: ScriptReading, piece: Piece, offset: int) -> Hover | None:
        """The operators that the clause under the pointer became, in each statement that it is part of."""
        best: Span | None = None
        lines: list[str] = []
        for compiled, clause in _clauses(script, piece):
            span = clause.span.moved_by(piece.start)
            if not span.touches(offset) or (best is not None and span.end - span.start > best.end - best.start):
                continue
            if best is None or span != best:
                best, lines = span, []
            if compiled.text != piece.text:
                lines.append(f"in `{' '.join(compiled.text.split())[:60]}`:")
            lines.append("```text\n" + compiled.operator_text(clause.node_id) + "\n```")
        return None if best is None else Hover(best, "\n\n".join(lines))

    def definitions(self, offset: int) -> tuple[Target, ...]:
        at = self._at(offset)
        if at is None or at[1].statement is None:
            return ()
        script, piece = at
        assert piece.statement is not None
        node = node_at(piece.statement.node, offset - piece.start)
        if node is None:
            return ()
        targets = _Definitions(script, piece).of(node)
        if targets:
            return targets
        name = (
            node.name if isinstance(node, exp.Identifier) else str(node.this) if isinstance(node, exp.Anonymous) else ""
        )
        return self.declared_elsewhere(name) if name else ()

    def references(self, offset: int) -> tuple[Target, ...]:
        spans: dict[Span, None] = {}
        for script in self.readings:
            names = {d.name for d in script.declarations if d.span.touches(offset) and d.kind in ("table", "view")}
            names |= {name for name, span in script.uses if span.touches(offset)}
            for declaration in script.declarations:
                if declaration.name in names:
                    spans[declaration.span] = None
            for name, span in script.uses:
                if name in names:
                    spans[span] = None
        return tuple(Target(span) for span in sorted(spans))

    def complete(self, text: str, offset: int) -> tuple[Span, tuple[str, ...]]:
        """What may appear at ``offset`` of a version of the script that may be newer, and what it replaces."""
        if not self.readings:
            return Span(offset, offset), ()
        session = self.readings[-1].scratch.session
        span = statement_around(text, offset)
        statement = text[span.start : span.end]
        candidates = complete(session, statement, offset - span.start)
        start = offset
        while start > span.start and (text[start - 1].isalnum() or text[start - 1] in "_.-`$"):
            start -= 1
        prefix = text[start:offset]
        return Span(start, offset), tuple(_shorter(c, prefix, session) for c in candidates)

    def show(self, argument: str) -> str:
        for script in self.readings:
            for piece, outcome in zip(script.pieces, script.outcomes, strict=True):
                if str(piece.start) == argument and outcome.compiled is not None:
                    return outcome.compiled.explain()
        raise KeyError(argument)


def _clauses(script: ScriptReading, piece: Piece) -> Iterator[tuple[Compiled, Clause]]:
    """The clauses of a statement, of all statements that it is part of."""
    for outcome in script.outcomes:
        for clause in outcome.compiled.clauses if outcome.compiled is not None else ():
            if clause.source == piece.text:
                assert outcome.compiled is not None
                yield outcome.compiled, clause


def _shorter(candidate: str, prefix: str, session: Session) -> str:
    """A table of the current database without catalog and database, where only its name is prefix."""
    current = f"{session.catalog.current_catalog}.{session.catalog.current_database}."
    is_own = candidate.startswith(current) and not prefix.startswith(current[: len(prefix)] or ".")
    return candidate.removeprefix(current) if is_own else candidate


class _Words:
    """Texts about the names in a statement."""

    def __init__(self, script: ScriptReading, piece: Piece) -> None:
        self.script, self.piece = script, piece
        self.session = script.scratch.session
        self.resolver = Resolver(self.session.catalog)

    def of(self, node: exp.Expr) -> str | None:
        """What is said about a part of a syntax tree; None if nothing is."""
        parent = node.parent
        if isinstance(node, exp.Anonymous):
            return self._function(str(node.this))
        if isinstance(node, exp.Literal):
            return self._literal(node, parent)
        if not isinstance(node, exp.Identifier):
            return None
        if isinstance(parent, exp.Column):
            return self._column(parent) if parent.this is node else self._qualifier(parent)
        if isinstance(parent, exp.Table):
            return self._table(parent)
        if isinstance(parent, exp.Expr) and parent.this is node:
            owner = parent.parent
            if isinstance(owner, nodes.CreateTable):
                return self._declared_column(owner, node.name)
        return None

    def _table(self, table: exp.Table) -> str | None:
        query = with_query(table)
        if query is not None:
            names = ", ".join(projections(query.this, 0)) or "*"
            return f"`{table.name}`: query of WITH, columns {names}"
        if isinstance(table.parent, nodes.FunctionStatement):
            return self._function(table.name)
        item = self.resolver.item(table)
        return None if item is None else table_text(item)

    def _declared_column(self, statement: nodes.CreateTable, name: str) -> str | None:
        item = self.resolver.item(statement.this)
        column = None if item is None else item.schema.column(name)
        return None if column is None else f"`{name}` {column.type.summary()}"

    def _column(self, column: exp.Column) -> str | None:
        owner = self.resolver.owner(column)
        if owner is None:
            return None
        if owner.item is not None:
            item_column = owner.item.schema.column(column.name)
            kind = "" if item_column is None else item_column.type.summary()
            words = {"COMPUTED": ", computed", "METADATA": ", metadata"}.get(
                "" if item_column is None else item_column.kind, ""
            )
            return f"`{column.name}` {kind}{words}\n\ncolumn of `{owner.item.identifier.summary}`"
        return f"`{column.name}` {self._type_in_query(owner, column.name)}\n\ncolumn of `{owner.source.alias_or_name}`"

    def _type_in_query(self, owner: ColumnOwner, name: str) -> str:
        assert owner.query is not None
        query = owner.query.copy()
        query.meta.update(owner.query.meta)
        outer = owner.query.parent
        while outer is not None and query.args.get("with_") is None:
            clause = outer.args.get("with_")
            if isinstance(clause, exp.With):
                earlier = [c.copy() for c in clause.expressions if c.this is not owner.query]
                if earlier:
                    query.set("with_", exp.With(expressions=earlier))
            outer = outer.parent
        try:
            fields = dict(self.session.compiler.schema(query, self.piece.text))
        except (StateplanError, RecursionError):
            return ""
        return fields[name].summary() if name in fields else ""

    def _qualifier(self, column: exp.Column) -> str | None:
        owner = self.resolver.owner(column)
        if owner is None:
            return None
        if owner.item is not None:
            return table_text(owner.item)
        return f"`{owner.source.alias_or_name}`: query, columns {', '.join(projections(owner.query, 0))}"

    def _function(self, name: str) -> str | None:
        from stateplan.functions.aggregates import find_aggregate
        from stateplan.functions.table import find_scalar

        catalog = self.session.catalog
        for function in catalog.functions.all():
            if function.name.lower() == name.lower():
                if function.function is None:
                    return f"`{name}`: function of Python, `{function.reference}`"
                result = function.function.result.summary()
                return f"`{function.function.signature}` returns {result}\n\nfunction of Python, `{function.reference}`"
        scalar = find_scalar(name)
        if scalar is not None:
            return f"`{scalar.signature}`" + (f"\n\nnot supported: {scalar.reason}" if scalar.reason else "")
        aggregate = find_aggregate(name)
        if aggregate is not None:
            takes = ", ".join(f"<{t}>" for t in aggregate.takes) if aggregate.max_operands else ""
            return f"`{aggregate.name}({takes})`: aggregate function"
        return None

    def _literal(self, literal: exp.Literal, parent: exp.Expr | None) -> str | None:
        if isinstance(parent, (nodes.SetOption, nodes.ResetOption)) and parent.this is literal:
            option = OPTIONS.get(literal.name)
            return None if option is None else option_text(option)
        if isinstance(parent, nodes.Option) and parent.this is literal:
            options = ddl.options_of(parent.parent.args.get("options")) if parent.parent is not None else {}
            connector = known_connector(options)
            for option in connector.options if connector is not None else ():
                if option.key == literal.name:
                    return option_text(option)
        return None


def option_text(option: Option) -> str:
    """An option with its type, its default and what it does."""
    default = "" if option.default is None else f", default `{option.default}`"
    effect = f"\n\nno effect: {option.no_effect}" if option.no_effect else ""
    return f"`{option.key}` {option.type.value}{default}\n\n{without_markup(option.description)}{effect}"


def table_text(item: CatalogObject) -> str:
    """A table or view with its columns, key, watermark and connector."""
    lines = [f"  {column.name} {column.type.summary()}" for column in item.schema.columns[:_MOST_COLUMNS]]
    if len(item.schema.columns) > _MOST_COLUMNS:
        lines.append("  ...")
    if item.schema.primary_key:
        lines.append(f"  PRIMARY KEY ({', '.join(item.schema.primary_key)})")
    lines += [f"  WATERMARK FOR {mark.column} AS {mark.expression_sql}" for mark in item.schema.watermarks]
    kind = item.kind.lower()
    head = f"{kind} `{item.identifier.summary}`"
    if isinstance(item, CatalogTable) and "connector" in item.options:
        head += f", connector `{item.options['connector']}`"
    return head + "\n\n```text\n" + "\n".join(lines) + "\n```"


class _Definitions:
    """Where the names in a statement are declared."""

    def __init__(self, script: ScriptReading, piece: Piece) -> None:
        self.script, self.piece = script, piece
        self.resolver = Resolver(script.scratch.session.catalog)

    def of(self, node: exp.Expr) -> tuple[Target, ...]:
        """The declarations of what a part of a syntax tree names."""
        parent = node.parent
        if isinstance(node, exp.Anonymous):
            return self._targets_of(str(node.this), "function")
        if isinstance(node, exp.Literal):
            return self._file(node, parent)
        if not isinstance(node, exp.Identifier):
            return ()
        if isinstance(parent, exp.Column):
            owner = self.resolver.owner(parent)
            if owner is None:
                return ()
            return self._column(owner, parent.name) if parent.this is node else self._source(owner.source)
        return self._source(parent) if isinstance(parent, exp.Table) else ()

    def _targets_of(self, name: str, kind: str = "") -> tuple[Target, ...]:
        declaration = self._declaration(name, kind)
        return () if declaration is None else (Target(declaration.span),)

    def _declaration(self, name: str, kind: str = "") -> Declaration | None:
        """The last declaration of a name in front of the statement, or the first one behind it."""
        matches = [
            d
            for d in self.script.declarations
            if (d.name == name or (kind == "function" and d.name.lower() == name.lower()))
            and (not kind or d.kind == kind)
        ]
        earlier = [d for d in matches if d.statement_span.start <= self.piece.start]
        return earlier[-1] if earlier else matches[0] if matches else None

    def _source(self, source: exp.Expr) -> tuple[Target, ...]:
        if isinstance(source, exp.Subquery):
            return (Target(name_span(source, self.piece.start)),)
        if not isinstance(source, exp.Table):
            return ()
        query = with_query(source)
        if query is not None:
            return (Target(name_span(query.args["alias"], self.piece.start)),)
        identifier = self.resolver.identifier(source)
        return () if identifier is None else self._targets_of(identifier.summary)

    def _column(self, owner: ColumnOwner, name: str) -> tuple[Target, ...]:
        if owner.item is None:
            span = projections(owner.query, self.piece.start).get(name)
            return () if span is None else (Target(span),)
        declaration = self._declaration(owner.item.identifier.summary)
        if declaration is None:
            return ()
        return (Target(declaration.columns.get(name, declaration.span)),)

    def _file(self, literal: exp.Literal, parent: exp.Expr | None) -> tuple[Target, ...]:
        """The plan, or the function of Python, that a text names."""
        host = self.script.scratch.host
        if isinstance(parent, nodes.FunctionStatement):
            path, line = self._python(literal.name)
            return () if path is None else (Target(Span(line, line), str(path)),)
        if isinstance(parent, (nodes.ExecutePlan, nodes.AlterPlan, nodes.CompilePlan, nodes.MigratePlan)):
            path = host.local_path(literal.name)
            return (Target(Span(0, 0), str(path)),) if path is not None and path.is_file() else ()
        return ()

    def _python(self, reference: str) -> tuple[Path | None, int]:
        module, _, attribute = reference.rpartition(".")
        path = self.script.scratch.module_file(module)
        line = None if path is None else declaration_line(path, attribute)
        return (None, 0) if line is None else (path, line)
