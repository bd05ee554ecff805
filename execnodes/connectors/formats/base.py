"""What a format's reader and writer are to the runtime, and what they share."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from stateplan.execnodes.changelog import KIND, column
from stateplan.execnodes.connectors.files import filesystem_of, local_path
from stateplan.execnodes.connectors.options import Format
from stateplan.execnodes.errors import CatalogError, Place
from stateplan.execnodes.types import LogicalType

if TYPE_CHECKING:
    import polars as pl

Fields = Sequence[tuple[str, LogicalType]]


@runtime_checkable
class Decoder(Protocol):
    """Reads files of one table. Made in the driver, pickled, used in workers."""

    def read(self, path: str) -> Iterator[pl.DataFrame]:
        """The rows of one file, in file order, in frames of bounded size.

        Frames have the projected columns, then the metadata columns, as ``c0, c1, ...`` with exactly the types of
        :meth:`LogicalType.polars`; formats with changes add ``kind``. A frame without any column has ``kind`` too,
        so that its rows can be counted.

        Raises:
            DataError: DATA1xx, naming file, line and column of what cannot be read.
        """
        ...


@runtime_checkable
class Encoder(Protocol):
    """Writes files of one table. Made in the driver, pickled, used in workers."""

    @property
    def extension(self) -> str:
        """Ending of the files, without the dot."""
        ...

    def encode(self, df: pl.DataFrame) -> bytes:
        """The bytes of one file holding the rows of ``df`` (``c0..cn``; ``kind`` where the format has changes).

        Raises:
            DataError: DATA2xx, for a value that the format cannot hold.
        """
        ...


class MakeDecoder(Protocol):
    """Makes a picklable decoder; see :func:`execnodes.connectors.formats.json.make_decoder` for the arguments."""

    def __call__(
        self,
        options: Mapping[str, str],
        fields: Fields,
        projection: Sequence[int],
        metadata: Sequence[str] = (),
    ) -> Decoder: ...


class MakeEncoder(Protocol):
    """Makes a picklable encoder of rows of ``fields``, whose frames may have ``kind`` where the format has changes."""

    def __call__(self, options: Mapping[str, str], fields: Fields) -> Encoder: ...


def change_decoder(module: str) -> MakeDecoder:
    """How a format of change events is read: as the ``EVENTS`` of the module say, imported on first use."""

    def make(
        options: Mapping[str, str], fields: Fields, projection: Sequence[int], metadata: Sequence[str] = ()
    ) -> Decoder:
        from stateplan.execnodes.connectors.formats.changes import ChangeDecoder

        events = import_module(f"stateplan.execnodes.connectors.formats.{module}").EVENTS
        return ChangeDecoder.make(events, options, fields, projection, metadata)

    return make


def event_encoder(fmt: Format) -> MakeEncoder:
    """How a format of change events is written."""

    def make(options: Mapping[str, str], fields: Fields) -> Encoder:
        from stateplan.execnodes.connectors.formats.json_encode import EventEncoder

        return EventEncoder.make(fmt, options, fields)

    return make


def frame_schema(
    fields: Fields, projection: Sequence[int], metadata: Sequence[str] = (), changes: bool = False
) -> dict[str, pl.DataType]:
    """Column name to type of the frames a decoder gives."""
    import polars as pl

    schema: dict[str, pl.DataType] = {column(i): fields[f][1].polars() for i, f in enumerate(projection)}
    types: dict[str, pl.DataType] = {
        "file.path": pl.String(),
        "file.name": pl.String(),
        "file.size": pl.Int64(),
        "file.modification-time": pl.Datetime("ms", "UTC"),
    }
    for key in metadata:
        schema[column(len(schema))] = types[key]
    if changes or not schema:
        schema[KIND] = pl.Int8()
    return schema


def with_metadata(df: pl.DataFrame, path: str, width: int, metadata: Sequence[str]) -> pl.DataFrame:
    """``df`` with the metadata columns of its file after the first ``width`` columns."""
    import polars as pl

    if not metadata:
        return df
    fs, inner = filesystem_of(path)
    info: dict[str, Any] = fs.info(inner)
    modified = fs.modified(inner)
    values = {
        "file.path": pl.lit(inner if local_path(path) is not None else path, pl.String),
        "file.name": pl.lit(posixpath.basename(inner), pl.String),
        "file.size": pl.lit(int(info["size"]), pl.Int64),
        "file.modification-time": pl.lit(int(modified.timestamp() * 1000), pl.Int64).cast(pl.Datetime("ms", "UTC")),
    }
    return df.with_columns(values[key].alias(column(width + i)) for i, key in enumerate(metadata))


def check_types(fields: Fields, fmt: Format, place: Place | None = None) -> None:
    """Checks that a format can hold every column.

    Raises:
        CatalogError: CAT102, naming the column and its type.
    """
    for name, declared in fields:
        for part in _parts(declared):
            if part.root in fmt.unheld:
                expected: str | None = "a column of another type, or another format"
            elif part.root in ("MAP", "MULTISET") and fmt.text_keys and not part.children[0].is_string:
                expected = "a map whose keys are text"
            else:
                continue
            raise CatalogError(
                "CAT102.check_types",
                name=fmt.name,
                name_2=name,
                declared=declared.summary(),
                place=place,
                expected=expected,
            )


def _parts(declared: LogicalType) -> Iterator[LogicalType]:
    yield declared
    for inner in (*declared.children, *(f.type for f in declared.fields)):
        yield from _parts(inner)
