"""Refuses options of the session that would give another plan, where the plan has what they change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from execnodes.changelog import INSERT_ONLY
from execnodes.connectors.registry import source_changelog_mode
from execnodes.errors import Place, SqlError
from planner.algebra import Aggregate, Join, Rank, Rel, Scan, Sink, walk

__all__ = ["refuse_options"]


@dataclass(frozen=True)
class _Refusal:
    """An option that cannot have ``value`` for the operators that ``concerns`` picks."""

    option: str
    value: str
    what: str
    concerns: Callable[[Rel], bool]
    expected: str


def _has_key(rel: Rel) -> bool:
    return isinstance(rel, (Scan, Sink)) and bool(rel.table.schema.primary_key)


_REFUSALS = (
    _Refusal(
        "table.exec.mini-batch.enabled",
        "TRUE",
        "mini-batch processing",
        lambda rel: isinstance(rel, (Aggregate, Rank, Join)),
        "'false': rows are processed in micro-batches in any case",
    ),
    _Refusal(
        "table.exec.source.cdc-events-duplicate",
        "TRUE",
        "normalizing change events that come twice",
        lambda rel: isinstance(rel, Scan) and _has_key(rel) and source_changelog_mode(rel.table.options) != INSERT_ONLY,
        "'false'",
    ),
    _Refusal(
        "table.exec.sink.upsert-materialize",
        "FORCE",
        "a sink that keeps state to order updates",
        lambda rel: isinstance(rel, Sink) and _has_key(rel),
        "'AUTO' or 'NONE'",
    ),
)


def refuse_options(plan: Rel, options: Mapping[str, str]) -> None:
    """Checks the options against a physical plan.

    Raises:
        SqlError: SQL151, for an option that Flink would make another plan for.
    """
    for row in _REFUSALS:
        if options.get(row.option, "").strip().upper() != row.value:
            continue
        found = next((rel for rel in walk(plan) if row.concerns(rel)), None)
        if found is not None:
            raise SqlError(
                "SQL151",
                f"{row.what} (the option '{row.option}' = '{options[row.option]}') is not supported yet",
                place=_place(found, plan),
                expected=row.expected,
                hint=f"RESET '{row.option}'",
            )


def _place(rel: Rel, plan: Rel) -> Place | None:
    own = getattr(rel, "place", None)
    return own if isinstance(own, Place) else getattr(plan, "place", None)
