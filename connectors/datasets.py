"""What the data of a table is called outside: names by OpenLineage's naming of datasets, without users and passwords.

Source: https://openlineage.io/docs/spec/naming
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from stateplan.common.files import UrlError, absolute, place_of, scheme_of


class Dataset(NamedTuple):
    """A set of data.

    Attributes:
        namespace: the server or the file system.
        name: the data there.
    """

    namespace: str
    name: str


class DatasetNames:
    """What lineage calls the data of the tables of a connector.

    Attributes:
        messaging_system: the scheme of namespaces at brokers, and OpenTelemetry's name for these; empty where data are
            not messages.
    """

    messaging_system: ClassVar[str] = ""

    def datasets(self, options: Mapping[str, str]) -> tuple[Dataset, ...]:
        """The data of a table: a dataset, or one per topic and the like. Nothing when the options do not say it, and so
        the name of the table has to. Options may be missing, and have references to secrets."""
        return ()


def datasets_of_path(path: str | None) -> tuple[Dataset, ...]:
    """The dataset of a path or URL; nothing for one behind which there is no file system."""
    try:
        local = place_of(path or "")
    except UrlError:
        return ()
    if local is not None:
        return (Dataset("file", absolute(local)),) if local else ()
    assert path is not None
    host, _, inside = path[path.index(":") + 1 :].removeprefix("//").partition("/")
    scheme, server = scheme_of(path), host.rpartition("@")[2]
    name = inside.partition("?")[0].rstrip("/")
    return (Dataset(f"{scheme}://{server}", f"/{name}" if scheme in ("hdfs", "viewfs") else name or "/"),)


def dataset_of_postgres(host: str, port: str, *names: str) -> tuple[Dataset, ...]:
    """A table of PostgreSQL: ``names`` are its database, its schema and its own name."""
    return (Dataset(f"postgres://{host.rpartition('@')[2]}:{port}", ".".join(names)),)
