"""The rows of a query as they are now, kept up to date by its changes; and its last changes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from stateplan.common.changelog import RowKind

Row = tuple[str | None, ...]
Change = tuple[RowKind, Sequence[str | None]]

CHANGES = 1000
"""Of a changelog, so many last changes are kept. As Flink's client."""

_MANY = 1024


class CurrentRows:
    """The table that a changelog makes, in the order in which its rows arrived. An update leaves a row in its place.

    Args:
        limit: this number of rows are kept; the oldest go first.

    Attributes:
        dropped: how many went.
        changes: how many came in.
    """

    def __init__(self, limit: int) -> None:
        self._limit = max(1, limit)
        self._rows: dict[int, Row] = {}
        self._places: dict[Row, list[int]] = {}
        self._next = self._oldest = 0
        self._updated: list[int] = []
        self._lock = threading.Lock()
        self.drop_count = self.changes = 0

    def __len__(self) -> int:
        return len(self._rows) - len(self._updated)

    def apply(self, changes: Iterable[Change]) -> None:
        """Takes changes in. A retraction of a row that is not there changes nothing."""
        with self._lock:
            for kind, values in changes:
                self.changes += 1
                row = tuple(values)
                if kind is RowKind.UPDATE_BEFORE:
                    place = self._take(row)
                    if place is not None:
                        self._updated.append(place)
                elif kind is RowKind.UPDATE_AFTER and self._updated:
                    self._put(self._updated.pop(0), row)
                else:
                    self._forget_updated()
                    if kind is RowKind.DELETE:
                        place = self._take(row)
                        if place is not None:
                            del self._rows[place]
                    else:
                        self._put(self._next, row)
                        self._next += 1
                        if len(self._rows) > self._limit:
                            self._drop_oldest()

    def _put(self, place: int, row: Row) -> None:
        self._rows[place] = row
        places = self._places.setdefault(row, [])
        places.append(place)
        if len(places) & (len(places) - 1) == 0 and len(places) > _MANY:
            places[:] = [p for p in places if p >= self._oldest]

    def _take(self, row: Row) -> int | None:
        """The last place of a row, which is no longer its place."""
        places = self._places.get(row, [])
        place = places.pop() if places else None
        if not places:
            self._places.pop(row, None)
        return place if place in self._rows else None

    def _forget_updated(self) -> None:
        """The rows whose old values were retracted, and which got no new ones, are gone."""
        for place in self._updated:
            del self._rows[place]
        self._updated.clear()

    def _drop_oldest(self) -> None:
        while self._oldest not in self._rows:
            self._oldest += 1
        row = self._rows.pop(self._oldest)
        if self._places[row][-1] == self._oldest:
            del self._places[row]
        self._oldest += 1
        self.drop_count += 1

    def page(self, start: int, count: int) -> list[Row]:
        """``count`` rows from row ``start`` on, from 0."""
        with self._lock:
            updated_places = set(self._updated)
            rows = (
                (row for place, row in self._rows.items() if place not in updated_places)
                if updated_places
                else self._rows.values()
            )
            return list(islice(rows, start, start + count))


class LastChanges:
    """The last changes of a changelog, oldest first.

    Args:
        limit: so many are kept.
    """

    def __init__(self, limit: int = CHANGES) -> None:
        self._changes: deque[tuple[RowKind, Row]] = deque(maxlen=limit)
        self._lock = threading.Lock()
        self.changes = 0

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def drop_count(self) -> int:
        """How many are no longer kept."""
        return self.changes - len(self._changes)

    def apply(self, changes: Iterable[Change]) -> None:
        """Takes changes in."""
        with self._lock:
            for kind, values in changes:
                self.changes += 1
                self._changes.append((kind, tuple(values)))

    def page(self, start: int, count: int) -> list[Row]:
        """``count`` changes from change ``start`` on, from 0; the kind of change is their first value."""
        with self._lock:
            return [(kind.short, *row) for kind, row in islice(self._changes, start, start + count)]
