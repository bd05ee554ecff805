"""The ``parquet`` format: columns matched by name, read and written by Arrow.

Only the projected columns are read. A column that the file does not have is NULL, as in Flink; a column whose type in
the file does not fit the table's type is an error that names file, column and both types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stateplan.execnodes.changelog import INSERT_ONLY
from stateplan.execnodes.connectors.options import Format, Option, OptionType, Role
from stateplan.execnodes.types import LogicalType

if TYPE_CHECKING:
    from stateplan.execnodes.connectors.formats.base import Decoder, Encoder

FORMAT = Format(
    "parquet",
    "Apache Parquet files; columns are matched by name.",
    (
        Option(
            "utc-timezone",
            OptionType.BOOLEAN,
            "Whether timestamps are stored as UTC. Flink's default, false, means the JVM's zone.",
            default=False,
            no_effect="timestamps are stored without conversion; a column marked as UTC is read as it is",
        ),
        Option(
            "compression",
            OptionType.ENUM,
            "Codec of the files written.",
            default="snappy",
            role=Role.SINK,
            values=("snappy", "gzip", "zstd", "lz4", "brotli", "uncompressed"),
        ),
    ),
    source_changes=INSERT_ONLY,
    sink_changes=INSERT_ONLY,
    extension="parquet",
)


def make_decoder(
    options: Mapping[str, str],
    fields: Sequence[tuple[str, LogicalType]],
    projection: Sequence[int],
    metadata: Sequence[str] = (),
) -> Decoder:
    """A picklable decoder; arguments as in :func:`execnodes.connectors.formats.json.make_decoder`."""
    from stateplan.execnodes.connectors.formats.parquet_io import ParquetDecoder

    return ParquetDecoder.make(options, fields, projection, metadata)


def make_encoder(options: Mapping[str, str], fields: Sequence[tuple[str, LogicalType]]) -> Encoder:
    """A picklable encoder; see :class:`execnodes.connectors.formats.base.Encoder`."""
    from stateplan.execnodes.connectors.formats.parquet_io import ParquetEncoder

    return ParquetEncoder.make(options, fields)
