"""Where the catalog of an Iceberg table is, how it is opened, and which files its tables may lead to.

Everything goes through ``pyiceberg``, which needs no JVM. Its errors become coded ones here. The metadata of a table
names files by absolute paths, and may name classes of Python that the library would import: :class:`_Guard` and
:func:`_rooted_files` refuse those, whoever has written the metadata.

Source: the catalog properties of Iceberg's Flink connector, and those of ``pyiceberg``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from stateplan.common.disk import full_disk
from stateplan.common.errors import CatalogError, DataError, OptionError, Place, StateplanError
from stateplan.common.files import absolute, below, local_path, rooted_path, safe_url
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, OptionType
from stateplan.common.redaction import secrets_of, without
from stateplan.common.roots import current_roots
from stateplan.connectors.extras import require

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.sorting import SortOrder

_TEXT = OptionType.STRING
_CLASSES = {
    "sql": "pyiceberg.catalog.sql:SqlCatalog",
    "rest": "pyiceberg.catalog.rest:RestCatalog",
    "hive": "pyiceberg.catalog.hive:HiveCatalog",
    "glue": "pyiceberg.catalog.glue:GlueCatalog",
}
"""``catalog-type`` to the catalog of the library."""

URI, WAREHOUSE, CATALOG_TYPE, CATALOG_NAME = "uri", "warehouse", "catalog-type", "catalog-name"
OF_SERVER = (WAREHOUSE, "prefix")
"""Which of the warehouses of a server has a table."""

_STORES = ("s3.", "gcs.", "adls.", "hdfs.")
_LOGIN = ("credential", "token", "scope", "audience", "resource", "oauth2-server-uri", "prefix")

CATALOG_OPTIONS = (
    Option(
        CATALOG_TYPE,
        OptionType.ENUM,
        "Kind of Iceberg catalog: a SQL database, a REST server, a Hive metastore or AWS Glue. The library has no "
        "`hadoop` and no `nessie`; Nessie answers as `rest`.",
        default="sql",
        values=tuple(_CLASSES),
    ),
    Option(
        CATALOG_NAME,
        _TEXT,
        "Name of the catalog. A SQL database holds the tables of several catalogs, each under its name.",
        default="default",
    ),
    Option(
        URI,
        _TEXT,
        "Address of the catalog: URL of a REST server or a metastore, or `sqlite:///` and the path of a file. Default "
        "with `'catalog-type' = 'sql'`: the file `catalog.db` in the warehouse.",
    ),
    Option(WAREHOUSE, _TEXT, "Path or URL of the folder of the tables, or its name at a REST server."),
    *(Option(key, _TEXT, "Login of a REST server, as in the specification of Iceberg's REST catalog.")
      for key in _LOGIN),
    Option("header.*", _TEXT, "Header of the requests to a REST server."),
    *(Option(f"{prefix}*", _TEXT, "Option of the object store, by the names of `pyiceberg`.") for prefix in _STORES),
)  # fmt: skip
"""What says where a catalog is, of tables and of CREATE CATALOG."""

_PLAIN_OPTIONS = re.compile(
    r"(s3\.(access-key-id|secret-access-key|session-token|region|role-session-name|connect-timeout|request-timeout"
    r"|force-virtual-addressing|resolve-region|anonymous)|gcs\.(oauth2\.\S+|project-id|default-location)"
    r"|adls\.(account-key|sas-token|client-id|client-secret|tenant-id)|hdfs\.(user|port|kerberos_ticket))"
)
"""Options of stores that name neither a file nor an address, and run nothing."""

_RUNS = re.compile(r"(?i)(^|[.-])(impl|class|signer)$|retry-strategy|py-.*-impl")
"""Options that name code."""

_SQLITE = re.compile(r"sqlite:///(?!file:)([^?#:]+)")
_PATIENCE = "30"
"""Seconds for which SQLite waits for another writer."""

MERGES = "commit.manifest-merge.enabled"
"""The property with which commits merge small manifests. Writers in Java do so by default, and the library does not."""

CODE_KEYS = ("py-io-impl", "py-catalog-impl", "write.py-location-provider.impl", "s3.retry-strategy-impl")
"""Properties with which the library imports a class."""

_TIMEOUTS = (5.0, 30.0)
"""Seconds for which a REST server may take to accept a connection, and then to send the next bytes of an answer."""


def catalog_options_of(options: Mapping[str, str]) -> dict[str, str]:
    """Those of the options of a table, or of a catalog, that say where the catalog is."""
    keys = {option.key for option in CATALOG_OPTIONS if not option.key.endswith("*")}
    prefixes = tuple(option.key[:-1] for option in CATALOG_OPTIONS if option.key.endswith("*"))
    return {key: text for key, text in options.items() if key in keys or key.startswith(prefixes)}


def check_catalog(options: Mapping[str, str], place: Place | None = None) -> None:
    """Raises OptionError OPT175, options that lead to no catalog."""
    kind, uri, warehouse = options.get(CATALOG_TYPE, "sql").lower(), options.get(URI), options.get(WAREHOUSE)
    if kind == "sql":
        if uri is None and (warehouse is None or _local(warehouse) is None):
            raise OptionError("OPT175", place=place, kind=kind, key=URI)
        if uri is not None and uri.lower().startswith("sqlite") and not _SQLITE.fullmatch(uri):
            raise OptionError("OPT175.sqlite", place=place, uri=safe_url(uri))
    elif uri is None and kind in ("rest", "hive"):
        raise OptionError("OPT175", place=place, kind=kind, key=URI)


def places_of(options: Mapping[str, str]) -> Iterator[str]:
    """The files and addresses that options may name; see :meth:`Connector.places`."""
    uri = options.get(URI, "")
    match = _SQLITE.fullmatch(uri)
    if match is not None:
        yield "/" + unquote(match[1]).lstrip("/")
    elif uri:
        yield uri
    for key, text in options.items():
        if key.startswith(_STORES) and not _PLAIN_OPTIONS.fullmatch(key):
            yield text


def programs_of(options: Mapping[str, str]) -> Iterator[str]:
    """The options that name code; see :meth:`Connector.programs`."""
    for key in catalog_options_of(options):
        if _RUNS.search(key):
            yield key


def _local(path: str) -> str | None:
    """The path on local disk; None for a URL of a store, or for what is no path."""
    try:
        return local_path(path)
    except StateplanError:
        return None


@dataclass(frozen=True)
class CatalogAccess:
    """A catalog. Picklable; a repr of it has no secrets.

    Attributes:
        options: those of :data:`CATALOG_OPTIONS`, with what references stand for.
    """

    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def kind(self) -> str:
        return self.options.get(CATALOG_TYPE, "sql").lower()

    @property
    def name(self) -> str:
        return self.options.get(CATALOG_NAME, "default")

    @property
    def place(self) -> str:
        """Where it is, without secrets."""
        return safe_url(self.options.get(URI) or self.options.get(WAREHOUSE) or self.kind)

    @property
    def local_warehouse(self) -> str | None:
        """The folder of the tables, if it is on local disk."""
        path = _local(self.options.get(WAREHOUSE, "s3:"))
        return None if path is None else absolute(path)

    def properties(self) -> dict[str, str]:
        """The properties for the library. Raises OptionError OPT175; GatewayError GW012."""
        check_catalog(self.options)
        properties = {key: text for key, text in self.options.items() if key not in (CATALOG_TYPE, CATALOG_NAME)}
        for key in properties:
            if _RUNS.search(key):
                raise OptionError("OPT175.code", key=key)
        folder = self.local_warehouse
        if folder is not None and WAREHOUSE in properties:
            properties[WAREHOUSE] = rooted_path(folder)
        if self.kind == "sql":
            uri = properties.get(URI)
            match = _SQLITE.fullmatch(uri) if uri is not None else None
            if uri is None or match is not None:
                path = f"{folder}/catalog.db" if match is None else absolute(unquote(match[1]))
                properties[URI] = f"sqlite:///{quote(rooted_path(path))}?timeout={_PATIENCE}"
        properties["py-io-impl"] = _OWN_FILES
        return properties

    def open(self, create: bool = False) -> Catalog:
        """The catalog. A process opens it once, except for a file, which others may remove and make anew.

        Args:
            create: whether a file is made where there is none.

        Raises:
            OptionError: OPT122, the library is not installed; OPT175.
            DataError: DATA474, there is no file; DATA475, it does not answer.
        """
        require("iceberg", "pyiceberg.catalog", "the connector 'iceberg'")
        properties = self.properties()
        path = _sqlite_file(properties)
        with self.reaching():
            if path is None:
                return _open_once(os.getpid(), self.kind, self.name, tuple(sorted(properties.items())))
            if create:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            elif not os.path.exists(path):
                raise DataError("DATA474", name=self.name, place_of_catalog=self.place)
            return _open(self.kind, self.name, properties)

    @contextmanager
    def reaching(self, name: str | None = None) -> Iterator[None]:
        """Turns the errors of the library into coded ones, except for those of commits that others overtook.

        Args:
            name: of the table, for messages.
        """
        from pyiceberg import exceptions

        subject = f"the Iceberg catalog '{self.name}'" if name is None else f"the Iceberg table {name}"
        try:
            yield
        except (exceptions.CommitFailedException, exceptions.CommitStateUnknownException, StateplanError):
            raise
        except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError, exceptions.NoSuchIcebergTableError):
            raise DataError("DATA474", name=name or self.name, place_of_catalog=self.place) from None
        except Exception as error:
            full = None if self.local_warehouse is None else full_disk(error, Path(self.local_warehouse))
            reason = self.error_text(error)
            if "equality deletes" in reason:
                raise DataError("DATA476", subject=subject, reason="it has equality deletes") from None
            if reason.startswith(_UNKNOWN_VERSION):
                raise DataError("DATA476", subject=subject, reason=reason) from None
            raise full or DataError("DATA475", subject=subject, place_of_catalog=self.place, reason=reason) from None

    def error_text(self, error: BaseException) -> str:
        """What the library says of its error, on one line, without secrets."""
        text = _problem_of_metadata(error) or str(error)
        lines = [line for line in text.splitlines() if not line.startswith(("[SQL:", "(Background on"))]
        text = " ".join(" ".join(lines).split()) or type(error).__name__
        _, _, client_secret = self.options.get("credential", "").rpartition(":")
        return without(text, secrets_of(self.options) | {client_secret})[:300]


_UNKNOWN_VERSION = "the format version of its metadata is"


def _problem_of_metadata(error: BaseException) -> str | None:
    """What is wrong with the metadata of a table, without the metadata; None for another error."""
    from pydantic import ValidationError

    cause = error if isinstance(error, ValidationError) else error.__cause__
    if not isinstance(cause, ValidationError):
        return None
    first = cause.errors()[0]
    if first["type"] == "union_tag_invalid":
        return f"{_UNKNOWN_VERSION} {first['ctx']['tag']}, and the library reads {first['ctx']['expected_tags']}"
    place = ".".join(str(part) for part in first["loc"])
    return f"its metadata is damaged: {place and f'{place}: '}{first['msg']}"


def _class_of(kind: str) -> Any:
    module, _, name = _CLASSES[kind].partition(":")
    return getattr(import_module(module), name)


def _open(kind: str, name: str, properties: Mapping[str, str]) -> Catalog:
    base = _class_of(kind)
    catalog: Any = type(f"Guarded{base.__name__}", (_Guard, base), {})(name, **dict(properties))
    if _sqlite_file(properties) is not None:
        from sqlalchemy import NullPool, create_engine

        catalog.engine.dispose()
        catalog.engine = create_engine(properties[URI], poolclass=NullPool)  # no file stays open
    guarded_catalog: Catalog = catalog
    return guarded_catalog


@lru_cache(maxsize=16)
def _open_once(process: int, kind: str, name: str, properties: tuple[tuple[str, str], ...]) -> Catalog:
    """A catalog of this process: a connection does not survive a fork."""
    return _open(kind, name, dict(properties))


def _sqlite_file(properties: Mapping[str, str]) -> str | None:
    """The file of an embedded catalog; None for a server."""
    uri = properties.get(URI, "")
    return unquote(uri.removeprefix("sqlite:///").partition("?")[0]) if uri.startswith("sqlite:") else None


class _Guard:
    """A catalog whose tables import no code, and which ends its requests: the only place that overrides a part of the
    library. Properties are those of the user, of the metadata of a table, and of the answers of a REST server."""

    properties: dict[str, str]

    def _load_file_io(self, properties: Mapping[str, str] = {}, location: str | None = None) -> Any:
        merged_properties = {**self.properties, **properties}
        for key in CODE_KEYS:
            if merged_properties.get(key) not in (None, _OWN_FILES):
                raise DataError("DATA476", subject="the Iceberg table", reason=f"its property '{key}' names code")
        roots = current_roots()
        if roots is not None:
            for place in places_of({k: text for k, text in properties.items() if self.properties.get(k) != text}):
                below(roots, place)
        return RootedFiles(merged_properties)

    def _create_session(self) -> Any:
        session = super()._create_session()  # type: ignore[misc]
        session.request = partial(session.request, timeout=_TIMEOUTS)
        return session


_OWN_FILES = f"{__name__}.RootedFiles"


def RootedFiles(properties: Mapping[str, str]) -> Any:  # noqa: N802 - the library looks for a class of this name
    """The files of tables: only those below the roots of this thread, where it has some. The threads of the library,
    which read for it, have none."""
    return _rooted_files()({**_environment_of(properties), **properties})


def _environment_of(properties: Mapping[str, str]) -> dict[str, str]:
    """What no property says of S3: the endpoint and the region of the environment, as for other tables. Without a
    region, the library would ask AWS for that of the bucket, for seconds and in vain if it is at another server."""
    values = {
        "s3.endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        "s3.region": () if "client.region" in properties else ("AWS_REGION", "AWS_DEFAULT_REGION"),
    }
    settings = {key: next(filter(None, map(os.environ.get, names)), None) for key, names in values.items()}
    own = {key: text for key, text in settings.items() if text is not None and key not in properties}
    if "s3.endpoint" in {**properties, **own} and not {"s3.region", "client.region"} & {*properties, *own}:
        own["s3.region"] = "us-east-1"
    return own


@lru_cache(maxsize=1)
def _rooted_files() -> Any:
    from pyiceberg.io.pyarrow import PyArrowFileIO

    class Rooted(PyArrowFileIO):
        def __init__(self, properties: dict[str, str]) -> None:
            super().__init__(properties)
            self.roots = current_roots()

        def _check(self, location: str) -> str:
            if self.roots is not None:
                below(self.roots, location)
            return location

        def new_input(self, location: str) -> Any:
            return super().new_input(self._check(location))

        def new_output(self, location: str) -> Any:
            return super().new_output(self._check(location))

        def delete(self, location: Any) -> None:
            self._check(location if isinstance(location, str) else location.location)
            super().delete(location)

    return Rooted


_FORBIDDEN = ("/", "\\", "\0", "%", ".")
"""Characters that no new name has: it would be another folder of the warehouse, or a nested database."""

_LONGEST = 255
"""Bytes that the name of a folder has at most, on the file systems of Linux."""


def check_name(name: str) -> None:
    """Raises CatalogError CAT118 for a name that a new table or database cannot have."""
    is_long = len(os.fsencode(name)) > _LONGEST
    if is_long or not name or any(character in name for character in _FORBIDDEN):
        raise CatalogError("CAT118", name=name, what="folder")


_RECENT = 10.0
"""Seconds for which a worker uses the metadata that it has read."""

_recent_tables: dict[tuple[int, str, Any], tuple[float, Table]] = {}


@dataclass(frozen=True)
class TableAccess:
    """A table of a catalog. Picklable; a repr of it has no secrets.

    Attributes:
        name: of the table, for errors.
        catalog: its catalog.
        database: its database in the catalog.
        table: its name there.
    """

    name: str
    catalog: CatalogAccess
    database: str
    table: str

    @property
    def identifier(self) -> tuple[str, ...]:
        """As the library names it. A database with dots is nested."""
        return (*self.database.split("."), self.table)

    @property
    def place(self) -> str:
        """What identifies it for :class:`connectors.sink_epochs.Ledger`."""
        catalog = self.catalog
        parts = [] if catalog.kind == "sql" else [catalog.options[key] for key in OF_SERVER if key in catalog.options]
        return "|".join([catalog.kind, catalog.name, catalog.place, *parts, *self.identifier])

    @property
    def label(self) -> str:
        return f"the Iceberg table {self.name}"

    def open(self) -> Table:
        """The table as it is.

        Raises:
            DataError: DATA474, it does not exist; DATA475, the catalog or the store does not answer; DATA476, it names
                code, or has an unknown format.
            OptionError: as :meth:`CatalogAccess.open`.
        """
        catalog = self.catalog.open()
        with self.catalog.reaching(self.name):
            return catalog.load_table(self.identifier)

    def create(self, schema: Schema, spec: PartitionSpec, order: SortOrder, properties: Mapping[str, str]) -> bool:
        """Makes an empty table, and its database; False if there is one of this name. Raises as :meth:`open`;
        CatalogError CAT118."""
        from pyiceberg.exceptions import TableAlreadyExistsError

        for part in self.identifier:
            check_name(part)
        catalog = self.catalog.open(create=True)
        with self.reaching():
            catalog.create_namespace_if_not_exists(self.identifier[:-1])
            try:
                own_properties = {MERGES: "true", **properties}
                catalog.create_table(self.identifier, schema, None, spec, order, own_properties)
            except TableAlreadyExistsError:
                return False
        return True

    def open_recent(self, snapshot_id: int, ids: Sequence[int]) -> Table:
        """The table as it was a few seconds ago at most, for the splits of a micro-batch. Raises as :meth:`open`.

        Args:
            snapshot_id: a snapshot that it has.
            ids: of columns that it has.
        """
        key = (os.getpid(), self.place, current_roots())
        since, table = _recent_tables.get(key, (0.0, None))
        if (
            table is None
            or time.monotonic() - since > _RECENT
            or table.snapshot_by_id(snapshot_id) is None
            or not {f.field_id for schema in table.metadata.schemas for f in schema.fields} >= set(ids)
        ):
            table = self.open()
            _recent_tables.clear()
            _recent_tables[key] = (time.monotonic(), table)
        return table

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """As :meth:`CatalogAccess.reaching`."""
        with self.catalog.reaching(self.name):
            yield

    def error_text(self, error: BaseException) -> str:
        """As :meth:`CatalogAccess.error_text`."""
        return self.catalog.error_text(error)
