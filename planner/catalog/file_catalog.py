"""A catalog on disk: what a session has created there, the next one knows, and another one beside it too.

Each object is one file, the statement that creates it (:mod:`planner.catalog.definitions`):

    <path>/<database>/database.sql
    <path>/<database>/tables/<table>.sql
    <path>/<database>/views/<view>.sql
    <path>/<database>/functions/<function>.sql

Every look-up reads the files anew. A file appears whole, and who writes holds a lock on the catalog. A file that cannot
be read hurts only what it defines.

Codes: CAT111 to CAT118.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from stateplan.common.errors import CatalogError, Place
from stateplan.common.files import absolute, filesystem_of, local_path, rooted_path
from stateplan.common.paths import AnyPath, RemotePath, remove_tree, write_whole
from stateplan.planner.catalog.catalogs import Catalog, Database
from stateplan.planner.catalog.definitions import (
    database_text,
    function_text,
    object_text,
    read_database,
    read_function,
    read_object,
)
from stateplan.planner.catalog.functions import CatalogFunction
from stateplan.planner.catalog.manager import CatalogManager
from stateplan.planner.catalog.objects import CatalogObject, ObjectIdentifier
from stateplan.runtime.checkpoint.locks import locked

FILE = "file"
"""The type of catalogs on disk."""

_FOLDERS = {"TABLE": "tables", "VIEW": "views"}
_FUNCTIONS = "functions"
_DATABASE = "database.sql"
_LOCK = ".lock"
_WAIT = 10.0
"""Seconds to wait for another process that writes: what it does takes milliseconds."""
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_MOST = 240
"""Bytes of a file's name without its ending."""


def file_name(name: str) -> str:
    """The name of a file or folder for an object: characters that file systems treat in different ways are
    percent-encoded."""
    if _PLAIN.fullmatch(name):
        return name
    return "".join(
        chr(byte) if chr(byte).isascii() and re.match(r"[A-Za-z0-9_-]", chr(byte)) else f"%{byte:02X}"
        for byte in name.encode("utf-8", "surrogatepass")
    )


def object_name(file: str) -> str:
    """The name of the object that a file or folder is called after."""
    return unquote(file)


def folder_at(text: str) -> AnyPath:
    """The folder of a path or URL. Raises DataError DATA101, DATA107, DATA108."""
    local = local_path(text)
    if local is not None:
        return Path(absolute(local))
    return RemotePath(*filesystem_of(text))


@contextmanager
def disk(action: str, path: AnyPath) -> Iterator[None]:
    """Within, an error of the operating system becomes CatalogError CAT113. Raises GatewayError GW012 for a local path
    that is not below a root, where roots are held."""
    if isinstance(path, Path):
        rooted_path(str(path))
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise CatalogError("CAT113", what=action, path=str(path), reason=reason) from error


@contextmanager
def writing(folder: AnyPath) -> Iterator[None]:
    """Within, no other process writes to a folder. Raises CatalogError CAT113, CAT115."""
    with disk("be written to", folder):
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / _LOCK, _WAIT) as is_locked:
            if not is_locked:
                raise CatalogError("CAT115", path=str(folder), seconds=f"{_WAIT:g}")
            yield


def read_file(path: AnyPath) -> str | None:
    """The text of a file; None if there is none. Raises CatalogError CAT111, CAT113."""
    with disk("be read", path):
        try:
            return path.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnicodeDecodeError as error:
            raise CatalogError(
                "CAT111", name=f"'{object_name(path.stem)}'", reason="it is not UTF-8 text", place=Place(str(path))
            ) from error


def write_file(path: AnyPath, text: str) -> None:
    """Writes a file that readers see whole or not at all. Raises CatalogError CAT113."""
    with disk("be written to", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text, lasting=True)


def remove_file(path: AnyPath) -> None:
    """Removes a file, if it is there. Raises CatalogError CAT113."""
    with disk("be written to", path):
        path.unlink(missing_ok=True)


def names_in(folder: AnyPath, ending: str) -> list[str]:
    """The names of the objects in files with this ending; none if the folder does not exist. Raises CatalogError
    CAT113."""
    with disk("be read", folder):
        if not folder.is_dir():
            return []
        names = [path.name for path in folder.iterdir() if path.name.endswith(ending) and path.name[:1] != "."]
    return [object_name(name.removesuffix(ending)) for name in names]


class StoredCatalog(Catalog):
    """A catalog on disk.

    Args:
        name: its name in the session.
        path: path or URL of its folder. The folder need not exist yet.
        default_database: a database that always exists.
        session: the catalogs of the session. Expressions of tables may call their functions.

    Raises:
        DataError: DATA101, DATA107, DATA108: the URL cannot be opened.
        CatalogError: CAT113, the folder cannot be read.
    """

    def __init__(self, name: str, path: str, default_database: str, session: CatalogManager) -> None:
        self.name = name
        self.default_database = default_database
        self.folder = folder_at(path)
        self.functions = _StoredFunctions(self)
        self._session = session
        self._read: dict[ObjectIdentifier, tuple[str, CatalogObject]] = {}
        with disk("be read", self.folder):
            if self.folder.exists() and not self.folder.is_dir():
                raise NotADirectoryError(None, "it is a file")

    # databases

    def databases(self) -> list[str]:
        with disk("be read", self.folder):
            exists = self.folder.is_dir()
            folder_names = [path.name for path in self.folder.iterdir() if path.name[:1] != "."] if exists else []
            names = [object_name(name) for name in folder_names if (self.folder / name).is_dir()]
        return list(dict.fromkeys([self.default_database, *names]))

    def _has(self, database: str) -> bool:
        if database == self.default_database:
            return True
        with disk("be read", self.folder):
            return self._of(database).is_dir()

    def database(self, name: str) -> Database | None:
        if not self._has(name):
            return None
        path = self._of(name) / _DATABASE
        text = read_file(path)
        return Database(name) if text is None else read_database(text, str(path), name)

    def create_database(self, database: Database) -> bool:
        text = database_text(database)
        with writing(self.folder):
            if self._has(database.name):
                return False
            write_file(self._of(database.name) / _DATABASE, text)
        return True

    def drop_database(self, name: str) -> None:
        if name == self.default_database:
            raise CatalogError("CAT110", name=self.name, kind=FILE, what="drop its default database")
        with writing(self.folder):
            folder = self._of(name)
            remove_tree(folder)
            with disk("be written to", folder):
                if folder.exists():
                    raise OSError(None, "it cannot be removed")

    def _of(self, database: str) -> AnyPath:
        return self.folder / _require_file_name(database)

    # tables and views

    def kinds(self, database: str) -> dict[str, str]:
        folder = self._of(database)
        return {name: kind for kind, part in _FOLDERS.items() for name in names_in(folder / part, ".sql")}

    def kind(self, identifier: ObjectIdentifier) -> str | None:
        with disk("be read", self.folder):
            return next((kind for kind in _FOLDERS if self._path(identifier, kind).is_file()), None)

    def _path(self, identifier: ObjectIdentifier, kind: str) -> AnyPath:
        return self._of(identifier.database) / _FOLDERS[kind] / f"{_require_file_name(identifier.name)}.sql"

    def find(self, identifier: ObjectIdentifier) -> CatalogObject | None:
        for kind in _FOLDERS:
            path = self._path(identifier, kind)
            text = read_file(path)
            if text is None:
                continue
            cached_object = self._read.get(identifier)
            if cached_object is None or cached_object[0] != text:
                cached_object = text, read_object(text, str(path), identifier, kind, self._session)
                self._read[identifier] = cached_object
            return cached_object[1]
        self._read.pop(identifier, None)
        return None

    def create(self, item: CatalogObject) -> bool:
        text = object_text(item)
        with writing(self.folder):
            if self.kind(item.identifier) is not None:
                return False
            write_file(self._path(item.identifier, item.kind), text)
        return True

    def replace(self, item: CatalogObject) -> None:
        text = object_text(item)
        with writing(self.folder):
            if self.kind(item.identifier) != item.kind:
                raise self._missing_object(item.identifier)
            write_file(self._path(item.identifier, item.kind), text)

    def drop(self, identifier: ObjectIdentifier) -> None:
        with writing(self.folder):
            kind = self.kind(identifier)
            if kind is None:
                raise self._missing_object(identifier)
            remove_file(self._path(identifier, kind))

    def rename(self, identifier: ObjectIdentifier, name: str) -> bool:
        new = ObjectIdentifier(identifier.catalog, identifier.database, name)
        with writing(self.folder):
            item = self.find(identifier)
            if item is None:
                raise self._missing_object(identifier)
            if self.kind(new) is not None:
                return False
            write_file(self._path(new, item.kind), object_text(replace(item, identifier=new)))
            remove_file(self._path(identifier, item.kind))
        return True

    def _missing_object(self, identifier: ObjectIdentifier) -> CatalogError:
        return CatalogError("CAT116", summary=identifier.summary)

    # functions

    def function_path(self, key: tuple[str, str]) -> AnyPath:
        """The file of a function."""
        return self._of(key[0]) / _FUNCTIONS / f"{_require_file_name(key[1])}.sql"

    def function(self, key: tuple[str, str]) -> CatalogFunction | None:
        """A function; None if there is none. Raises CatalogError; StateplanError when the session must not use it."""
        path = self.function_path(key)
        text = read_file(path)
        if text is None:
            return None
        identifier = ObjectIdentifier(self.name, *key)
        return read_function(text, str(path), identifier)


def _require_file_name(name: str) -> str:
    """The name of a file for an object. Raises CatalogError CAT118, when no file can be called like this."""
    stem = file_name(name)
    if not stem or len(stem) > _MOST:
        raise CatalogError("CAT118", name=name[:40], most=_MOST, what="file")
    return stem


class _StoredFunctions(MutableMapping[tuple[str, str], CatalogFunction]):
    """The functions of a stored catalog, by database and name in small letters."""

    def __init__(self, catalog: StoredCatalog) -> None:
        self._catalog = catalog

    def __getitem__(self, key: tuple[str, str]) -> CatalogFunction:
        function = self._catalog.function(key)
        if function is None:
            raise KeyError(key)
        return function

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and read_file(self._catalog.function_path(key)) is not None

    def __setitem__(self, key: tuple[str, str], function: CatalogFunction) -> None:
        with writing(self._catalog.folder):
            write_file(self._catalog.function_path(key), function_text(function))

    def __delitem__(self, key: tuple[str, str]) -> None:
        with writing(self._catalog.folder):
            remove_file(self._catalog.function_path(key))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for database in self._catalog.databases():
            folder = self._catalog.folder / file_name(database) / _FUNCTIONS
            for name in names_in(folder, ".sql"):
                yield database, name

    def __len__(self) -> int:
        return sum(1 for _ in self)
