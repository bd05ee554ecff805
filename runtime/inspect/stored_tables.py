"""The state tables of an operator, as the checkpoint records them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stateplan.runtime.checkpoint.slots import TableEntry
from stateplan.runtime.kernel import StateTable, own_columns

MAIN_TABLE = "rows"
"""The short name of the main table of a state."""


def stored_tables(entries: Mapping[str, TableEntry]) -> tuple[StateTable, ...]:
    """The tables of an operator, from the layout in the checkpoint."""
    return tuple(
        StateTable(name, entry.slot, entry.lookup, entry.identity, own_columns(entry.columns))
        for name, entry in entries.items()
    )


def short_names(tables: Sequence[StateTable]) -> dict[str, str]:
    """For the name of each table a short one, which no other table of its state has: the first table of a state is
    :data:`MAIN_TABLE`, where the others are named after it."""
    out: dict[str, str] = {}
    for slot in dict.fromkeys(t.slot for t in tables):
        mine = [t.name for t in tables if t.slot == slot]
        main = next((n for n in mine if all(o == n or o.startswith((f"{n}.", f"{n}-")) for o in mine)), None)
        for name in mine:
            short = name if main is None else MAIN_TABLE if name == main else name[len(main) + 1 :]
            out[name] = name if short == MAIN_TABLE and name != main else short
    return out
