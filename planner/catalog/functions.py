"""The user-defined functions of a session: by which names they are known, and what a name in SQL or in a plan means.

Source: Flink's ``FunctionCatalog``. A name of one part means, in this order, a temporary system function, a built-in
function, a temporary function of the current database, a function of the current database. Names are
not case-sensitive.

Codes: CAT060 to CAT069, SQL210 to SQL219.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from stateplan.common.errors import CatalogError, Place, SqlError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.functions.rex import Call
from stateplan.functions.user import KIND_WORDS, UserFunction
from stateplan.planner.catalog.objects import ObjectIdentifier
from stateplan.planner.catalog.udf import of_callable


@dataclass(frozen=True)
class CatalogFunction:
    """A function under a name. Without ``identifier`` it is a system function.

    Attributes:
        reference: ``module.name`` of CREATE FUNCTION; None for one that was given from Python.
        language: PYTHON, JAVA, SCALA or SQL.
        function: the function that was given from Python.
    """

    name: str
    identifier: ObjectIdentifier | None
    reference: str | None
    language: str
    temporary: bool
    function: UserFunction | None = None

    @property
    def summary(self) -> str:
        return self.name if self.identifier is None else self.identifier.summary

    @property
    def key(self) -> tuple[str, ...]:
        return _key(self.identifier) if self.identifier is not None else (self.name.lower(),)

    def load(self, place: Place | None = None) -> UserFunction:
        """The function itself; its module is imported.

        Raises:
            SqlError: SQL210 (it cannot be imported), SQL211 (not Python), SQL214 (not a declared function).
        """
        if self.function is not None:
            return self.function
        if self.language != "PYTHON":
            raise SqlError("SQL211", name=self.summary, language=self.language.capitalize(), place=place)
        try:
            return of_callable(_imported(self.reference or "", self.summary, place), self.name)
        except SqlError as error:
            error.place = error.place or place
            raise


def _imported(reference: str, name: str, place: Place | None) -> Any:
    module_name, _, attribute = reference.rpartition(".")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.append(folder)
    expected = "'module.name' of a module that Python can import"
    if not module_name:
        raise SqlError(
            "SQL210",
            name=name,
            reason=f"'{reference}' does not name an object of a module",
            place=place,
            expected=expected,
        )
    try:
        module = importlib.import_module(module_name)
    except Exception as cause:  # whatever a user's module raises
        raise SqlError(
            "SQL210",
            name=name,
            reason=f"module '{module_name}' raised {type(cause).__name__}: {str(cause)[:200]}",
            place=place,
            expected=expected,
            hint="the folder of the module must be the current one or on PYTHONPATH",
        ) from cause
    if not hasattr(module, attribute):
        raise SqlError(
            "SQL210",
            name=name,
            reason=f"module '{module_name}' has no '{attribute}'",
            place=place,
            hint=nearest(attribute, [n for n in vars(module) if not n.startswith("_")]),
        )
    return getattr(module, attribute)


def _key(identifier: ObjectIdentifier) -> tuple[str, str, str]:
    return (identifier.catalog, identifier.database, identifier.name.lower())


class Permanent(Protocol):
    """Where the functions of databases are kept."""

    def functions_of(self, catalog: str) -> MutableMapping[tuple[str, str], CatalogFunction]:
        """Those of a catalog, by database and name in small letters. Raises CatalogError."""

    def nearby_functions(self) -> Iterable[CatalogFunction]:
        """Those that are at hand."""

    def check_function(self, function: CatalogFunction, place: Place | None) -> None:
        """Raises StateplanError when the session must not import it."""


class FunctionCatalog:
    """The functions of a session.

    Args:
        permanent: has those of the databases.
    """

    def __init__(self, permanent: Permanent) -> None:
        self._system: dict[tuple[str, ...], CatalogFunction] = {}
        self._temporary: dict[tuple[str, ...], CatalogFunction] = {}
        self._permanent = permanent

    def _shelf(self, function: CatalogFunction) -> tuple[MutableMapping[Any, CatalogFunction], tuple[str, ...]]:
        """Where a function is kept, and its key there."""
        if function.identifier is None:
            return self._system, function.key
        if function.temporary:
            return self._temporary, function.key
        return self._permanent.functions_of(function.identifier.catalog), function.key[1:]

    def has(self, function: CatalogFunction) -> bool:
        """Whether there is one of this name, temporary or not as it is."""
        shelf, key = self._shelf(function)
        return key in shelf

    def create(self, function: CatalogFunction, *, place: Place | None = None, overwrite: bool = False) -> None:
        """Adds a function. Raises CatalogError: CAT060 when the name is taken, CAT110 where it cannot be kept."""
        shelf, key = self._shelf(function)
        if key in shelf and not overwrite:
            raise CatalogError("CAT060", summary=function.summary, place=place)
        shelf[key] = function

    def drop(self, function: CatalogFunction, *, if_exists: bool = False, place: Place | None = None) -> bool:
        """Removes the function of this name; returns whether there was one. Raises CatalogError CAT061."""
        shelf, key = self._shelf(function)
        if key in shelf:
            del shelf[key]
            return True
        if if_exists:
            return False
        raise self._missing_function(function.summary, place)

    def _missing_function(self, summary: str, place: Place | None) -> CatalogError:
        known_names = [f.summary for f in self.all()]
        name = summary.rpartition(".")[2]
        near = nearest(name, [f.name for f in self.all()])
        return CatalogError(
            "CAT061",
            summary=summary,
            place=place,
            expected=f"one of {', '.join(sorted(known_names)[:8])}" if known_names else None,
            hint=near or "CREATE FUNCTION makes one",
        )

    def all(self) -> list[CatalogFunction]:
        """The functions of the system, the temporary ones, and those of catalogs that need no connection."""
        return [*self._system.values(), *self._temporary.values(), *self._permanent.nearby_functions()]

    def names(self, catalog: str, database: str) -> list[str]:
        """Names of the system's functions and those of a database, sorted, in small letters. Raises CatalogError."""
        names = {key[2] for key in self._temporary if key[:2] == (catalog, database)}
        names |= {name for owner, name in self._permanent.functions_of(catalog) if owner == database}
        return sorted(names | {f.name.lower() for f in self._system.values()})

    # what a name means

    def system(self, name: str) -> CatalogFunction | None:
        """The temporary system function of this name."""
        return self._system.get((name.lower(),))

    def of_catalog(self, identifier: ObjectIdentifier) -> CatalogFunction | None:
        """The function of a database, a temporary one first. Raises CatalogError."""
        catalog, database, name = _key(identifier)
        function = self._temporary.get((catalog, database, name))
        return function or self._permanent.functions_of(catalog).get((database, name))

    def resolve_call(
        self, parts: Sequence[str], current: tuple[str, str], place: Place | None, built_in: bool
    ) -> FoundFunction | None:
        """What the name ``parts`` of a call means if it is a user-defined function; None for none.

        Args:
            parts: the parts of the name.
            current: catalog and database of a name without them.
            place: the place of the call.
            built_in: whether there is a built-in function of this name.

        Raises:
            SqlError: SQL210 to SQL214, when it cannot be used.
            StateplanError: the session must not import it.
        """
        name = parts[-1]
        if len(parts) == 1:
            function = self.system(name)
            if function is not None:
                return FoundFunction(replace(self.load_function(function, place), name=name), system_name=name)
            if built_in:
                return None
        identifier = ObjectIdentifier(*[*current][: 3 - len(parts)], *parts)
        function = self.of_catalog(identifier)
        if function is None:
            return None
        return FoundFunction(replace(self.load_function(function, place), name=name), catalog_name=str(identifier))

    def of_plan(self, system_name: str | None, catalog_name: str | None, place: Place | None = None) -> UserFunction:
        """The function that a plan calls by a name.

        Raises:
            CatalogError: CAT061, when the session has none of this name.
            SqlError: SQL210 to SQL214, when it cannot be used.
        """
        function = None
        if system_name is not None:
            function = self.system(system_name)
        elif catalog_name is not None:
            function = self.of_catalog(ObjectIdentifier(*_parts(catalog_name)))
        if function is None:
            raise self._missing_function((system_name or ".".join(_parts(catalog_name or ""))), place)
        return self.load_function(function, place)

    def load_function(self, function: CatalogFunction, place: Place | None = None) -> UserFunction:
        """The function itself; its module is imported, if the session may do that.

        Raises:
            SqlError: as :meth:`CatalogFunction.load`.
            StateplanError: the session must not import it.
        """
        self._permanent.check_function(function, place)
        return function.load(place)


def _parts(name: str) -> tuple[str, str, str]:
    """The parts of a name in backquotes."""
    parts = [p.replace("``", "`") for p in name.strip("`").split("`.`")]
    catalog, database, own = (["", "", *parts])[-3:]
    return catalog, database, own


@dataclass(frozen=True)
class FoundFunction:
    """A user-defined function that a call in SQL names; exactly one of the names is set, as a plan writes it."""

    function: UserFunction
    system_name: str | None = None
    catalog_name: str | None = None

    def call(self, operands: Sequence[Any]) -> Call:
        return Call(
            self.function.result,
            tuple(operands),
            system_name=self.system_name,
            catalog_name=self.catalog_name,
            function=self.function,
        )


Functions: TypeAlias = Callable[[Sequence[str], Place | None, bool], FoundFunction | None]
"""What the name of a call means if it is a user-defined function; the flag says that a built-in one has this name."""


def require_kind(function_match: FoundFunction, kind: str, place: Place | None, clause: str) -> UserFunction:
    """The function, which must be of the kind ``kind``. Raises SqlError SQL212."""
    function = function_match.function
    if function.kind != kind:
        raise SqlError(
            "SQL212",
            name=function.name,
            kind_words=KIND_WORDS[function.kind],
            clause=clause,
            place=place,
            hint={
                "TABLE": "call it in FROM: LATERAL TABLE(f(x))",
                "PROCESS_TABLE": "call it in FROM, over a table: f(TABLE t PARTITION BY k, ..)",
                "TABLE_AGGREGATE": "call it in FROM, over a table: f(TABLE t PARTITION BY k, DESCRIPTOR(x))",
            }.get(function.kind),
        )
    return function
