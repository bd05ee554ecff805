"""What a worker keeps of a table that is looked up. Nothing here knows of a database.

Source: Flink's ``LookupOptions``, ``DefaultLookupCache`` and ``CacheReloadTrigger``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from stateplan.common.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

_WRITTEN_AT, _LAST_USE = "@written", "@asked"


@dataclass(frozen=True)
class PartialLimits:
    """How long the rows of a key are kept.

    Attributes:
        keys: at most; None for any number.
        after_write: ms after which they are read again; None for never.
        after_access: ms without being requested; None for any time.
        keeps_missing: whether it is kept that a key has no rows.
    """

    keys: int | None = None
    after_write: int | None = None
    after_access: int | None = None
    keeps_missing: bool = True


@dataclass
class PartialCache:
    """The rows of the keys that were requested last, as columns.

    Args:
        limits: of what is kept.
    """

    limits: PartialLimits
    _keys: pl.DataFrame | None = field(default=None, init=False)
    _rows: pl.DataFrame | None = field(default=None, init=False)

    def rows(self, keys: pl.DataFrame, now: int, read: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
        """The rows of some keys.

        Args:
            keys: distinct, without NULL; named as the columns of the rows that they are values of.
            now: ms.
            read: returns the rows of keys that are not here.
        """
        import polars as pl

        names = keys.columns
        self._drop_old(now)
        if self._keys is None or self._rows is None or self._keys.columns[:-2] != names:
            self._keys = keys.clear().with_columns(
                pl.lit(None, pl.Int64).alias(name) for name in (_WRITTEN_AT, _LAST_USE)
            )
            self._rows = None
        keys_now = keys.with_columns(pl.lit(True).alias("@now"))
        self._keys = (
            self._keys.join(keys_now, on=names, how="left", maintain_order="left")
            .with_columns(pl.when(pl.col("@now")).then(now).otherwise(pl.col(_LAST_USE)).alias(_LAST_USE))
            .drop("@now")
        )
        missing_keys = keys.join(self._keys, on=names, how="anti")
        parts = [] if self._rows is None else [self._rows.join(keys, on=names, how="semi")]
        if missing_keys.height or not parts:
            fresh_rows = read(missing_keys)
            parts.append(fresh_rows)
            new_keys = missing_keys
            if not self.limits.keeps_missing:
                new_keys = missing_keys.join(fresh_rows, on=names, how="semi")
            stamps = [pl.lit(now, pl.Int64).alias(_WRITTEN_AT), pl.lit(now, pl.Int64).alias(_LAST_USE)]
            self._keys = pl.concat([self._keys, new_keys.with_columns(stamps)])
            exact = fresh_rows.join(new_keys, on=names, how="semi")
            self._rows = exact if self._rows is None else pl.concat([self._rows, exact])
            self._drop_most()
        return pl.concat(parts)

    def _drop_old(self, now: int) -> None:
        import polars as pl

        if self._keys is None:
            return
        alive = pl.lit(True)
        if self.limits.after_write is not None:
            alive &= pl.col(_WRITTEN_AT) + self.limits.after_write > now
        if self.limits.after_access is not None:
            alive &= pl.col(_LAST_USE) + self.limits.after_access > now
        self._keep(self._keys.filter(alive))

    def _drop_most(self) -> None:
        """Drops the keys that were requested longest ago, where there are too many."""
        most = self.limits.keys
        if most is not None and self._keys is not None and self._keys.height > most:
            self._keep(self._keys.sort(_LAST_USE, descending=True, maintain_order=True).head(most))

    def _keep(self, keys: pl.DataFrame) -> None:
        if self._keys is not None and self._rows is not None and keys.height < self._keys.height:
            self._rows = self._rows.join(keys, on=keys.columns[:-2], how="semi")
        self._keys = keys


# ---- the whole table -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Periodic:
    """Reloads in intervals of ms, from the end of a reload or from its begin."""

    interval: int
    from_begin: bool = False

    def next(self, began: int, end: int) -> int:
        """When a table is read again, ms, that was read from ``began`` to ``end``."""
        return (began if self.from_begin else end) + self.interval


@dataclass(frozen=True)
class Timed:
    """Reloads at a time of the day, ms in UTC, every ``days`` days."""

    at: int
    days: int = 1

    def next(self, began: int, end: int) -> int:
        """See :meth:`Periodic.next`."""
        day = 86_400_000
        first = began - began % day + self.at
        return first + (day if first <= began else 0) + (self.days - 1) * day


@dataclass
class FullCache:
    """The whole table, read again when it is time."""

    reloads: Periodic | Timed
    _table: pl.DataFrame | None = field(default=None, init=False)
    _until: int = field(default=0, init=False)

    def rows(self, clock: Callable[[], int], read: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """The table; ``clock`` returns the time, ms."""
        began = clock()
        if self._table is None or began >= self._until:
            self._table = read()
            self._until = self.reloads.next(began, clock())
        return self._table


def time_of_day(text: str) -> int | None:
    """Milliseconds since midnight in UTC of a time in ISO-8601, with an offset or in UTC; None for a text that is
    none."""
    try:
        parsed_time = time.fromisoformat(text)
    except ValueError:
        return None
    utc = datetime.combine(date(2000, 1, 2), parsed_time, parsed_time.tzinfo or UTC).astimezone(UTC)
    midnight = utc.replace(hour=0, minute=0, second=0, microsecond=0)
    return (utc - midnight) // timedelta(milliseconds=1)


def positions(names: Sequence[str]) -> list[int]:
    """The numbers of the columns ``c0, c1, ...``."""
    return [int(name[1:]) for name in names]
