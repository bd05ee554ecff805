"""A session in which statements are checked and none of them has an effect: no job runs, no connection is opened, no
module of the user is imported, and no file outside of the workspace is read.

Codes: EDIT001.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from stateplan.common.errors import Place, StateplanError
from stateplan.common.files import UrlError, place_of
from stateplan.common.roots import Roots
from stateplan.editor.signatures import declared_function
from stateplan.functions.user import UserFunction
from stateplan.planner.catalog.catalogs import IN_MEMORY, Catalog, Database, MemoryCatalog
from stateplan.planner.catalog.functions import CatalogFunction
from stateplan.planner.catalog.manager import CatalogDescriptor
from stateplan.planner.catalog.objects import CatalogObject, ObjectIdentifier
from stateplan.planner.catalog.store import STORE_KIND
from stateplan.planner.dialect import nodes
from stateplan.session.environment import TableEnvironment
from stateplan.session.host import Host
from stateplan.session.jobs import Jobs
from stateplan.session.results import TableResult
from stateplan.session.script import ScriptStatement

NOT_CHECKED: Mapping[str, str] = {
    "EDIT001": "",
    "GW012": "it needs files outside of the workspace",
    "OPT120": "it needs a secret that is not on this machine",
}
"""Codes of what cannot be checked here and is no error, with the reason where the error does not say it."""


def not_checked(reason: str, place: Place | None = None) -> StateplanError:
    """EDIT001."""
    return StateplanError("EDIT001", reason=reason, place=place)


class ScratchHost(Host):
    """Refuses what would have an effect.

    Args:
        folder: the folder that relative paths begin at.
        roots: the folders that may be read.
    """

    def __init__(self, folder: Path, roots: Roots) -> None:
        self.folder = folder
        self.roots = roots
        self.is_declaring = False

    @property
    def runs_functions(self) -> bool:
        return False

    def plan_file(self, name: str, place: Place | None = None) -> str:
        url = super().plan_file(name, place)
        path = self.local_path(url)
        if path is None:
            raise not_checked(f"'{url}' is not a file of the workspace", place)
        return str(path)

    def local_path(self, url: str) -> Path | None:
        """The file of the workspace that a path or URL names; None for any other."""
        try:
            local = place_of(url)
        except UrlError:
            return None
        if local is None:
            return None
        path = Path(os.path.realpath(self.folder / local))
        return path if is_below(path, self.roots) else None

    def check_function(self, function: CatalogFunction, place: Place | None = None) -> None:
        if not self.is_declaring and function.function is None:
            raise not_checked(f"the module of '{function.name}' is not imported", place)


class _UnopenedCatalog(Catalog):
    """A catalog that others have. Whatever is asked of it, the answer is that it is not checked."""

    is_local = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.default_database = "default"
        self.functions = {}

    def _refuse(self) -> NoReturn:
        raise not_checked(f"the catalog '{self.name}' is not opened")

    def databases(self) -> list[str]:
        return []

    def database(self, name: str) -> Database | None:
        return Database(name)

    def create_database(self, database: Database) -> bool:
        return True

    def drop_database(self, name: str) -> None:
        pass

    def kinds(self, database: str) -> dict[str, str]:
        return {}

    def kind(self, identifier: ObjectIdentifier) -> str | None:
        self._refuse()

    def find(self, identifier: ObjectIdentifier) -> CatalogObject | None:
        self._refuse()

    def create(self, item: CatalogObject) -> bool:
        self._refuse()

    def replace(self, item: CatalogObject) -> None:
        self._refuse()

    def drop(self, identifier: ObjectIdentifier) -> None:
        self._refuse()

    def rename(self, identifier: ObjectIdentifier, name: str) -> bool:
        self._refuse()


class _UnreadStore:
    """A catalog store that nobody looks into: it may have any catalog."""

    def names(self) -> list[str]:
        return []

    def read(self, name: str) -> CatalogDescriptor | None:
        return CatalogDescriptor({"type": "stored"})

    def write(self, name: str, descriptor: CatalogDescriptor) -> bool:
        return True

    def remove(self, name: str) -> None:
        pass


def _open_catalog(name: str, descriptor: CatalogDescriptor) -> Catalog:
    if descriptor.options.get("type") == IN_MEMORY:
        return MemoryCatalog(name, descriptor.options.get("default-database", "default"))
    return _UnopenedCatalog(name)


class Scratch:
    """A session for one reading of a script.

    Args:
        folder: the folder of the script.
        roots: the folders that may be read.
        options: the options of the session.

    Attributes:
        environment, session: the session.
        host: what refuses effects.
    """

    def __init__(self, folder: Path, roots: Roots, options: Mapping[str, str]) -> None:
        self.host = ScratchHost(folder, roots)
        self.environment = TableEnvironment.create(dict(options), jobs=Jobs(), host=self.host)
        self.session = self.environment.session
        catalog, config = self.session.catalog, self.session.config
        catalog.open_catalog = _open_catalog
        catalog.store = lambda: None if config.get(STORE_KIND) in (None, IN_MEMORY) else _UnreadStore()

    def declare(self, statement: ScriptStatement) -> TableResult:
        """Runs a statement that declares something or sets an option. Raises StateplanError."""
        node = statement.node
        if isinstance(node, nodes.FunctionStatement):
            return self._declare_function(statement)
        return self.environment.execute_statement(statement)

    def _declare_function(self, statement: ScriptStatement) -> TableResult:
        """The function has the types that its module declares, which is read and not imported."""
        self.host.is_declaring = True
        try:
            result = self.environment.execute_statement(statement)
        finally:
            self.host.is_declaring = False
        functions = self.session.catalog.functions
        for function in functions.all():
            if function.function is None and function.reference and function.language == "PYTHON":
                python_function = self._python_function(function)
                if python_function is not None:
                    functions.create(_with(function, python_function), overwrite=True)
        return result

    def _python_function(self, function: CatalogFunction) -> UserFunction | None:
        module, _, attribute = (function.reference or "").rpartition(".")
        path = self.module_file(module)
        return None if path is None else declared_function(path, attribute)

    def signatures(self) -> str:
        """The functions of Python as far as they could be read."""
        functions = [f.function for f in self.session.catalog.functions.all() if f.function is not None]
        return "; ".join(f"{f.kind} {f.signature} {f.result} {f.accumulator} {f.deterministic}" for f in functions)

    def module_file(self, module: str) -> Path | None:
        """The file of a module of Python in the workspace; None if there is none."""
        for folder in dict.fromkeys((str(self.host.folder), *self.host.roots.folders)):
            path = self.host.local_path(str(Path(folder, *module.split(".")).with_suffix(".py")))
            if module and path is not None and path.is_file():
                return path
        return None


def _with(function: CatalogFunction, python_function: UserFunction) -> CatalogFunction:
    return replace(function, function=python_function.with_name(function.name))


def is_below(path: Path, roots: Roots) -> bool:
    """Whether a file is below a root, wherever links lead."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(root) for root in roots.folders)


def roots_of(folders: Sequence[Path]) -> Roots:
    """The roots of some folders."""
    return Roots(tuple(dict.fromkeys(os.path.realpath(folder) for folder in folders)))
