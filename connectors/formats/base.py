"""What a format is: one class per format says all that the planner, the runtime and the documentation ask of it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from stateplan.common.changelog import INSERT_ONLY, KIND, ChangelogMode, column
from stateplan.common.errors import CatalogError, DataError, Place
from stateplan.common.files import absolute, driver_errors, filesystem_of, local_path, modified
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, OptionType, OptionValues, Role, flag, options_below, parse_value
from stateplan.common.types import LogicalType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl

Fields = Sequence[tuple[str, LogicalType]]
"""Name and type of columns, in order."""

NO_VALUE_TYPES = frozenset({"RAW", "SYMBOL", "STRUCTURED_TYPE", "TIMESTAMP_WITH_TIME_ZONE", "DISTINCT_TYPE", "VARIANT"})
"""Roots of the types that no format can hold."""


IGNORE_PARSE_ERRORS = flag(
    "ignore-parse-errors",
    "Whether to skip invalid rows, and read invalid fields as NULL, instead of failing.",
    Role.SOURCE,
)

ERRORS_TABLE = Option(
    "errors.table",
    OptionType.STRING,
    "Table for the rows that `ignore-parse-errors` skips. See "
    "[invalid input as data](sql.md#invalid-input-as-data). Flink has no such option.",
    role=Role.SOURCE,
)


def skipping(prefix: str, fail_on_missing: bool, subject: str) -> str:
    """Which options have bad input skipped: ``fail-on-missing-field`` excludes it.

    Args:
        prefix: the prefix of the options of the format.
        fail_on_missing: whether the table has that option.
        subject: is skipped.
    """
    if fail_on_missing:
        return f"'{prefix}ignore-parse-errors' = 'true' without '{prefix}fail-on-missing-field' skips {subject}"
    return f"'{prefix}ignore-parse-errors' = 'true' skips {subject}"


def format_options(options: Mapping[str, str], key: str) -> Mapping[str, str]:
    """The options of a table as the format sees them that the option ``key`` names: for ``value.format`` those that
    begin with ``value.``, without it."""
    return options_below(options, key.removesuffix("format"))


class Decoder(Protocol):
    """Reads files of one table. Made on the driver, pickled, used in workers."""

    def read(self, path: str) -> Iterator[pl.DataFrame]:
        """The rows of one file, in file order, in frames of bounded size.

        Frames have the projected columns, then the metadata columns, as ``c0, c1, ...`` with exactly the types of
        :meth:`LogicalType.polars`; formats with changes add ``kind``. A frame without any column has ``kind`` too,
        so that its rows can be counted.

        Raises:
            DataError: DATA1xx, naming file, line and column of what cannot be read.
        """
        ...


class StampedDecoder(Protocol):
    """Reads files whose rows carry one field more than the table has."""

    def stamped(self, path: str) -> Iterator[tuple[pl.DataFrame, pl.Series]]:
        """As :meth:`Decoder.read`, and for each row the value of the extra field."""
        ...


class MessageDecoder(Protocol):
    """Reads the messages of one table, such as the values of Kafka's. Made on the driver, pickled, used in workers."""

    def messages(self, data: Sequence[bytes | None]) -> tuple[pl.DataFrame, npt.NDArray[np.int64]]:
        """The rows of some messages, in order; NULL has no row, unless the format reads it as a row of NULL.

        Args:
            data: the bytes of each message.

        Returns:
            Frame with the projected columns, then the metadata columns that the format itself gives, as in
            :meth:`Decoder.read`; and for each row the position of its message in ``data``.

        Raises:
            DataError: DATA1xx. The ``line`` of its place is the position of the message plus one.
        """
        ...


class MessageEncoder(Protocol):
    """Writes the messages of one table. Made on the driver, pickled, used in workers."""

    def messages(self, df: pl.DataFrame) -> pl.Series:
        """A message for each row (``c0..cn``; ``kind`` where the format has changes), as Binary. A NULL is a message
        without a value.

        Raises:
            DataError: DATA2xx, for a value that the format cannot hold.
        """
        ...


class Encoder(Protocol):
    """Writes files of one table. Made on the driver, pickled, used in workers."""

    def encode(self, df: pl.DataFrame) -> bytes:
        """The bytes of one file holding the rows of ``df`` (``c0..cn``; ``kind`` where the format has changes).

        Raises:
            DataError: DATA2xx, for a value that the format cannot hold.
        """
        ...


class DecoderOfLines(Decoder, MessageDecoder, Protocol):
    """Reads files and messages."""


class EncoderOfLines(Encoder, MessageEncoder, Protocol):
    """Writes files and messages."""


class Format:
    """A format: how the bytes of a file are rows. Subclasses set the attributes and override what differs.

    Importing the module of a format loads no engine: :meth:`make_decoder` and :meth:`make_encoder` import theirs.

    Attributes:
        name: Flink's identifier.
        description: one paragraph for the documentation.
        options: its options; in a table they are written ``<name>.<key>``.
        source_changes: row kinds it reads; None if it cannot read.
        sink_changes: row kinds it writes; None if it cannot write.
        extension: ending of the files it writes, without the dot.
        unheld: roots of the types it cannot hold.
        text_keys: whether keys of maps must be text.
        by_name: whether columns are found by name; else by position.
        exclusive: pairs of options that a table cannot have both.
        reserved: names that no column may have, with their meaning.
        metadata: maps each metadata key to the type of its values, as text; a table names it ``value.<key>``.
        is_lines: whether each line is a row that can carry one field more: :meth:`stamped_decoder`.
        has_files: whether it reads and writes files.
        has_messages: whether it reads and writes messages: :meth:`message_decoder`, :meth:`message_encoder`.
        is_packed: whether its files are several times smaller than the same rows as text.
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    options: ClassVar[tuple[Option, ...]] = ()
    source_changes: ClassVar[ChangelogMode | None] = INSERT_ONLY
    sink_changes: ClassVar[ChangelogMode | None] = INSERT_ONLY
    extension: ClassVar[str] = ""
    unheld: ClassVar[frozenset[str]] = NO_VALUE_TYPES
    text_keys: ClassVar[bool] = False
    by_name: ClassVar[bool] = False
    exclusive: ClassVar[tuple[tuple[str, str], ...]] = ()
    reserved: ClassVar[Mapping[str, str]] = {}
    metadata: ClassVar[tuple[tuple[str, str], ...]] = ()
    is_lines: ClassVar[bool] = False
    has_files: ClassVar[bool] = True
    has_messages: ClassVar[bool] = False
    is_packed: ClassVar[bool] = False

    def values(self, options: Mapping[str, str]) -> OptionValues:
        """The format's options of a table. Raises OptionError OPT105."""
        keys = {option: f"{self.name}.{option.key}" for option in self.options}
        return {o.key: parse_value(o, options[k], k) if k in options else o.default for o, k in keys.items()}

    def source_mode(self, options: Mapping[str, str]) -> ChangelogMode:
        """The row kinds that a table emits when it is read."""
        return INSERT_ONLY if self.source_changes is None else self.source_changes

    def sink_mode(self, options: Mapping[str, str], changelog_mode: ChangelogMode) -> ChangelogMode:
        """The row kinds that a table takes, of a query with the mode ``changelog_mode``."""
        return changelog_mode if self.sink_changes is None else self.sink_changes

    def key_deletes(self, options: Mapping[str, str]) -> bool:
        """Whether only the key is right in deleted rows."""
        return False

    def check(self, fields: Fields, place: Place | None = None) -> None:
        """Checks that the format can hold every column.

        Raises:
            CatalogError: CAT102, naming the column and its type.
        """
        for name, data_type in fields:
            for part in _parts(data_type):
                if part.root in self.unheld:
                    expectation = "a column of another type, or another format"
                elif part.root in ("MAP", "MULTISET") and self.text_keys and not part.children[0].is_string:
                    expectation = "a map whose keys are text"
                else:
                    continue
                raise self.type_error(name, data_type, expectation, place)

    def type_error(self, column: str, data_type: LogicalType, expectation: str, place: Place | None) -> CatalogError:
        """CAT102 for a column whose type the format cannot hold."""
        owner = f"the format '{self.name}'"
        return CatalogError("CAT102", column=column, type=data_type, owner=owner, place=place, expected=expectation)

    def check_columns(self, options: Mapping[str, str], fields: Fields, place: Place | None = None) -> None:
        """The same for columns that the format can hold with some options only.

        Args:
            options: the options of the format, as in :meth:`message_decoder`.
            fields: name and type of the columns that it holds.
            place: where the table is written.

        Raises:
            StateplanError: as :meth:`check`, or for options that do not fit the columns.
        """
        self.check(fields, place)

    def for_topic(self, options: Mapping[str, str], topic: str, part: str) -> Mapping[str, str]:
        """The options of a sink with those that a topic stands for, where they are not written.

        Args:
            options: the options of the format, as in :meth:`message_encoder`.
            topic: the topic that messages are written to.
            part: ``key`` or ``value``: what the format writes of a message.
        """
        return options

    def decoder(
        self, options: Mapping[str, str], fields: Fields, projection: Sequence[int], metadata: Sequence[str] = ()
    ) -> Decoder:
        """A picklable decoder.

        Args:
            options: the table's options as written.
            fields: name and type of every physical column in the files.
            projection: positions in ``fields`` of the columns to read, in output order.
            metadata: metadata keys whose values follow the projected columns.

        Raises:
            OptionError: OPT105; CatalogError: CAT102, for a column that the format cannot hold.
        """
        self.check_columns(options, fields)
        return self.make_decoder(self.values(options), fields, projection, metadata)

    def leaves_out(self, options: Mapping[str, str]) -> bool:
        """Whether leaving fields of rows out of the columns to read changes nothing in the other fields."""
        return False

    def stamped_decoder(
        self, options: Mapping[str, str], fields: Fields, projection: Sequence[int], stamp: tuple[str, LogicalType]
    ) -> StampedDecoder:
        """The same for lines with an extra field ``stamp``, which each must have; for formats that :attr:`is_lines`.

        Raises:
            DataError: when reading, DATA151 for a line without the field or with another value.
        """
        raise NotImplementedError(self.name)

    def encoder(self, options: Mapping[str, str], fields: Fields) -> Encoder:
        """A picklable encoder of rows of ``fields``. Raises the same errors as :meth:`decoder`."""
        self.check_columns(options, fields)
        return self.make_encoder(self.values(options), fields)

    def message_decoder(
        self, options: Mapping[str, str], fields: Fields, projection: Sequence[int], metadata: Sequence[str] = ()
    ) -> MessageDecoder:
        """A picklable decoder of messages, for formats that :attr:`has_messages`.

        Args:
            options: the options of the format, as written: with ``<name>.`` before each key.
            fields: name and type of every column in a message.
            projection: positions in ``fields`` of the columns to read, in output order.
            metadata: keys of :attr:`metadata` whose values follow the projected columns.

        Raises:
            StateplanError: as :meth:`decoder`.
        """
        raise NotImplementedError(self.name)

    def message_encoder(self, options: Mapping[str, str], fields: Fields) -> MessageEncoder:
        """A picklable encoder of a message for each row, for formats that :attr:`has_messages`. Raises the same errors
        as :meth:`decoder`."""
        raise NotImplementedError(self.name)

    def make_decoder(
        self, values: OptionValues, fields: Fields, projection: Sequence[int], metadata: Sequence[str]
    ) -> Decoder:
        """Creates the decoder for :meth:`decoder`, which has parsed the options and checked the columns."""
        raise NotImplementedError(self.name)

    def make_encoder(self, values: OptionValues, fields: Fields) -> Encoder:
        """Creates the encoder for :meth:`encoder`, which has parsed the options and checked the columns."""
        raise NotImplementedError(self.name)


class LineFormat(Format):
    """A format of which a message is what a line of a file is: its decoder reads both, and its encoder writes both."""

    has_messages = True

    def message_decoder(
        self, options: Mapping[str, str], fields: Fields, projection: Sequence[int], metadata: Sequence[str] = ()
    ) -> MessageDecoder:
        self.check_columns(options, fields)
        return self.make_decoder(self.values(options), fields, projection, metadata)

    def message_encoder(self, options: Mapping[str, str], fields: Fields) -> MessageEncoder:
        self.check_columns(options, fields)
        return self.make_encoder(self.values(options), fields)

    def make_decoder(
        self, values: OptionValues, fields: Fields, projection: Sequence[int], metadata: Sequence[str]
    ) -> DecoderOfLines:
        raise NotImplementedError(self.name)

    def make_encoder(self, values: OptionValues, fields: Fields) -> EncoderOfLines:
        raise NotImplementedError(self.name)


def frame_of(rows: list[list[Any]], fields: Fields) -> pl.DataFrame:
    """Rows of raw values (see :mod:`common.values.fields`) as a frame."""
    import polars as pl

    from stateplan.common.values.fields import build_series

    if not fields:
        return pl.DataFrame(height=len(rows))
    data = zip(*rows, strict=True) if rows else ((),) * len(fields)
    columns = enumerate(zip(data, fields, strict=True))
    return pl.DataFrame([build_series(column(i), list(values), data_type) for i, (values, (_, data_type)) in columns])


def countable(df: pl.DataFrame) -> pl.DataFrame:
    """``df``. If it has no columns, a frame with only the column ``kind``, so that its rows can be counted."""
    import polars as pl

    return df if df.width else pl.DataFrame({KIND: pl.zeros(df.height, pl.Int8, eager=True)})


@dataclass
class FileColumns:
    """The metadata columns of the rows of one file. They are requested from the file system once, if there are rows.

    Attributes:
        path: the path of the file.
        keys: metadata keys, in the order of the columns.
    """

    path: str
    keys: Sequence[str]

    @cached_property
    def _values(self) -> list[pl.Expr]:
        import polars as pl

        fs, inner = filesystem_of(self.path)
        local = local_path(self.path)
        try:
            with driver_errors():
                info: dict[str, Any] = fs.info(inner)
        except OSError as error:
            raise DataError("DATA102", reason=error.strerror or error, place=Place(file=self.path)) from error
        values = {
            "file.path": pl.lit(self.path if local is None else absolute(local), pl.String),
            "file.name": pl.lit(posixpath.basename(inner if local is None else local), pl.String),
            "file.size": pl.lit(int(info["size"]), pl.Int64),
            "file.modification-time": pl.lit(modified(info), pl.Int64).cast(pl.Datetime("ms", "UTC")),
        }
        return [values[key] for key in self.keys]

    def behind(self, df: pl.DataFrame, width: int) -> pl.DataFrame:
        """``df`` with these columns behind its first ``width`` columns. Raises DataError DATA102."""
        if not self.keys:
            return df
        return df.with_columns(value.alias(column(width + i)) for i, value in enumerate(self._values))


def _parts(data_type: LogicalType) -> Iterator[LogicalType]:
    yield data_type
    for inner in (*data_type.children, *(f.type for f in data_type.fields)):
        yield from _parts(inner)
