"""The part of a session that registers functions and views, and lists and selects the objects of its catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateplan.planner.catalog.ddl import parts_of
from stateplan.planner.catalog.functions import CatalogFunction, FunctionCatalog
from stateplan.planner.catalog.objects import CatalogTable, CatalogView
from stateplan.planner.catalog.udf import of_callable
from stateplan.planner.dialect import parse_path
from stateplan.session.session import Session

if TYPE_CHECKING:
    from stateplan.functions.user import UserFunction


class Names:
    """The methods of a session for the named objects of its catalog: functions, views, tables, databases."""

    session: Session

    # functions

    @property
    def functions(self) -> FunctionCatalog:
        """The user-defined functions of the session."""
        return self.session.catalog.functions

    def create_temporary_function(self, path: str, function: UserFunction) -> None:
        """Registers a function of a database, which was created with ``udf``, ``udtf`` or ``udaf``.

        Raises:
            CatalogError: CAT060, the name is already in use.
            SqlError: SQL214, ``function`` is another object.
        """
        self.functions.create(self._function(path, function))

    def create_temporary_system_function(self, name: str, function: UserFunction) -> None:
        """Registers a function for all databases. Raises the same errors as :meth:`create_temporary_function`."""
        self.functions.create(
            CatalogFunction(name, None, None, "PYTHON", True, of_callable(function, name)), overwrite=True
        )

    def drop_temporary_function(self, path: str) -> bool:
        """Drops a temporary function; returns whether there was one."""
        return self.functions.drop(self._function(path, None), if_exists=True)

    def drop_temporary_system_function(self, name: str) -> bool:
        """Drops a temporary system function; returns whether there was one."""
        return self.functions.drop(CatalogFunction(name, None, None, "PYTHON", True), if_exists=True)

    def _function(self, path: str, function: UserFunction | None) -> CatalogFunction:
        parts = parts_of(parse_path(path))
        function_object = None if function is None else of_callable(function, parts[-1])
        return CatalogFunction(parts[-1], self.session.catalog.qualify(parts), None, "PYTHON", True, function_object)

    def list_user_defined_functions(self) -> list[str]:
        """The system's functions that were registered, and those of the current database."""
        return self.functions.names(self.session.catalog.current_catalog, self.session.catalog.current_database)

    # the catalog

    def drop_temporary_view(self, path: str) -> bool:
        """Drops a temporary view; returns whether there was one. Raises CatalogError when it is a table."""
        return self._drop(path, "VIEW")

    def drop_temporary_table(self, path: str) -> bool:
        """Drops a temporary table; returns whether there was one. Raises CatalogError when it is a view."""
        return self._drop(path, "TABLE")

    def _drop(self, path: str, kind: str) -> bool:
        return self.session.catalog.drop(parts_of(parse_path(path)), kind=kind, temporary=True, if_exists=True)

    def list_catalogs(self) -> list[str]:
        """The catalogs of the session, in alphabetical order."""
        return self.session.catalog.list_catalogs()

    def list_databases(self) -> list[str]:
        """The databases of the current catalog."""
        return self.session.catalog.list_databases()

    def list_tables(self) -> list[str]:
        """Tables and views of the current database."""
        return self.session.catalog.list_tables()

    def list_views(self) -> list[str]:
        """The views of the current database."""
        return self.session.catalog.list_views()

    def list_temporary_tables(self) -> list[str]:
        """The temporary tables of the current database."""
        return sorted(name for name, item in self.session.catalog.temporary().items() if isinstance(item, CatalogTable))

    def list_temporary_views(self) -> list[str]:
        """The temporary views of the current database."""
        return sorted(name for name, item in self.session.catalog.temporary().items() if isinstance(item, CatalogView))

    def get_current_catalog(self) -> str:
        """The current catalog."""
        return self.session.catalog.current_catalog

    def get_current_database(self) -> str:
        """The current database."""
        return self.session.catalog.current_database

    def use_catalog(self, name: str) -> None:
        """Makes a catalog current. Raises CatalogError CAT003."""
        self.session.catalog.use_catalog(name)

    def use_database(self, name: str) -> None:
        """Makes a database of the current catalog current. Raises CatalogError CAT004."""
        self.session.catalog.use_database([name])
