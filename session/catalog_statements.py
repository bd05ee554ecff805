"""CREATE CATALOG, CREATE DATABASE and USE, and what a session gives its catalogs."""

from __future__ import annotations

from sqlglot import exp

from stateplan.common.errors import StateplanError
from stateplan.common.files import UrlError, absolute, place_of
from stateplan.common.settings import Configuration
from stateplan.common.types import LogicalType
from stateplan.common.zone import local_time_zone
from stateplan.planner.catalog import ddl
from stateplan.planner.catalog.catalogs import Catalog
from stateplan.planner.catalog.file_catalog import FILE
from stateplan.planner.catalog.kinds import check_options, open_catalog
from stateplan.planner.catalog.manager import CatalogDescriptor, CatalogManager, CatalogStore
from stateplan.planner.catalog.store import STORE_KIND, STORE_PATH, default_folder, store_of
from stateplan.planner.dialect import nodes
from stateplan.session.context import Context
from stateplan.session.host import Host
from stateplan.session.results import TableResult, ok


def connect_catalog(catalog: CatalogManager, host: Host, config: Configuration) -> None:
    """Passes to the catalogs of a session what they need of it: who may use what, the types of catalogs, the store."""

    def query_fields(query: exp.Expr, manager: CatalogManager, source: str) -> list[tuple[str, LogicalType]]:
        from stateplan.planner.compile import query_schema

        return query_schema(query, manager, config.to_dict(), source)

    def open_for_session(name: str, descriptor: CatalogDescriptor) -> Catalog:
        host.check_table(descriptor.options)
        return open_catalog(name, descriptor, catalog)

    def store() -> CatalogStore | None:
        if config.value(STORE_KIND) == FILE and config.get(STORE_PATH) is None:
            host.check_table({"path": default_folder()})
        return store_of(config)

    catalog.check_table = host.check_table
    catalog.check_function = host.check_function
    catalog.query_fields = query_fields
    catalog.open_catalog = open_for_session
    catalog.store = store
    catalog.time_zone = lambda: local_time_zone(config.to_dict())


def create_catalog(c: Context, node: nodes.CreateCatalog) -> TableResult:
    """CREATE CATALOG: it is opened, and kept in the catalog store if there is one.

    Raises:
        OptionError: OPT004, OPT105, for its options.
        CatalogError: CAT005, the name is taken; CAT114, a secret cannot be kept.
        StateplanError: it does not answer.
    """
    place = c.place(node.this)
    option_nodes = node.args.get("options")
    options = ddl.options_of(option_nodes)
    places = ddl.places_of(option_nodes, c.source, c.file)
    kind, _ = check_options(options, place, places)
    c.session.host.check_table(options, place)
    if c.catalog.store() is not None:
        options |= {key: _absolute(options[key]) for key in kind.paths if key in options}
    comment = node.args.get("comment")
    name = ddl.parts_of(node.this)[0]
    descriptor = CatalogDescriptor(options, None if comment is None else comment.name)
    exists = bool(node.args.get("exists"))
    try:
        is_new = c.catalog.create_catalog(name, descriptor=descriptor, if_not_exists=exists, place=place)
    except StateplanError as error:
        error.place = error.place or place
        raise
    if not is_new:
        return ok("CREATE CATALOG", [f"the catalog '{name}' already exists; kept unchanged"])
    idle = [option for option in kind.options if option.no_effect and option.key in options]
    return ok("CREATE CATALOG", [f"the option '{option.key}' has no effect: {option.no_effect}" for option in idle])


def _absolute(path: str) -> str:
    """A path for sessions of other working directories."""
    try:
        local = place_of(path)
    except UrlError:
        return path
    return path if local is None else absolute(local)


def create_database(c: Context, node: nodes.CreateDatabase) -> TableResult:
    """CREATE DATABASE. Raises CatalogError CAT003, CAT007, CAT110."""
    catalog, name = [c.catalog.current_catalog, *ddl.parts_of(node.this)][-2:]
    comment = node.args.get("comment")
    c.catalog.create_database(
        catalog,
        name,
        comment=comment.name if comment is not None else None,
        options=ddl.options_of(node.args.get("options")),
        if_not_exists=bool(node.args.get("exists")),
        place=c.place(node.this),
    )
    return ok("CREATE DATABASE")


def use(c: Context, node: nodes.UseObject) -> TableResult:
    """USE and USE CATALOG. Raises CatalogError CAT001, CAT003, CAT004."""
    parts, place = ddl.parts_of(node.this), c.place(node.this)
    if node.args["kind"] == "CATALOG":
        c.catalog.use_catalog(parts[0], place)
        return ok("USE CATALOG")
    c.catalog.use_database(parts, place)
    return ok("USE")
