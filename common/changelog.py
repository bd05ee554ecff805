"""Row kinds and changelog modes (Flink's ``RowKind`` and ``ChangelogMode``), and how changes are held in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import IntEnum

KIND = "kind"
"""Name of the Int8 column that carries the row kind in a frame of changes. A frame without it is insert-only."""


class RowKind(IntEnum):
    """Kind of a change, with Flink's byte values."""

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def short(self) -> str:
        """``+I``, ``-U``, ``+U`` or ``-D``."""
        return ("+I", "-U", "+U", "-D")[self]

    @property
    def is_retraction(self) -> bool:
        return self in (RowKind.UPDATE_BEFORE, RowKind.DELETE)


ChangelogMode = frozenset[RowKind]
INSERT_ONLY: ChangelogMode = frozenset({RowKind.INSERT})
UPSERT: ChangelogMode = frozenset({RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE})
RETRACT: ChangelogMode = frozenset(RowKind)

MODES: dict[str, ChangelogMode] = {
    "append": INSERT_ONLY,
    "retract": RETRACT,
    "upsert": UPSERT,
    "upsert-key-delete": UPSERT,
}
"""The words for changelog modes in options of tables; of an ``upsert-key-delete`` only the key of a -D is right."""


def union_mode(modes: Iterable[ChangelogMode | None]) -> ChangelogMode | None:
    """Every kind of change in ``modes``; None if one of them is not known."""
    out: ChangelogMode = frozenset()
    for mode in modes:
        if mode is None:
            return None
        out |= mode
    return out


def kind_named(words: Collection[str]) -> ChangelogMode:
    """The kinds that a plan names; ``~DELETE`` is a deletion of which only the key is right, other words are none."""
    return frozenset(kind for kind in RowKind if kind.name in words or f"~{kind.name}" in words)


def updating(update_before: bool, deletes: bool = True) -> ChangelogMode:
    """The mode of an operator that updates its rows, with or without their old rows, and may delete them."""
    return frozenset(
        kind
        for kind in RowKind
        if (update_before or kind is not RowKind.UPDATE_BEFORE) and (deletes or kind is not RowKind.DELETE)
    )


def column(index: int) -> str:
    """Name of field ``index`` in every frame of the runtime: fields are named by position, ``c0``, ``c1``, ..."""
    return f"c{index}"


def columns(count_or_indexes: int | Iterable[int]) -> list[str]:
    """Names of the first ``n`` fields, or of the given fields."""
    indexes = range(count_or_indexes) if isinstance(count_or_indexes, int) else count_or_indexes
    return [column(i) for i in indexes]
