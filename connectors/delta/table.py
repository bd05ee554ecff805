"""Where a Delta table is, how it is opened, and what of it this connector can read and write.

Everything goes through the ``deltalake`` library, which needs no JVM. Its errors become coded ones here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateplan.common.disk import full_disk
from stateplan.common.errors import DataError, OptionError, RunError
from stateplan.common.files import absolute, has_scheme, local_path, require_root, rooted_path, safe_url
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.redaction import secrets_of, without
from stateplan.common.roots import current_roots
from stateplan.connectors.delta.bounds import check_log, is_absolute
from stateplan.connectors.delta.schema import DeltaColumn, check_partitions, columns_of
from stateplan.connectors.extras import require

if TYPE_CHECKING:
    from deltalake import DeltaTable

TABLE_PATH = "table-path"
STORAGE = "storage."

_PLAIN = frozenset(
    """
    access_key access_key_id account_key account_name allow_http allow_invalid_certificates bucket bucket_name
    checksum_algorithm client_id client_secret conditional_put connect_timeout container_name copy_if_not_exists
    default_region disable_tagging http1_only http2_only imdsv1_fallback max_retries pool_idle_timeout
    pool_max_idle_per_host region request_payer retry_timeout s3_allow_unsafe_rename s3_express sas_key sas_token
    secret_access_key secret_key server_side_encryption session_token skip_signature sse_bucket_key_enabled
    sse_customer_key_base64 sse_kms_key_id storage_account_key storage_account_name storage_client_id
    storage_client_secret storage_sas_key storage_sas_token storage_tenant_id storage_token tenant_id timeout token
    unsigned_payload user_agent virtual_hosted_style_request
    """.split()  # noqa: SIM905 - names as in the manual
)
"""Options of stores, without the name of the cloud, that name neither a file nor an address, and run nothing."""

_IN_ADDRESS = frozenset(
    """
    account_name bucket bucket_name container_name default_region region storage_account_name storage_tenant_id
    tenant_id
    """.split()  # noqa: SIM905 - names as in the manual
)
"""Those of which the client of the store makes an address. It does not escape them."""

_NAME = re.compile(r"[\w.-]*", re.ASCII)
_CLOUDS = ("aws_", "azure_", "google_")


def places_of(storage: Mapping[str, str]) -> Iterator[str]:
    """The files and addresses that options of a store may name; see :meth:`Connector.places`. Of an option that is not
    known to be something else, the value has to be one.

    Args:
        storage: options by the names of ``deltalake``.
    """
    for name, text in storage.items():
        plain = name.lower()
        for cloud in _CLOUDS:
            plain = plain.removeprefix(cloud)
        if plain not in _PLAIN or (plain in _IN_ADDRESS and not _NAME.fullmatch(text)):
            yield text


_USER = "the connector 'delta'"
_PATIENCE = {"timeout": "30s", "connect_timeout": "5s", "max_retries": "3", "retry_timeout": "30s"}
"""How long an object store may take to answer. Source: options of the client of ``object_store``."""

_READABLE = frozenset(
    {"timestampNtz", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck", "typeWidening", "columnMapping"}
)
_WRITABLE = frozenset(
    {
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"),
        *("identityColumns", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"),
    }
)
"""Features of tables. Whether a table makes use of some that are here is a matter of its columns and properties."""

_COLORS = re.compile(r"\x1b\[[0-9;]*m|↳")
_BACKTRACE = re.compile(r"\n\s*(?:0: |stack backtrace:).*", re.DOTALL)
"""What native code appends to an error: its own calls, which say nothing to a user."""

_KINDS = {
    "Kernel error: Json error: ": "DATA457",
    "Kernel error: Invalid protocol action in the delta log: ": "DATA457",
    "Kernel error: Unsupported: ": "DATA451.protocol",
}
"""How errors about what the log says begin."""


@dataclass(frozen=True)
class Location:
    """Where a Delta table is. Picklable; a repr of it has no secrets.

    Attributes:
        name: the name of the table, for errors.
        path: the path of its folder: a path or URL.
        storage: options of the store, by the names of ``deltalake``, with what references stand for.
    """

    name: str
    path: str
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_local(self) -> bool:
        return local_path(self.path) is not None

    @property
    def uri(self) -> str:
        """The URL for ``deltalake``.

        Raises:
            OptionError: OPT173, a local path with ``%``, which the library takes for an escape.
            GatewayError: GW012, it is not below a root.
        """
        local = local_path(self.path)
        if local is None:
            require_root(self.path)
            return self.path
        if "%" in local:
            raise OptionError("OPT173", path=self.path)
        return Path(rooted_path(absolute(local))).as_uri()

    @property
    def options(self) -> dict[str, str] | None:
        """The options of the store for ``deltalake``."""
        if self.is_local:
            return dict(self.storage) or None
        return {**_PATIENCE, **self.storage}

    def open(self, version: int | None = None) -> DeltaTable:
        """The table as it is, or as it was.

        Raises:
            DataError: DATA450, it does not exist; DATA451, it has features that cannot be read; DATA452, the store does
                not answer; DATA457, its log is damaged.
            OptionError: OPT122, the library is not installed.
        """
        delta = require("delta", "deltalake", _USER)
        self._look()
        with self.reaching():
            table: DeltaTable = delta.DeltaTable(self.uri, version=version, storage_options=self.options)
        return table

    def _look(self) -> None:
        """Where roots are held, looks where the log leads. Raises GatewayError GW012, and as :meth:`open`."""
        roots = current_roots()
        if roots is not None:
            local = local_path(self.path)
            files = self.files()
            with self.reaching():
                check_log(roots, self.uri, None if local is None else absolute(local), files)

    def exists(self) -> bool:
        """Whether there is a Delta table. Raises the same errors as :meth:`open`."""
        delta = require("delta", "deltalake", _USER)
        with self.reaching():
            return bool(delta.DeltaTable.is_deltatable(self.uri, storage_options=self.options))

    def files(self) -> Any:
        """The ``pyarrow`` filesystem whose root is the folder of the table. Raises the same errors as :meth:`open`."""
        require("delta", "deltalake", _USER)
        with self.reaching():
            return _file_system(self.uri, tuple(sorted((self.options or {}).items())))

    def of_file(self, path: str) -> tuple[Location, str]:
        """Where a file is that the log names: the folder of the table, or another one for an absolute path; and its
        path in there."""
        if not is_absolute(path):
            return self, path
        if not has_scheme(path) and not self.is_local:  # of the store of the table
            scheme, _, rest = self.path.partition("://")
            path = f"{scheme}://{rest.partition('/')[0]}{path}"
        folder, _, name = path.rpartition("/")
        return Location(self.name, folder if folder.rstrip("/") else "/", self.storage), name

    def local_file(self, path: str) -> str | None:
        """The path of a file in this folder on local disk; None for a folder elsewhere."""
        folder = local_path(self.path)
        return None if folder is None else os.path.join(absolute(folder), path)

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Turns the errors of ``deltalake`` into coded ones, except for those of commits that others overtook."""
        from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError, TableNotFoundError

        try:
            yield
        except CommitFailedError as error:
            raise self.full(error) or error from None
        except TableNotFoundError as error:
            code = "DATA450.scheme" if "Unknown scheme" in str(error) else "DATA450"
            raise DataError(code, name=self.name, path=safe_url(self.path)) from None
        except DeltaProtocolError as error:
            raise DataError("DATA451.protocol", name=self.name, reason=self.error_text(error)) from None
        except (DeltaError, OSError) as error:
            reason = self.error_text(error)
            for start, code in _KINDS.items():
                if reason.startswith(start):
                    raise DataError(code, name=self.name, reason=reason.removeprefix(start)) from None
            if (local := local_path(self.path)) is not None and os.path.isfile(local):
                raise DataError("DATA450", name=self.name, path=safe_url(self.path)) from None
            access_error = DataError("DATA452", name=self.name, path=safe_url(self.path), reason=reason)
            raise self.full(error) or access_error from None

    def full(self, error: BaseException) -> RunError | None:
        """RUN031 where the local disk of the table is full; None for any other error."""
        local = local_path(self.path)
        return None if local is None else full_disk(error, Path(local))

    def error_text(self, error: BaseException) -> str:
        """What a library says of its error, on one line, without secrets and without a native backtrace."""
        text = " ".join(_BACKTRACE.sub("", _COLORS.sub("", str(error))).split()) or type(error).__name__
        return without(text, secrets_of(self.storage))[:300]


@lru_cache(maxsize=16)
def _file_system(uri: str, options: tuple[tuple[str, str], ...]) -> Any:
    """One for each table, as each has connections of its own."""
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    return PyFileSystem(DeltaStorageHandler(uri, dict(options) or None))


@dataclass(frozen=True)
class Facts:
    """What the log says of a table at a version.

    Attributes:
        columns: in order.
        partitions: names of the partition columns.
        configuration: the properties of the table.
        features: names of the features that readers must know.
        writer_features: names of the features that writers must know.
    """

    columns: tuple[DeltaColumn, ...]
    partitions: tuple[str, ...]
    configuration: Mapping[str, str]
    features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()

    @staticmethod
    def of(table: DeltaTable) -> Facts:
        """Those of an opened table."""
        meta, protocol = table.metadata(), table.protocol()
        return Facts(
            tuple(columns_of(json.loads(table.schema().to_json()))),
            tuple(meta.partition_columns),
            dict(meta.configuration),
            frozenset(protocol.reader_features or ()),
            frozenset(protocol.writer_features or ()),
        )

    def after(self, metadata: Mapping[str, Any] | None, protocol: Mapping[str, Any] | None) -> Facts:
        """Those behind a commit with these actions."""
        facts = self
        if metadata is not None:
            columns = tuple(columns_of(json.loads(metadata["schemaString"])))
            partitions = tuple(metadata.get("partitionColumns") or ())
            properties = dict(metadata.get("configuration") or {})
            facts = Facts(columns, partitions, properties, facts.features, facts.writer_features)
        if protocol is not None:
            features = (frozenset(protocol.get(key) or ()) for key in ("readerFeatures", "writerFeatures"))
            facts = Facts(facts.columns, facts.partitions, facts.configuration, *features)
        return facts

    @property
    def has_change_feed(self) -> bool:
        return self.configuration.get("delta.enableChangeDataFeed", "").lower() == "true"

    @property
    def is_append_only(self) -> bool:
        return self.configuration.get("delta.appendOnly", "").lower() == "true"

    @property
    def _is_mapped(self) -> bool:
        return self.configuration.get("delta.columnMapping.mode", "none").lower() != "none"

    @property
    def forgets_writers(self) -> bool:
        """Whether the table forgets the last micro-batch of a job after a while."""
        return "delta.setTransactionRetentionDuration" in self.configuration

    def check_readable(self, location: Location) -> None:
        """Raises DataError DATA451 when the table has a feature that cannot be read, and CatalogError CAT033 when it
        has partition columns only."""
        unknown_features = sorted(self.features - _READABLE)
        if self._is_mapped:
            unknown_features.append("columnMapping")
        if unknown_features:
            raise DataError("DATA451", name=location.name, features=unknown_features)
        check_partitions(self.columns, self.partitions)

    def check_writable(self, location: Location) -> None:
        """Raises RunError RUN171 when the table asks something of its writers that this one does not do."""
        unknown_features = sorted(self.writer_features - _WRITABLE)
        if self._is_mapped:
            unknown_features.append("columnMapping")
        unknown_features += [
            f"the constraint '{key[18:]}'" for key in self.configuration if key.startswith("delta.constraints.")
        ]
        for column in self.columns:
            for key, demand in _DEMANDS.items():
                if key in column.metadata:
                    unknown_features.append(f"{demand} '{column.name}'")
        if unknown_features:
            raise RunError("RUN171", name=location.name, features=unknown_features)


_DEMANDS = {
    "delta.invariants": "the invariant of the column",
    "delta.generationExpression": "the generated column",
    "delta.identity.start": "the identity column",
}
"""Metadata of columns that a writer has to obey."""
