"""Messages as rows: the columns of value and key, put together as the table has them, with metadata.

Source: Flink's ``DynamicKafkaDeserializationSchema``: a row for each pair of a row of the key and a row of the value.
So a message without a key has no row where the table has a ``key.format``. A column that both have is the value's. A
message without a value deletes the row of its key in an ``upsert-kafka`` table, and has no row elsewhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from stateplan.common.changelog import INSERT_ONLY, KIND, RowKind, column, columns
from stateplan.common.errors import DataError, Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.connectors.formats.base import Format, MessageDecoder, format_options, skipping
from stateplan.connectors.kafka.split_reader import Batch, concat
from stateplan.connectors.kafka.tables import layout_of
from stateplan.connectors.protocol import SourceTable
from stateplan.connectors.rejects import collecting, is_collecting, pass_on

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl

_PLACE = "place of the message"
_TIME_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")
"""What Java calls the types of timestamps, by librdkafka's numbers."""


@dataclass(frozen=True)
class Skip:
    """How a table skips messages that it cannot read.

    Attributes:
        prefix: the prefix of the options of the format.
        fail_on_missing: whether a missing field is an error, and nothing can be skipped.
    """

    prefix: str
    fail_on_missing: bool

    @staticmethod
    def of(options: Mapping[str, str], key: str, fmt: Format | None) -> Skip | None:
        """That of the format that the option ``key`` names; None for a format that skips nothing."""
        if fmt is None or not any(option.key == "ignore-parse-errors" for option in fmt.options):
            return None
        strict = fmt.values(format_options(options, key)).get("fail-on-missing-field", False)
        return Skip(f"{key.removesuffix('format')}{fmt.name}.", strict)

    def hint(self, code: str) -> str:
        """What to do about an error."""
        if code == "DATA113":
            return f"without '{self.prefix}fail-on-missing-field', a missing field is NULL"
        return skipping(self.prefix, self.fail_on_missing, "messages that cannot be read")


@dataclass(frozen=True)
class Rows:
    """Makes rows of messages. Picklable.

    Attributes:
        table: its name, for errors.
        value: decodes values.
        key: decodes keys; None if the table has no format for them.
        values: for each column that ``value`` gives, its place in the output.
        keys: the same of ``key``.
        missing: places of the output that neither gives in the row of a deleted key, with their types.
        metadata: place in the output, metadata key and type of the values in the message itself.
        width: the width of the output.
        upsert: whether a message without a value deletes the row of its key.
        changes: whether rows have kinds.
        skip: what to do about bad values; None if nothing can be done.
        key_skip: the same of keys.
    """

    table: str
    value: MessageDecoder
    key: MessageDecoder | None
    values: tuple[int, ...]
    keys: tuple[int, ...]
    types: tuple[LogicalType, ...]
    metadata: tuple[tuple[int, str, LogicalType], ...]
    upsert: bool
    changes: bool
    skip: Skip | None
    key_skip: Skip | None

    @staticmethod
    def of(table: SourceTable, upsert: bool) -> Rows:
        """Those of a table. Raises OptionError OPT140, and as :meth:`Format.message_decoder`."""
        assert table.format is not None
        layout = layout_of(table.options, table.fields, table.primary_key if upsert else ())
        columns_read = list(table.projection)
        of_value = [i for i in columns_read if i in layout.value]
        of_key = [i for i in columns_read if i in layout.key and (upsert or i not in layout.value)]
        width = len(columns_read)
        of_format = [key for key in table.metadata if key.startswith("value.")]
        places = {key: width + i for i, key in enumerate(table.metadata)}
        own_metadata = dict(table.connector.metadata)
        own = {f"value.{key}": text for key, text in table.format.metadata}
        from stateplan.common.types import parse_type

        metadata_types = [parse_type((own_metadata | own)[key]) for key in table.metadata]
        name = table.connector.format_key(table.options)
        value = table.format.message_decoder(
            format_options(table.options, name),
            layout.value_fields(table.fields),
            [layout.value.index(i) for i in of_value],
            [key.removeprefix("value.") for key in of_format],
        )
        key = None
        if table.key_format is not None:
            fields, key_options = layout.key_fields(table.fields), format_options(table.options, "key.format")
            key = table.key_format.message_decoder(key_options, fields, [layout.key.index(i) for i in of_key])
        mode = table.format.source_mode(format_options(table.options, name))
        return Rows(
            table.name,
            value,
            key,
            (*map(columns_read.index, of_value), *(places[key] for key in of_format)),
            tuple(map(columns_read.index, of_key)),
            (*(table.fields[i][1] for i in columns_read), *metadata_types),
            tuple((places[k], k, metadata_types[i]) for i, k in enumerate(table.metadata) if k in own_metadata),
            upsert,
            upsert or mode != INSERT_ONLY,
            Skip.of(table.options, name, table.format),
            Skip.of(table.options, "key.format", table.key_format),
        )

    @property
    def metadata_keys(self) -> frozenset[str]:
        """What of messages is needed besides their values: keys of :attr:`Batch.metadata`."""
        keys = {key for _, key, _ in self.metadata} - {"topic", "partition", "offset"}
        return frozenset(keys | ({"key"} if self.key is not None else set()))

    def frame(self, batch: Batch) -> pl.DataFrame:
        """The rows of some messages, in order, in the frames of :meth:`Source.read`.

        Raises:
            DataError: DATA1xx, of a message that cannot be read; the place names topic, partition and offset.
        """
        return self._rows(batch)[0]

    def frames(self, groups: Sequence[Sequence[Batch]]) -> list[Iterator[pl.DataFrame]]:
        """The rows of each group of batches. They are decoded together, which takes a millisecond less for each group;
        where that finds a fault, or skips messages, each batch by itself when it is requested.

        Raises:
            DataError: as :meth:`frame`, from the iterators.
        """
        import numpy as np

        own = {"topic", "partition"} & {key for _, key, _ in self.metadata}
        if not own and not is_collecting() and any(groups):
            with contextlib.suppress(DataError):
                df, places = self._rows(concat([batch for group in groups for batch in group]))
                totals = [sum(len(batch.values) for batch in group) for group in groups]
                edges = np.searchsorted(places, np.cumsum([0, *totals])).tolist()
                return [iter([df[low:high]] if low < high else []) for low, high in pairwise(edges)]
        return [map(self.frame, group) for group in groups]

    def _rows(self, batch: Batch) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
        """The frame of some messages, and the place of the message of each row. Raises as :meth:`frame`."""
        import numpy as np
        import polars as pl

        data = batch.values
        try:
            df, places = self._decoded(self.value, data, batch)
        except DataError as error:
            self._bad(error, batch, self.skip)
        tombstones = self.upsert and None in data
        if tombstones:
            # A tombstone has no value, though some formats read NULL as a row.
            has_value = np.fromiter((value is not None for value in data), np.bool_, len(data))
            has_row = has_value[places]
            df, places = df.filter(pl.Series(has_row)), places[has_row]
        kinds = df[KIND] if self.changes and KIND in df.columns else None
        if self.key is None:
            return self._finished(_with_names(df, self.values, places), places, kinds, batch), places
        try:
            keys, of = self._decoded(self.key, batch.metadata["key"], batch)
        except DataError as error:
            self._bad(error, batch, self.key_skip)
        live = _with_names(df, self.values, places)
        if self.changes:
            live = live.with_columns(pl.Series(KIND, np.zeros(len(places), np.int8)) if kinds is None else kinds)
        live = _with_keys(live, _with_names(keys, self.keys, of, leave=self.values), of)
        if tombstones:
            deletions = _with_names(keys, self.keys, of).filter(pl.Series(~has_value[of]))
            deletions = deletions.with_columns(pl.lit(RowKind.DELETE, pl.Int8).alias(KIND))
            live = pl.concat([live, deletions], how="diagonal").sort(_PLACE, maintain_order=True)
        kinds = live[KIND] if self.changes else None
        places = live[_PLACE].to_numpy()
        return self._finished(live, places, kinds, batch), places

    @staticmethod
    def _decoded(
        decoder: MessageDecoder, data: Sequence[bytes | None], batch: Batch
    ) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
        """What a decoder returns; messages that it skips are recorded with their places in Kafka."""
        if not is_collecting():
            return decoder.messages(data)
        with collecting() as rejects:
            messages = decoder.messages(data)
        pass_on(r.at(batch.topic, batch.partition, int(batch.offsets[(r.line or 1) - 1])) for r in rejects)
        return messages

    def _finished(
        self,
        df: pl.DataFrame,
        places: npt.NDArray[np.int64],
        kinds: pl.Series | None,
        batch: Batch,
    ) -> pl.DataFrame:
        """``df`` with the metadata of the message of each row, and all columns in order."""
        import polars as pl

        metadata_columns = [
            self._metadata_values(i, key, data_type, batch, places) for i, key, data_type in self.metadata
        ]
        df = df.with_columns(metadata_columns) if metadata_columns else df
        df = df.select(columns(len(self.types))) if self.types else pl.DataFrame(height=len(places))
        if kinds is not None:
            return df.with_columns(kinds.alias(KIND))
        return df.with_columns(pl.zeros(len(places), pl.Int8, eager=True).alias(KIND)) if not df.width else df

    def _metadata_values(
        self,
        place: int,
        key: str,
        data_type: LogicalType,
        batch: Batch,
        rows: npt.NDArray[np.int64],
    ) -> pl.Series:
        """The value of a metadata key in the message of each row."""
        import polars as pl

        values: Any
        if key in ("topic", "partition"):
            one = batch.topic if key == "topic" else batch.partition
            return pl.Series([one], dtype=data_type.polars()).new_from_index(0, len(rows)).alias(column(place))
        if key == "offset":
            values = batch.offsets
        elif key == "timestamp":
            stamps = pl.Series(batch.metadata[key], dtype=pl.Int64)
            return stamps.cast(data_type.polars()).gather(rows).alias(column(place))
        elif key == "timestamp-type":
            values = [_TIME_TYPES[kind] for kind in batch.metadata[key]]
        elif key == "headers":
            values = [_headers(headers) for headers in batch.metadata[key]]
        else:
            values = batch.metadata[key]
        return pl.Series(column(place), values, dtype=data_type.polars()).gather(rows)

    def _bad(self, error: DataError, batch: Batch, skip: Skip | None) -> NoReturn:
        """Raises the error of a decoder with the place of the message in Kafka."""
        at = (error.place.line or 1) - 1 if error.place is not None else 0
        offset = batch.offsets[min(at, len(batch.offsets) - 1)]
        position = f"topic {batch.topic}, partition {batch.partition}, offset {offset}"
        was = error.place or Place()
        place = replace(was, file=position, line=None, column=None, source=None)
        hint = error.hint if skip is None else skip.hint(error.code)
        raise DataError.with_text(error.code, error.message, place=place, expected=error.expected, hint=hint) from None


def _with_names(
    df: pl.DataFrame, places: Sequence[int], of: npt.NDArray[np.int64], leave: Sequence[int] = ()
) -> pl.DataFrame:
    """The columns of a decoder under their names in the output, and the place of the message of each row.

    Args:
        df: of a decoder.
        places: in the output, of its columns.
        of: the place of the message of each row.
        leave: columns that are not wanted.
    """
    import polars as pl

    pairs = [(i, place) for i, place in enumerate(places) if place not in leave]
    return pl.DataFrame([pl.Series(_PLACE, of), *(df[column(i)].alias(column(place)) for i, place in pairs)])


def _with_keys(df: pl.DataFrame, keys: pl.DataFrame, of: npt.NDArray[np.int64]) -> pl.DataFrame:
    """Each row with the rows of the key of its message."""
    import numpy as np
    import polars as pl

    if len(of) and (np.diff(of) > 0).all():  # one row of each key, which is nearly always so
        places = df[_PLACE].to_numpy()
        positions = np.minimum(np.searchsorted(of, places), len(of) - 1)
        has = of[positions] == places
        if has.all():
            return df.hstack(keys.drop(_PLACE)[positions]) if keys.width > 1 else df
        rows = df.filter(pl.Series(has))
        return rows.hstack(keys.drop(_PLACE)[positions[has]]) if keys.width > 1 else rows
    return df.join(keys, on=_PLACE, how="inner", maintain_order="left_right")


def _headers(headers: Sequence[tuple[str, bytes | None]] | None) -> list[dict[str, Any]]:
    """The headers of a message as a map: of several of one name the last one counts."""
    return [{"key": name, "value": value} for name, value in dict(headers or ()).items()]
