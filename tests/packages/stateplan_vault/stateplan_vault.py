"""The ``vault`` connector: tables that open with a password.

A source gives numbered rows, and a sink appends lines to a file. Both compare the password with a digest, in workers
as well as on the driver.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stateplan.common.errors import RunError
from stateplan.common.options import Option, OptionType, Role
from stateplan.connectors.protocol import (
    Connector,
    Lookup,
    RangeSource,
    Sink,
    SinkTable,
    SourceTable,
    Table,
)
from stateplan.connectors.splits import RangeSplit

if TYPE_CHECKING:
    import polars as pl


class Vault(Connector):
    """Tables that open with a password."""

    name = "vault"
    options = (
        Option("digest", OptionType.STRING, "SHA-256 of what opens the table.", is_required=True),
        Option("rows", OptionType.INTEGER, "How many rows a source has; 0 for rows without end.", default=3),
        Option("file", OptionType.STRING, "Where a sink writes."),
        Option("password", OptionType.STRING, "Opens the table."),
        Option("url", OptionType.STRING, "A URL whose password opens it."),
        Option("properties.*", OptionType.STRING, "Properties; all of them together open it."),
    )
    roles = (Role.SOURCE, Role.SINK)
    can_look_up = True

    def is_bounded(self, options: Mapping[str, str]) -> bool:
        return bool(self.value(options, "rows"))

    def identity(self, options: Mapping[str, str]) -> Mapping[str, str] | None:
        return None

    def source(self, table: SourceTable) -> VaultSource:
        rows = table.value("rows")
        return VaultSource(_key(table), table.options["digest"], len(table.projection), rows or None, bool(rows))

    def lookup(self, table: SourceTable) -> VaultLookup:
        return VaultLookup(self.source(table))

    def sink(self, table: SinkTable) -> VaultSink:
        return VaultSink(_key(table), table.options["digest"], table.options["file"])


def _key(table: Table) -> str:
    """What is to open a table."""
    url = table.secret("url")
    properties = "".join(table.group("properties.").values())
    return properties or table.secret("password") or (urlsplit(url).password if url else None) or ""


def digest(key: str) -> str:
    """For the option ``digest``."""
    return hashlib.sha256(key.encode()).hexdigest()


def _open(key: str, wanted: str) -> None:
    if digest(key) != wanted:
        raise RunError.with_text("VAULT001", "the password does not open it")


@dataclass
class VaultSource(RangeSource):
    """Rows ``0, 1, ...``, in every column as INT."""

    key: str = field(repr=False)
    digest: str
    width: int
    total: int | None
    bounded: bool
    interval: int | None = 100

    def size(self) -> int | None:
        return self.total

    def read(self, split: RangeSplit) -> Iterator[pl.DataFrame]:
        import polars as pl

        _open(self.key, self.digest)
        numbers = pl.Series(range(split.start, split.stop), dtype=pl.Int32)
        yield pl.DataFrame({f"c{i}": numbers for i in range(self.width)})


@dataclass
class VaultLookup(Lookup):
    """The rows of a source."""

    source: VaultSource

    def size(self) -> int | None:
        return 0

    def rows(self, now: int, keys: pl.DataFrame | None) -> pl.DataFrame:
        import polars as pl

        return pl.concat(self.source.read(RangeSplit(0, self.source.total or 0)))


@dataclass
class VaultSink(Sink):
    """Lines of a file."""

    key: str = field(repr=False)
    digest: str
    file: str

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        _open(self.key, self.digest)
        return frame.write_csv(include_header=False).encode()

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        _open(self.key, self.digest)
        with Path(self.file).open("ab") as out:
            out.writelines(parts)
