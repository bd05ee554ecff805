"""The ``parquet`` format: columns matched by name, read and written by Arrow.

Only the projected columns are read. A column that the file does not have is NULL, as in Flink; a column whose type in
the file does not fit the table's type is an error that names file, column and both types.
"""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.options import Option, OptionType, OptionValues, Role, flag
from stateplan.connectors.formats.base import Decoder, Encoder, Fields, Format


class ParquetFormat(Format):
    """Apache Parquet files."""

    name = "parquet"
    description = "Apache Parquet files. Columns are matched by name."
    options = (
        flag(
            "utc-timezone",
            "Whether timestamps are stored in UTC. Flink's default, false, means the time zone of the JVM.",
            no_effect="timestamps are stored without conversion, and a column marked as UTC is read as it is",
        ),
        Option(
            "compression",
            OptionType.ENUM,
            "Compression codec of written files.",
            default="snappy",
            role=Role.SINK,
            values=("snappy", "gzip", "zstd", "lz4", "brotli", "uncompressed"),
        ),
    )
    extension = "parquet"
    by_name = True
    is_packed = True

    def make_decoder(
        self, values: OptionValues, fields: Fields, projection: Sequence[int], metadata: Sequence[str]
    ) -> Decoder:
        from stateplan.connectors.formats.parquet_io import ParquetDecoder

        return ParquetDecoder([fields[i] for i in projection], tuple(metadata))

    def make_encoder(self, values: OptionValues, fields: Fields) -> Encoder:
        from stateplan.connectors.formats.parquet_io import ParquetEncoder

        return ParquetEncoder(list(fields), values["compression"])
