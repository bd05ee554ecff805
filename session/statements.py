"""Running a statement: one function for each class of syntax node, in one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sqlglot import exp

from stateplan.common.errors import CatalogError, OptionError, Place, PlanError, SqlError, StateplanError
from stateplan.common.files import safe_url
from stateplan.common.readable import amount, without_markup
from stateplan.common.redaction import redacted, redacted_options, redacted_value
from stateplan.common.settings import OPTIONS, current_key, find_option
from stateplan.planner.catalog import ddl
from stateplan.planner.catalog.alter import alter_table
from stateplan.planner.catalog.objects import CatalogTable, CatalogView
from stateplan.planner.dialect import nodes
from stateplan.planner.positions import text_of
from stateplan.session.catalog_statements import create_catalog, create_database, use
from stateplan.session.context import Context
from stateplan.session.create_table_as import create_table_as, explain_create_table_as
from stateplan.session.function_statements import run_function_statement
from stateplan.session.job_alteration import run_alter_job, run_end_shadow
from stateplan.session.job_statements import run_describe_job, run_stop_job
from stateplan.session.live_ttls import run_alter_job_ttl, ttl_assignments
from stateplan.session.module_statements import run_module_statement
from stateplan.session.results import TableResult, content, ok
from stateplan.session.script import Insert, Inserts, ScriptStatement, is_query
from stateplan.session.session import Session
from stateplan.session.show_statements import run_describe, run_show

_IN_STATEMENT_SET = (
    exp.Insert,
    nodes.EndStatementSet,
    nodes.RollbackStatementSet,
    nodes.DescribeTable,
    nodes.DescribeJob,
    nodes.Explain,
    nodes.SetOption,
    nodes.ResetOption,
)
"""The statements between BEGIN STATEMENT SET and END: INSERTs, and those that change no table."""

_Runner = Callable[[Context, Any], TableResult]


def run_statement(session: Session, statement: ScriptStatement) -> TableResult:
    """Runs one statement in a session. Raises StateplanError; then nothing has been changed."""
    node = statement.node
    is_allowed = isinstance(node, _IN_STATEMENT_SET)
    if not (is_allowed or (isinstance(node, nodes.ShowObjects) and session.host.shows_in_sets)):
        session.check_no_open_set(statement.place)
    runner = _RUNNERS.get(type(node))
    if runner is None:
        if is_query(node):
            return _query(Context(session, statement), node)
        raise SqlError("SQL004", what=type(node).__name__, place=statement.place)
    session.catalog.refresh()
    try:
        result = runner(Context(session, statement), node)
    except CatalogError as error:
        error.place = error.place or statement.place
        raise
    doubled_keys = ddl.doubled_options(node)
    if doubled_keys:
        result.notes = (*result.notes, *doubled_keys)
    return result


# tables and views


def _create_table(c: Context, node: nodes.CreateTable) -> TableResult:
    parts = ddl.parts_of(node.this)
    place = c.place(node.this)
    if node.args.get("exists") and _is_there(c, parts, bool(node.args.get("temporary")), place):
        return ok("CREATE TABLE", [f"'{c.catalog.qualify(parts).summary}' already exists; kept unchanged"])
    table = ddl.create_table(node, c.catalog, c.source, c.file)
    c.session.host.check_table(table.options, place)
    c.catalog.create(table, place=place)
    return ok("CREATE TABLE")


def _is_there(c: Context, parts: list[str], temporary: bool, place: Place) -> bool:
    return c.catalog.is_there(c.catalog.qualify(parts, place), temporary)


def _create_view(c: Context, node: nodes.CreateView) -> TableResult:
    parts = ddl.parts_of(node.this)
    place = c.place(node.this)
    temporary = bool(node.args.get("temporary"))
    if node.args.get("exists") and _is_there(c, parts, temporary, place):
        return ok("CREATE VIEW", [f"'{c.catalog.qualify(parts).summary}' already exists; kept unchanged"])
    fields = c.session.compiler.schema(node.expression, c.source)
    view = ddl.create_view(node, c.catalog, fields, c.source, c.file)
    if node.args.get("replace") and isinstance(c.catalog.lookup(view.identifier, temporary), CatalogView):
        c.catalog.replace(view)
    else:
        c.catalog.create(view, place=place)
    return ok("CREATE VIEW")


def _drop(c: Context, node: nodes.DropObject) -> TableResult:
    kind, exists = node.args["kind"], bool(node.args.get("exists"))
    parts, place = ddl.parts_of(node.this), c.place(node.this)
    if kind == "CATALOG":
        c.catalog.drop_catalog(parts[0], if_exists=exists, place=place)
    elif kind == "DATABASE":
        catalog, name = [c.catalog.current_catalog, *parts][-2:]
        cascade = node.args.get("cascade") == "CASCADE"
        c.catalog.drop_database(catalog, name, if_exists=exists, cascade=cascade, place=place)
    else:
        temporary = bool(node.args.get("temporary"))
        c.catalog.drop(parts, kind=kind, temporary=temporary, if_exists=exists, place=place)
    return ok(f"DROP {kind}")


def _alter_table(c: Context, node: nodes.AlterTable) -> TableResult:
    parts, place = ddl.parts_of(node.this), c.place(node.this)
    table = c.catalog.find(parts, place)
    if table is None and node.args.get("exists"):
        return ok("ALTER TABLE")
    table = c.catalog.resolve(parts, place)
    if not isinstance(table, CatalogTable):
        raise CatalogError("CAT011", summary=table.identifier.summary, item="view", kind="table", place=place)
    action = node.args["action"]
    if action == "RENAME TO":
        target = node.args["target"]
        c.catalog.rename(parts, ddl.parts_of(target), c.place(target))
    elif action in ("ADD", "MODIFY", "DROP", "RENAME"):
        c.catalog.replace(alter_table(table, node, c.catalog, c.source, c.file))
    elif action == "SET":
        option_source = node.args["options"], c.source, c.file
        changes = ddl.options_of(node.args["options"])
        c.session.host.check_table(changes, place)
        c.catalog.replace(table.with_options(changes, ddl.places_of(*option_source)))
    else:
        keys = {option.this.name: option for option in node.args["options"]}
        if "connector" in keys:
            raise OptionError("OPT003", place=c.place(keys["connector"]))
        remaining_options = {k: v for k, v in table.options.items() if k not in keys}
        c.catalog.replace(replace(table, options=remaining_options))
    return ok("ALTER TABLE")


def _alter_view(c: Context, node: nodes.AlterView) -> TableResult:
    parts, place = ddl.parts_of(node.this), c.place(node.this)
    view = c.catalog.resolve(parts, place)
    if not isinstance(view, CatalogView):
        raise CatalogError("CAT011", summary=view.identifier.summary, item="table", kind="view", place=place)
    if node.args["action"] == "RENAME TO":
        target = node.args["target"]
        c.catalog.rename(parts, ddl.parts_of(target), c.place(target))
        return ok("ALTER VIEW")
    query = node.expression
    fields = c.session.compiler.schema(query, c.source)
    schema = ddl.view_schema(fields, None, query, c.source, c.file)
    c.catalog.replace(
        replace(
            view,
            query=query,
            sql=text_of(query, c.source),
            schema=schema,
            source=c.source,
            catalog=c.catalog.current_catalog,
            database=c.catalog.current_database,
            query_names=tuple(name for name, _ in fields),
        )
    )
    return ok("ALTER VIEW")


# options


def _set(c: Context, node: nodes.SetOption) -> TableResult:
    config = c.session.config
    if node.this is None:
        rows = list(redacted_options(config.to_dict()).items())
        return content("SET", ["key", "value"], rows, () if rows else ("no option is set; SHOW OPTIONS lists all",))
    if node.expression is None:
        key = node.this.name
        row = OPTIONS.get(current_key(key)) if key in config else find_option(key, c.place(node.this))
        value = config.get(key)
        value_text = None if value is None else redacted_value(key, value)
        about = () if row is None else (without_markup(row.description),)
        return content("SET", ["key", "value"], [(key, value_text)], about)
    text = c.session.host.check_option(node.this.name, node.expression.name, c.place(node))
    note = config.set(node.this.name, text, c.place(node))
    return ok("SET", [note] if note else [])


def _reset(c: Context, node: nodes.ResetOption) -> TableResult:
    c.session.config.reset(None if node.this is None else node.this.name, c.place(node))
    return ok("RESET")


# queries, jobs, plans


def _query(c: Context, node: exp.Expr) -> TableResult:
    return c.session.starter.query(node, c.source)


def _insert(c: Context, node: exp.Insert) -> TableResult:
    return c.session.insert(Insert.read(node, c.source))


def _statement_set(c: Context, node: nodes.StatementSet) -> TableResult:
    raise SqlError("SQL007", word="STATEMENT SET", where="without EXECUTE", place=c.place(node))


def _begin_set(c: Context, node: nodes.BeginStatementSet) -> TableResult:
    c.session.statement_set = []
    return ok("BEGIN STATEMENT SET")


def _end_set(c: Context, node: nodes.EndStatementSet) -> TableResult:
    """Starts the INSERTs since BEGIN as one job. The set is closed then, even if the job cannot be started."""
    inserts, c.session.statement_set = c.session.statement_set, None
    if inserts is None:
        raise SqlError("SQL007.no_set", place=c.place(node), expected="END after BEGIN STATEMENT SET")
    if not inserts:
        return ok("END", ["the statement set is empty: nothing is started"])
    return c.session.starter.inserts(Inserts.of_all(inserts), "STATEMENT SET")


def _rollback(c: Context, node: nodes.RollbackStatementSet) -> TableResult:
    inserts, c.session.statement_set = c.session.statement_set, None
    if inserts is None:
        raise SqlError("SQL007.no_set", place=c.place(node), expected="ROLLBACK between BEGIN STATEMENT SET and END")
    return ok("ROLLBACK", [f"the statement set with {amount(len(inserts), 'INSERT')} is given up"])


def _execute(c: Context, node: nodes.ExecuteStatement) -> TableResult:
    inner = node.this
    if isinstance(inner, nodes.StatementSet):
        return c.session.starter.inserts(Inserts.of(inner, c.source), "STATEMENT SET")
    return _insert(c, inner) if isinstance(inner, exp.Insert) else _query(c, inner)


def _compile(c: Context, node: nodes.CompilePlan) -> TableResult:
    from stateplan.plans import storage
    from stateplan.plans.document import PlanDocument

    path = node.args.get("path")
    if path is None:
        document = c.session.compiler.document(Inserts.of(node.this, c.source))
        return content("COMPILE PLAN", ["plan"], [(document.text,)])
    url = c.plan_file(path)
    force = bool(c.session.config.value("table.plan.force-recompile"))
    plan_exists = storage.exists(url)
    if node.args.get("execute"):
        if not plan_exists:
            document = c.session.compiler.document(Inserts.of(node.this, c.source))
            document.write(url)
            return replace(c.session.starter.document(document), statement="COMPILE AND EXECUTE PLAN")
        document = PlanDocument.load(url)
        _require_same_sql(c, node, document)
        result = c.session.starter.document(document)
        note = f"the plan {path.name} already exists; it runs unchanged, and the statement is not compiled"
        return replace(result, notes=(note, *result.notes), statement="COMPILE AND EXECUTE PLAN")
    if plan_exists and node.args.get("exists"):
        return ok("COMPILE PLAN", [f"the plan {path.name} already exists; kept unchanged"])
    if plan_exists and not force:
        # Before compiling, which may take its time, and so that the error is this one.
        raise _plan_exists(c, path)
    document = c.session.compiler.document(Inserts.of(node.this, c.source))
    folder = storage.missing_folder(url)
    document.write(url, overwrite=force, if_not_exists=bool(node.args.get("exists")))
    return ok("COMPILE PLAN", [f"created the folder {folder}"] if folder else [])


def _plan_exists(c: Context, path: exp.Literal) -> PlanError:

    return PlanError("PLAN002", shown=safe_url(path.name), place=c.place(path))


def _migrate(c: Context, node: nodes.MigratePlan) -> TableResult:
    from stateplan.plans import storage
    from stateplan.plans.document import PlanDocument
    from stateplan.plans.migrate import migrate, notes

    path, exists = node.args["path"], bool(node.args.get("exists"))
    old, new = c.plan_file(node.this), c.plan_file(path)
    force = bool(c.session.config.value("table.plan.force-recompile"))
    if storage.exists(new):
        if exists:
            return ok("COMPILE PLAN", [f"the plan {path.name} already exists; kept unchanged"])
        if not force:
            raise _plan_exists(c, path)
    migration = migrate(PlanDocument.load(old))
    migration.document.write(new, overwrite=force, if_not_exists=exists)
    return ok("COMPILE PLAN", notes(migration))


def _require_same_sql(c: Context, node: nodes.CompilePlan, document: Any) -> None:
    from stateplan.plans.plan_metadata import same_sql

    recorded_sql = document.recorded_sql
    if recorded_sql is not None and not same_sql(recorded_sql, redacted(text_of(node.this, c.source))):
        sql_text = " ".join(recorded_sql.split())
        raise PlanError(
            "PLAN090",
            name=node.args["path"].name,
            shown=sql_text if len(sql_text) <= 200 else sql_text[:197] + "...",
            place=c.place(node.this),
        )


def _alter_plan(c: Context, node: nodes.AlterPlan) -> TableResult:
    """Sets the TTLs, all or none, and returns what they were: a row per state.

    Raises:
        PlanError: as :func:`plans.edit.plan_edit`, with the place in the statement.
    """
    from stateplan.common.ttl import format_ttl
    from stateplan.plans.document import PlanDocument
    from stateplan.plans.edit import plan_edit, write_edited

    assignments = ttl_assignments(c, node.expressions)
    edit = plan_edit(PlanDocument.load(c.plan_file(node.args["path"])), assignments, c.session.config.to_dict())
    if edit.splices:
        write_edited(edit)
    return content(
        "ALTER PLAN",
        ["state", "name", "old ttl", "ttl"],
        [(change.label, change.state.name, format_ttl(change.state.ttl), format_ttl(change.ttl))
         for change in edit.changes],
    )  # fmt: skip


def _execute_plan(c: Context, node: nodes.ExecutePlan) -> TableResult:
    from stateplan.plans.document import PlanDocument

    return c.session.starter.document(PlanDocument.load(c.plan_file(node.args["path"])))


def _explain(c: Context, node: nodes.Explain) -> TableResult:
    from stateplan.plans.document import PlanDocument
    from stateplan.plans.render import render_explanation

    path, details = node.args.get("path"), node.args.get("details") or ()
    try:
        if path is not None:
            options = c.session.config.to_dict()
            text = render_explanation(PlanDocument.load(c.plan_file(path)), options, "text", details)
            return content("EXPLAIN PLAN", ["result"], [(text,)])
        if isinstance(node.this, nodes.CreateTableAs):
            return content("EXPLAIN", ["result"], [(explain_create_table_as(c, node.this, details),)])
        compiler = c.session.compiler
        if is_query(node.this):
            return content("EXPLAIN", ["result"], [(compiler.explain_query(node.this, c.source, details),)])
        return content("EXPLAIN", ["result"], [(compiler.explain(Inserts.of(node.this, c.source), details),)])
    except StateplanError as error:
        error.place = error.place or c.statement.place
        raise


_RUNNERS: dict[type[exp.Expr], _Runner] = {
    nodes.CreateTable: _create_table,
    nodes.CreateTableAs: create_table_as,
    nodes.CreateView: _create_view,
    nodes.CreateCatalog: create_catalog,
    nodes.CreateDatabase: create_database,
    nodes.DropObject: _drop,
    nodes.FunctionStatement: run_function_statement,
    nodes.AlterTable: _alter_table,
    nodes.AlterView: _alter_view,
    nodes.UseObject: use,
    nodes.ModuleStatement: run_module_statement,
    nodes.ShowObjects: run_show,
    nodes.DescribeTable: run_describe,
    nodes.DescribeJob: run_describe_job,
    nodes.StopJob: run_stop_job,
    nodes.AlterJob: run_alter_job,
    nodes.AlterJobTtl: run_alter_job_ttl,
    nodes.EndShadow: run_end_shadow,
    nodes.SetOption: _set,
    nodes.ResetOption: _reset,
    nodes.StatementSet: _statement_set,
    nodes.BeginStatementSet: _begin_set,
    nodes.EndStatementSet: _end_set,
    nodes.RollbackStatementSet: _rollback,
    nodes.ExecuteStatement: _execute,
    nodes.CompilePlan: _compile,
    nodes.MigratePlan: _migrate,
    nodes.AlterPlan: _alter_plan,
    nodes.ExecutePlan: _execute_plan,
    nodes.Explain: _explain,
    exp.Insert: _insert,
}
