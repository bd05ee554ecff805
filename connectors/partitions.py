"""Partitioned tables of the filesystem: rows with equal partition columns lie in a folder ``key=value/..``, and the
files do not hold those columns.

Source: Flink's ``PartitionPathUtils``, Hive's layout.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from stateplan.common.changelog import KIND, columns
from stateplan.common.errors import DataError, Place, StateplanError
from stateplan.common.files import absolute, filesystem_of, local_path
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import scan_folder
from stateplan.common.types import STRING, LogicalType
from stateplan.connectors.formats.base import Decoder
from stateplan.connectors.listing import is_hidden
from stateplan.connectors.protocol import Partition
from stateplan.functions.rex import Call, InputRef, Literal, Rex

if TYPE_CHECKING:
    import polars as pl

_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")


def folder_of(partition: Partition, default_name: str) -> str:
    """The folder of a partition below the table's, without a slash at the end; ``default_name`` stands for NULL and
    for empty text."""
    return "/".join(f"{_escape(k)}={_escape(v or default_name)}" for k, v in partition.items())


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda m: f"%{ord(m.group()):02X}", text)


def _part(segment: str, key: str, default_name: str) -> str | None:
    """The value in a folder's name. Raises ValueError when it is not a folder of this column."""
    name, equals, value = segment.partition("=")
    if not equals or unquote(name) != key:
        raise ValueError(segment)
    text = unquote(value)
    return None if text == default_name else text


def partition_of(path: str, root: str, keys: Sequence[str], default_name: str) -> dict[str, str | None]:
    """The partition a file lies in.

    Args:
        path: the path of the file, below ``root`` of the table; plain paths or URLs.
        keys: the partition columns in order.
        default_name: the name of the folder for NULL.

    Raises:
        DataError: DATA106, when the file does not lie in folders of these columns.
    """
    inner, base = _inner(path), _inner(root)
    segments = inner.removeprefix(base.rstrip("/") + "/").split("/")[:-1]
    try:
        if len(segments) < len(keys):
            raise ValueError(path)
        return {k: _part(s, k, default_name) for k, s in zip(keys, segments, strict=False)}
    except ValueError:
        raise DataError("DATA106", root=root, keys="/".join(f"{k}=.." for k in keys), place=Place(file=path)) from None


def _inner(path: str) -> str:
    """A path within its file system. Links stay: the folders of partitions are what they are called."""
    local = local_path(path)
    return filesystem_of(path)[1] if local is None else absolute(local)


def _folders_in(folder: str) -> list[str]:
    with scan_folder(folder) as entries:
        return [entry.name for entry in entries if entry.is_dir()]


def _remote_folders_in(filesystem: Any, folder: str) -> list[str]:
    infos = filesystem.ls(folder, detail=True)
    return [posixpath.basename(info["name"].rstrip("/")) for info in infos if info["type"] == "directory"]


def list_partitions(root: str, keys: Sequence[str], default_name: str) -> list[dict[str, str | None]] | None:
    """The partitions that are there now, in order of their folders; None when the table's folder cannot be listed."""
    fs, base = filesystem_of(root)
    local = local_path(root) is not None

    def below(folder: str, left: Sequence[str]) -> Iterator[dict[str, str | None]]:
        if not left:
            yield {}
            return
        for name in sorted(_folders_in(folder) if local else _remote_folders_in(fs, folder)):
            if is_hidden(name):
                continue
            try:
                value = _part(name, left[0], default_name)
            except ValueError:
                continue
            for rest in below(f"{folder.rstrip('/')}/{name}", left[1:]):
                yield {left[0]: value, **rest}

    try:
        return list(below(base, keys))
    except OSError:
        return None


@dataclass(frozen=True)
class PartitionedDecoder:
    """Adds the partition columns to what a decoder reads of the files, and passes over files of other partitions.

    Attributes:
        decoder: returns the columns of the files and metadata.
        root: folder of the table.
        keys: partition columns in order, with their types.
        default_name: the name of the folder for NULL.
        output: per output column the key it is, or the position in what the decoder returns.
        changes: whether the format has kinds of changes.
        only: the partitions to read; None for all.
    """

    decoder: Decoder
    root: str
    keys: tuple[tuple[str, LogicalType], ...]
    default_name: str
    output: tuple[str | int, ...]
    changes: bool
    only: tuple[tuple[tuple[str, str | None], ...], ...] | None = None

    def read(self, path: str) -> Iterator[pl.DataFrame]:
        """See :class:`connectors.formats.base.Decoder`.

        Raises:
            DataError: DATA106, for a file outside of the partitions' folders or in one whose name is not a value of the
                column's type.
        """
        import polars as pl

        partition = partition_of(path, self.root, [k for k, _ in self.keys], self.default_name)
        if self.only is not None and tuple(partition.items()) not in self.only:
            return
        types = dict(self.keys)
        constants = {k: pl.lit(_value(k, partition[k], types[k], path), types[k].polars()) for k in types}
        names = columns(len(self.output))
        for frame in self.decoder.read(path):
            columns_to_read = [
                (constants[source] if isinstance(source, str) else pl.col(f"c{source}")).alias(name)
                for name, source in zip(names, self.output, strict=True)
            ]
            if KIND in frame.columns and (self.changes or not names):
                columns_to_read.append(pl.col(KIND))
            yield frame.with_columns(columns_to_read).select(
                *names, *([KIND] if len(columns_to_read) > len(names) else [])
            )


@dataclass(frozen=True)
class Partitioner:
    """Parts rows by partition for a sink.

    Attributes:
        fields: all columns of the table.
        keys: the partition columns in order, of which files hold nothing.
        default_name: the name of the folder for NULL.
    """

    fields: tuple[tuple[str, LogicalType], ...]
    keys: tuple[str, ...]
    default_name: str

    @property
    def in_files(self) -> tuple[tuple[str, LogicalType], ...]:
        """The columns that files hold."""
        return tuple(f for f in self.fields if f[0] not in self.keys)

    def split(self, frame: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
        """The folder of each partition of ``frame`` and its rows, of the columns that files hold as ``c0, c1, ...``."""
        import polars as pl

        from stateplan.functions.render import Renderer

        positions = {name: i for i, (name, _) in enumerate(self.fields)}
        refs = [InputRef(self.fields[positions[k]][1], positions[k]) for k in self.keys]
        names = [f"@{k}" for k in columns(len(self.keys))]
        texts = (Renderer("UTC").expr(_cast(ref, STRING)) for ref in refs)
        values = frame.select(text.alias(name) for text, name in zip(texts, names, strict=True))
        columns_in_files = [f"c{positions[name]}" for name, _ in self.in_files]
        rows = frame.select(
            *(pl.col(c).alias(n) for c, n in zip(columns_in_files, columns(len(columns_in_files)), strict=True)),
            *([KIND] if KIND in frame.columns else []),
        )
        for group, part in rows.hstack(values.get_columns()).group_by(names, maintain_order=True):
            partition = dict(zip(self.keys, (None if v is None else str(v) for v in group), strict=True))
            yield folder_of(partition, self.default_name), part.drop(names)


def _value(name: str, text: str | None, data_type: LogicalType, path: str) -> Any:
    if text is None or data_type.is_string:
        return text
    from stateplan.functions.program import evaluate

    try:
        return evaluate(_cast(Literal(STRING.not_null(), text), data_type))
    except StateplanError:  # whatever a cast runs into: the text is not a value of the type
        place = Place(file=path)
        raise DataError("DATA106.folder", text=text, name=name, declared=data_type.summary(), place=place) from None


def _cast(value: Rex, target: LogicalType) -> Rex:
    return Call(target, (value,), internal_name="$CAST$1", syntax="SPECIAL")
