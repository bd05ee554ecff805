"""Files of a table as splits of a source and as parts of a sink have them: JSON, without what only the library knows.

Values of partitions are in the single-value serialization of Iceberg's specification.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.splits import Split

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask
    from pyiceberg.table.metadata import TableMetadata

Partition = tuple[str | None, ...]
"""The values of a partition, as base64; None for NULL."""


@dataclass(frozen=True)
class TableFile:
    """A data file, or a file of position deletes. JSON-ready by :func:`vars`.

    Attributes:
        path: its absolute path or URL.
        size: in bytes.
        count: of its rows.
        spec: the id of its partition spec.
        partition: the partition.
        format: ``PARQUET``, ``ORC`` or ``PUFFIN``.
        sort_order: the id of the sort order of its rows.
        metrics: the statistics of its columns, for a new file: name of the metric to id of a field to value.
        splits: offsets of its row groups.
        content: 0 for data, 1 for position deletes.
        offset: where a deletion vector begins in the file.
        length: of a deletion vector.
        target: the data file of a deletion vector.
    """

    path: str
    size: int
    count: int
    spec: int = 0
    partition: Partition = ()
    format: str = "PARQUET"
    sort_order: int | None = None
    metrics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    splits: list[int] | None = None
    content: int = 0
    offset: int | None = None
    length: int | None = None
    target: str | None = None

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TableFile:
        """The file of which :func:`vars` was written as JSON."""
        return TableFile(**{**data, "partition": tuple(data["partition"])})


_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")
_VECTOR = {"content_offset": "offset", "content_size_in_bytes": "length", "referenced_data_file": "target"}


def file_of(data_file: DataFile, metadata: TableMetadata, is_new: bool = False) -> TableFile:
    """A file of the library.

    Args:
        data_file: the file.
        metadata: of its table.
        is_new: whether it has just been written: it keeps its statistics, and has the present partition spec.
    """
    spec_id = metadata.default_spec_id if is_new else data_file.spec_id
    spec = metadata.specs()[spec_id]
    metrics: dict[str, dict[str, Any]] = {}
    if is_new:
        metrics = {key: {str(k): v for k, v in (getattr(data_file, key) or {}).items()} for key in _COUNTS}
        for key in _BOUNDS:
            metrics[key] = {str(k): b64encode(v).decode() for k, v in (getattr(data_file, key) or {}).items()}
    vector = {own: getattr(data_file, key, None) for key, own in _VECTOR.items()}
    return TableFile(
        data_file.file_path,
        data_file.file_size_in_bytes,
        data_file.record_count,
        spec_id,
        partition_texts([data_file.partition[i] for i in range(len(data_file.partition))], spec, metadata.schema()),
        data_file.file_format.value.upper(),
        data_file.sort_order_id if is_new else None,
        metrics,
        data_file.split_offsets if is_new else None,
        int(data_file.content),
        **vector,
    )


def partition_texts(values: Sequence[Any], spec: PartitionSpec, schema: Schema) -> Partition:
    """The values of a partition as base64."""
    from pyiceberg.conversions import to_bytes

    types: list[Any] = [f.field_type for f in spec.partition_type(schema).fields]
    return tuple(
        None if value is None else b64encode(to_bytes(kind, value)).decode()
        for value, kind in zip(values, types, strict=True)
    )


def partition_values(partition: Partition, spec: PartitionSpec, schema: Schema) -> list[Any]:
    """The values of which :func:`partition_texts` are the base64."""
    from pyiceberg.conversions import from_bytes

    types: list[Any] = [f.field_type for f in spec.partition_type(schema).fields]
    return [
        None if text is None else from_bytes(kind, b64decode(text)) for text, kind in zip(partition, types, strict=True)
    ]


def data_file_of(file: TableFile, metadata: TableMetadata) -> DataFile:
    """The file for the library."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    spec = metadata.specs()[file.spec]
    values = {key: {int(k): v for k, v in file.metrics.get(key, {}).items()} or None for key in _COUNTS}
    for key in _BOUNDS:
        values[key] = {int(k): b64decode(v) for k, v in file.metrics.get(key, {}).items()} or None
    own = vars(file)
    vector = {key: own[name] for key, name in _VECTOR.items() if own[name] is not None}
    data_file = DataFile.from_args(
        _table_format_version=3 if vector else 2,
        content=DataFileContent(file.content),
        file_path=file.path,
        file_format=FileFormat[file.format],
        partition=Record(*partition_values(file.partition, spec, metadata.schema())),
        record_count=file.count,
        file_size_in_bytes=file.size,
        key_metadata=None,
        split_offsets=file.splits,
        equality_ids=None,
        sort_order_id=file.sort_order,
        **values,
        **vector,
    )
    data_file.spec_id = file.spec
    return data_file


@dataclass(frozen=True)
class ScanFile:
    """A data file and the files with the positions of its deleted rows."""

    data: TableFile
    deletes: tuple[TableFile, ...] = ()

    @staticmethod
    def of(task: FileScanTask, metadata: TableMetadata) -> ScanFile:
        """A task of a scan of the library."""
        deletes = sorted((file_of(f, metadata) for f in task.delete_files), key=lambda f: (f.path, f.offset or 0))
        return ScanFile(file_of(task.file, metadata), tuple(deletes))

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data; what :meth:`from_json` reads."""
        return {"data": dict(vars(self.data)), "deletes": [dict(vars(file)) for file in self.deletes]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ScanFile:
        """What :meth:`to_json` was made of."""
        deletes = tuple(TableFile.from_json(file) for file in data["deletes"])
        return ScanFile(TableFile.from_json(data["data"]), deletes)

    def task(self, metadata: TableMetadata) -> FileScanTask:
        """The task for the library."""
        from pyiceberg.table import FileScanTask

        return FileScanTask(data_file_of(self.data, metadata), {data_file_of(file, metadata) for file in self.deletes})


@dataclass(frozen=True)
class IcebergSplit(Split):
    """A file of a table, the snapshot with which it is read, its time in ms, and the ids of the columns to read."""

    file: ScanFile
    snapshot: int
    stamp: int
    ids: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "file": self.file.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> IcebergSplit:
        return cls(**{**data, "file": ScanFile.from_json(data["file"]), "ids": tuple(data["ids"])})

    @property
    def origin(self) -> str:
        return self.file.data.path

    @property
    def byte_count(self) -> int:
        return self.file.data.size
