"""The ``print`` connector: one line on standard output per change, such as ``+I[1, a]``.

Values are written as Flink writes them: NULL as ``null``, timestamps as ``2024-01-01T00:00``, floating-point numbers
as ``1.0E10``, lists as ``[a, b]``, maps as ``{k=v}``, nested rows as ``+I[..]``, bytes as signed numbers.

The options are the rows of :class:`Print`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from stateplan.common.changelog import KIND, MODES, ChangelogMode, RowKind, column
from stateplan.common.disk import output_error
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, OptionType, Role, flag, parallelism
from stateplan.common.types import LogicalType
from stateplan.connectors.protocol import Connector, Sink, SinkTable

if TYPE_CHECKING:
    import polars as pl


class Print(Connector):
    """Lines on standard output."""

    name = "print"
    description = "Prints one line per change to standard output, in Flink's format."
    options = (
        Option("print-identifier", OptionType.STRING, "Prefix of each line, followed by '> '.", role=Role.SINK),
        flag("standard-error", "Whether to print to standard error.", Role.SINK),
        Option(
            "changelog-mode",
            OptionType.ENUM,
            "Changelog mode of the sink: all changes (retract), no -U (upsert), no -U and only keys in -D "
            "(upsert-key-delete), or only +I (append). Default: the mode of the query. Flink's print connector has no "
            "such option.",
            role=Role.SINK,
            values=("retract", "upsert", "upsert-key-delete", "append"),
            exact=True,
        ),
        parallelism(Role.SINK, "there is one writer"),
    )
    roles = (Role.SINK,)
    sink_abilities = frozenset({"Partitioning"})

    def sink_mode(self, options: Mapping[str, str], changelog_mode: ChangelogMode) -> ChangelogMode:
        mode = self.value(options, "changelog-mode")
        return changelog_mode if mode is None else MODES[mode]

    def takes_key_deletes(self, options: Mapping[str, str]) -> bool:
        return options.get("changelog-mode") == "upsert-key-delete"

    def sink(self, table: SinkTable) -> Sink:
        types = tuple(data_type for _, data_type in table.fields)
        return _Lines(types, table.options.get("print-identifier"), table.value("standard-error"))


@dataclass(frozen=True)
class _Lines(Sink):
    """The lines of a micro-batch, made in workers and printed by the driver."""

    types: tuple[LogicalType, ...]
    identifier: str | None
    to_stderr: bool = False
    keeps_order = True
    is_transient = True

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        return "".join(f"{line}\n" for line in format_rows(frame, self.types, self.identifier)).encode()

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        stream = "standard error" if self.to_stderr else "standard output"
        out: TextIO | None = sys.stderr if self.to_stderr else sys.stdout
        if out is None:
            raise output_error(stream, None)
        try:
            for part in parts:
                out.write(part.decode())
            out.flush()
        except OSError as cause:
            raise output_error(stream, cause) from cause


def format_rows(df: pl.DataFrame, types: Sequence[LogicalType], identifier: str | None = None) -> list[str]:
    """The lines of a frame of changes, in row order.

    Args:
        df: ``c0..cn``; ``kind`` when it is not insert-only.
        types: the types of ``c0..cn``.
        identifier: the option ``print-identifier``; None or empty for none.
    """
    import polars as pl

    from stateplan.common.values.codecs import codec

    prefix = f"{identifier}> " if identifier else ""
    cells = [codec(data_type).java(pl.col(column(i))).fill_null("null") for i, data_type in enumerate(types)]
    body = (
        df.select(pl.concat_str(cells, separator=", ")).to_series()
        if cells
        else pl.Series([""] * df.height, dtype=pl.String)
    )
    if KIND not in df.columns:
        return [f"{prefix}+I[{text}]" for text in body]
    kinds = [prefix + kind.short for kind in RowKind]
    return [f"{kinds[kind]}[{text}]" for kind, text in zip(df[KIND], body, strict=True)]
