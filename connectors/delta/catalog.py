"""A folder of Delta tables as a catalog: its sub-folders are databases, and theirs with a Delta log are tables.

    <warehouse>/<database>/<table>/_delta_log

An object store has no empty folders: there, a database is known to its session alone until it has a table.

CREATE TABLE writes the log of an empty table, as Delta's own catalogs do. The primary key, which Delta does not have,
is kept as the property ``stateplan.primary-key``. Data is never removed: tables are not dropped here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from stateplan.common.errors import CatalogError, DataError
from stateplan.common.files import absolute, local_path, rooted_path
from stateplan.common.options import Option, OptionType, options_below
from stateplan.common.paths import scan_folder
from stateplan.common.secrets import resolve_references
from stateplan.connectors.catalogs import CatalogType, ExternalCatalog, ExternalColumn, ExternalTable
from stateplan.connectors.delta.folders import table_folders
from stateplan.connectors.delta.properties import properties_of
from stateplan.connectors.delta.schema import check_columns, check_partitions, schema_of
from stateplan.connectors.delta.table import STORAGE, TABLE_PATH, Facts, Location, places_of
from stateplan.connectors.extras import require

_LOG = "_delta_log"
_KEY = "stateplan.primary-key"
_STRING = OptionType.STRING
_LONGEST = 255
"""Bytes that the name of a folder has at most, on the file systems of Linux."""
_FORBIDDEN = ("/", "\\", "\0", "%")
"""Characters that no name of a database or table has: it would be another folder."""


class DeltaCatalogType(CatalogType):
    """``'type' = 'delta'``."""

    name = "delta"
    options = (
        Option("warehouse", _STRING, "Path or URL of the folder of the databases.", is_required=True),
        Option("default-database", _STRING, "The database that is current after USE CATALOG.", default="default"),
        Option(f"{STORAGE}*", _STRING, "Option of the object store, as of the tables of the connector `delta`."),
    )
    paths = ("warehouse",)

    def places(self, options: Mapping[str, str]) -> Iterator[str]:
        return places_of(options_below(options, STORAGE))

    def open(self, name: str, options: Mapping[str, str]) -> ExternalCatalog:
        return DeltaCatalog(name, options, self.value(options, "default-database"))


class DeltaCatalog(ExternalCatalog):
    """The Delta tables below a folder.

    Args:
        name: under which a session knows it.
        options: the options of CREATE CATALOG; references to secrets stay in them.
        default_database: a database that exists even without a folder.

    Raises:
        CatalogError: CAT118, no folder can have the name of the default database.
    """

    kind: ClassVar[str] = DeltaCatalogType.name

    def __init__(self, name: str, options: Mapping[str, str], default_database: str) -> None:
        super().__init__(name, default_database)
        _check_folder(default_database)
        self._storage = {key: text for key, text in options.items() if key.startswith(STORAGE)}
        self._own_folders: set[str] = set()
        path = options["warehouse"]
        local = local_path(path)
        self._folder = path.rstrip("/") if local is None else absolute(local)

    def __repr__(self) -> str:
        return f"DeltaCatalog({self.name!r}, {self._folder!r})"

    def _location(self, *parts: str) -> Location:
        """Where a database or a table is. Raises CatalogError CAT118."""
        path = self._path(*parts)
        storage = {key.removeprefix(STORAGE): resolve_references(text, key) for key, text in self._storage.items()}
        return Location(".".join([self.name, *parts]), path, storage)

    def _path(self, *parts: str) -> str:
        """The path or URL of a database or a table. Raises CatalogError CAT118: a name could lead elsewhere."""
        for part in parts:
            _check_folder(part)
        return "/".join([self._folder, *parts])

    def _local(self, *parts: str) -> Path | None:
        """The folder of the catalog, a database or a table on local disk; None where the catalog is not there. Raises
        CatalogError CAT118; GatewayError GW012, a link in it leads out of the roots."""
        path = local_path(self._path(*parts))
        return None if path is None else Path(rooted_path(path))

    @contextmanager
    def _disk(self, action: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error) or type(error).__name__
            raise CatalogError("CAT113", what=action, path=self._folder, reason=reason) from error

    def connect(self) -> None:
        require("delta", "deltalake", f"the catalog '{self.name}' of type 'delta'")
        self._folders()

    def _folders(self, *parts: str) -> dict[str, bool]:
        """The folders in a folder, and whether each is a table; none if there is no such folder. Raises DataError,
        CatalogError."""
        if any(_is_wrong(part) for part in parts):
            return {}
        folder = self._local(*parts)
        if folder is None:
            return table_folders(self._location(*parts))
        with self._disk("be read"):
            try:
                with scan_folder(str(folder)) as entries:
                    names = [entry.name for entry in entries if entry.is_dir()]
            except FileNotFoundError:
                return {}
            except NotADirectoryError:
                if not parts:
                    raise
                return {}
        return {name: folder.joinpath(name, _LOG).is_dir() for name in names if name[:1] not in ("_", ".")}

    def databases(self) -> list[str]:
        folders = [name for name, is_table in self._folders().items() if not is_table]
        return list(dict.fromkeys([self.default_database, *folders, *sorted(self._own_folders)]))

    def tables(self, database: str) -> list[str]:
        return [name for name, is_table in self._folders(database).items() if is_table]

    def _open_table(self, database: str, name: str) -> Any:
        """The table of ``deltalake``; None when there is none. Raises DataError DATA451, DATA452."""
        if _is_wrong(database) or _is_wrong(name):
            return None
        folder = self._local(database, name)
        if folder is not None and not folder.joinpath(_LOG).is_dir():
            return None
        try:
            return self._location(database, name).open()
        except DataError as error:
            if folder is None and error.code == "DATA450":
                return None
            raise

    def table(self, database: str, name: str) -> ExternalTable | None:
        delta_table = self._open_table(database, name)
        if delta_table is None:
            return None
        location = self._location(database, name)
        facts = Facts.of(delta_table)
        columns = []
        for column in facts.columns:
            data_type = column.declared_type
            if data_type is None:
                raise CatalogError(
                    "CAT117.type_of_column",
                    column=column.name,
                    table=location.name,
                    type=column.type_text,
                    types="a type of Delta's protocol that SQL has too",
                    connector=self.kind,
                )
            comment = column.metadata.get("comment")
            columns.append(ExternalColumn(column.name, data_type, None if comment is None else str(comment)))
        key = _primary_key(facts.configuration, [column.name for column in columns])
        return ExternalTable(
            tuple(columns),
            self._location_options(location),
            key,
            "PK_" + "_".join(key) if key else None,
            facts.partitions,
            delta_table.metadata().description or None,
        )

    # what is made here

    def _location_options(self, location: Location) -> dict[str, str]:
        """The options of a table that follow from where it is."""
        return {"connector": "delta", TABLE_PATH: location.path, **self._storage}

    def inherited_options(self, options: Mapping[str, str]) -> Mapping[str, str]:
        return {}

    def options_of_new(self, database: str, name: str, table: ExternalTable) -> Mapping[str, str]:
        """The options that the table will have.

        Raises:
            CatalogError: CAT033, all columns are partition columns; CAT102, a type that Delta does not have; CAT117, an
                option that is not a property of a Delta table; CAT118, a name that cannot be a folder.
            OptionError: as :func:`properties_of`.
        """
        properties = properties_of(table.options)
        for key, text in table.options.items():
            if key not in properties and (key, text) != ("connector", "delta"):
                problem = f"the option '{key}'" if key != "connector" else f"the connector '{text}'"
                raise CatalogError("CAT117", name=self.name, kind=self.kind, what=problem)
        _check_name(name)
        fields = [(column.name, column.type) for column in table.columns]
        check_columns(fields)
        check_partitions(fields, table.partition_keys)
        return self._location_options(self._location(database, name)) | properties

    def create_table(self, database: str, name: str, table: ExternalTable) -> bool:
        """Writes the log of an empty table.

        Raises:
            CatalogError, OptionError: as :meth:`options_of_new`.
            DataError: DATA452, the store does not answer.
        """
        properties = properties_of(self.options_of_new(database, name, table))
        fields = [(column.name, column.type) for column in table.columns]
        if self._open_table(database, name) is not None:
            return False
        if table.primary_key:
            properties[_KEY] = json.dumps(table.primary_key)
        location = self._location(database, name)
        folder = self._local(database, name)
        if folder is not None:
            with self._disk("be written to"):
                folder.mkdir(parents=True, exist_ok=True)
        self._write(location, table, schema_of(fields), properties)
        return True

    def _write(
        self, location: Location, table: ExternalTable, schema: list[dict[str, Any]], properties: dict[str, str]
    ) -> None:
        delta = require("delta", "deltalake", f"the catalog '{self.name}' of type 'delta'")
        for part, column in zip(schema, table.columns, strict=True):
            if column.comment is not None:
                part["metadata"] = {"comment": column.comment}
        with location.reaching():
            delta.DeltaTable.create(
                location.uri,
                delta.Schema.from_json(json.dumps({"type": "struct", "fields": schema})),
                partition_by=list(table.partition_keys) or None,
                description=table.comment,
                configuration=properties or None,
                storage_options=location.options,
                raise_if_key_not_exists=False,
            )

    def drop_table(self, database: str, name: str) -> None:
        raise self.refusal("drop tables, which would remove their data", "remove the folder of the table yourself")

    def create_database(self, name: str) -> bool:
        _check_name(name)
        if name in self.databases():
            return False
        folder = self._local(name)
        if folder is not None:
            with self._disk("be written to"):
                folder.mkdir(parents=True, exist_ok=True)
            return True
        self._own_folders.add(name)
        return True

    def drop_database(self, name: str) -> None:
        if self.tables(name):
            raise self.refusal("drop tables, which would remove their data", "remove the folder of the tables yourself")
        folder = self._local(name)
        if folder is not None:
            with self._disk("remove a database"):
                folder.rmdir()
            return
        self._own_folders.discard(name)


def _is_wrong(name: str) -> bool:
    is_long = len(os.fsencode(name)) > _LONGEST
    return is_long or not name or name in (".", "..") or any(character in name for character in _FORBIDDEN)


def _check_folder(name: str) -> None:
    """Raises CatalogError CAT118 for a name that no folder can have."""
    if _is_wrong(name):
        raise CatalogError("CAT118", name=name, what="folder")


def _check_name(name: str) -> None:
    """Raises CatalogError CAT118 for a name that a new folder must not have: its tables would not be listed."""
    _check_folder(name)
    if name[:1] in ("_", "."):
        raise CatalogError("CAT118", name=name, what="folder")


def _primary_key(properties: Mapping[str, str], columns: list[str]) -> tuple[str, ...]:
    """The primary key that a table was created with here; none if its columns are gone."""
    try:
        names = [str(name) for name in json.loads(properties.get(_KEY, "[]"))]
    except ValueError:
        return ()
    return tuple(names) if set(names) <= set(columns) else ()
