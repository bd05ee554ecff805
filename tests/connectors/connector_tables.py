"""Helpers of the connector tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from stateplan.common.options import Role
from stateplan.common.types import LogicalType, parse_type
from stateplan.connectors.filesystem import decoder_of
from stateplan.connectors.formats.base import Decoder, Encoder
from stateplan.connectors.print import format_rows
from stateplan.connectors.protocol import Partition, SourceTable
from stateplan.connectors.registry import FORMATS, find_connector, find_format, metadata_columns
from stateplan.connectors.replay import ReplayTable

GOLDEN = Path(__file__).parent / "golden"

Fields = list[tuple[str, LogicalType]]


def fields(columns: str) -> Fields:
    """Fields of a text such as ``a INT, b STRING``, or of ``ROW<...>``."""
    text = columns if columns.startswith("ROW<") else f"ROW<{columns}>"
    return [(f.name, f.type) for f in parse_type(text).fields]


def table(fmt: str, **options: str) -> dict[str, str]:
    """Options of a filesystem table; format options without prefix, with underscores for dots and dashes kept."""
    return {"connector": "filesystem", "path": "/data", "format": fmt} | options


def cases(name: str) -> Iterator[dict[str, Any]]:
    for line in (GOLDEN / name).read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def source_table(
    options: Mapping[str, str], columns: Fields, projection: Sequence[int], metadata: Sequence[str] = (), **more: Any
) -> SourceTable:
    """A table that is read."""
    connector, fmt = find_connector(options), find_format(options, Role.SOURCE)
    read = {"projection": tuple(projection), "metadata": tuple(metadata), **more}
    return SourceTable("t", connector, options, tuple(columns), fmt, **read)


def make_decoder(
    options: Mapping[str, str],
    columns: Fields,
    projection: Sequence[int],
    metadata: Sequence[str] = (),
    keys: Sequence[str] = (),
    only: Sequence[Partition] | None = None,
) -> Decoder:
    """The decoder of a filesystem table."""
    return decoder_of(source_table(options, columns, projection, metadata, partition_keys=tuple(keys), partitions=only))


def make_encoder(options: Mapping[str, str], columns: Sequence[tuple[str, LogicalType]]) -> Encoder:
    """The encoder of a filesystem table."""
    return FORMATS[options["format"]].encoder(options, columns)


def replay_table(options: Mapping[str, str], columns: Fields, projection: Sequence[int]) -> ReplayTable:
    """The rows of a replay table."""
    return ReplayTable.of(source_table(options, columns, projection))


def read_lines(options: Mapping[str, str], columns: Fields, path: Path, metadata: Sequence[str] = ()) -> list[str]:
    """What a table over one file holds, as the print connector shows it."""
    decoder = make_decoder(options, columns, range(len(columns)), metadata)
    known = metadata_columns(options)
    types = [declared for _, declared in columns] + [known[key] for key in metadata]
    out = []
    for df in decoder.read(str(path)):
        assert {k: v for k, v in df.schema.items() if k != "kind"} == {
            f"c{i}": declared.polars() for i, declared in enumerate(types)
        }
        out += format_rows(df, types)
    return out


def read_all(
    options: Mapping[str, str], columns: Fields, path: Path, projection: list[int] | None = None
) -> pl.DataFrame:
    """All rows of a file in one frame."""
    wanted = range(len(columns)) if projection is None else projection
    return pl.concat(list(make_decoder(options, columns, wanted).read(str(path))))
