"""The states of a plan: what each is called, how long it lives, and who says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from execnodes.nodes.base import STATE_TTL, ExecNode
from execnodes.ttl import NEVER, format_ttl
from plans.document import PlanDocument

__all__ = ["Source", "StateView", "node_states", "state_views", "table", "ttl_words"]

Source = Literal["plan", "node configuration", "session option", "none"]
"""Who says how long a state lives; ``none``: nobody, so it never expires."""

_SOURCES = {"session option": f"session option {STATE_TTL}", "none": "no TTL given anywhere"}


@dataclass(frozen=True)
class StateView:
    """One state of one operator.

    Attributes:
        node_id, operator, uid: the operator.
        index, name: which of its states.
        ttl: milliseconds, 0 for never.
        source: who says so.
        update_type, visibility, time_characteristic: as FLIP-25 has them; None for the default.
    """

    node_id: int
    operator: str
    uid: str
    index: int
    name: str
    ttl: int
    source: Source
    update_type: str | None = None
    visibility: str | None = None
    time_characteristic: str | None = None

    @property
    def ttl_text(self) -> str:
        """``ttl 1 h``, or ``never expires``."""
        return ttl_words(self.ttl)

    @property
    def source_text(self) -> str:
        """``source`` with the name of the option."""
        return _SOURCES.get(self.source, self.source)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data; the TTL as text in Flink's grammar and in milliseconds."""
        out: dict[str, Any] = {
            "id": self.node_id,
            "operator": self.operator,
            "uid": self.uid,
            "index": self.index,
            "name": self.name,
            "ttl": format_ttl(self.ttl),
            "ttlMillis": self.ttl,
            "source": self.source,
        }
        extra = {
            "updateType": self.update_type,
            "visibility": self.visibility,
            "timeCharacteristic": self.time_characteristic,
        }
        return out | {key: value for key, value in extra.items() if value is not None}


def ttl_words(ms: int) -> str:
    """``ttl 1 h``, or ``never expires`` for 0."""
    return "never expires" if ms == NEVER else f"ttl {format_ttl(ms)}"


def _source(node: ExecNode, session: Mapping[str, str] | None) -> Source:
    if node.states:
        return "plan"
    if node.configuration and STATE_TTL in node.configuration:
        return "node configuration"
    return "session option" if session and STATE_TTL in session else "none"


def node_states(node: ExecNode, uid: str, session: Mapping[str, str] | None = None) -> tuple[StateView, ...]:
    """The states of ``node``, by index; empty when it keeps none with a TTL.

    Raises:
        PlanError: PLAN05x, when an option that decides about a TTL is not a duration.
    """
    if not node.state_names:  # Flink ignores entries of a node that keeps none
        return ()
    source = _source(node, session)
    views = []
    for index, (name, ttl) in enumerate(zip(node.state_names, node.ttls(session), strict=True)):
        entry = node.states[index] if node.states else None
        views.append(
            StateView(
                node.id,
                node.title,
                uid,
                index,
                entry.name if entry else name,
                ttl,
                source,
                entry.update_type if entry else None,
                entry.visibility if entry else None,
                entry.time_characteristic if entry else None,
            )
        )
    return tuple(views)


def state_views(document: PlanDocument, session: Mapping[str, str] | None = None) -> tuple[StateView, ...]:
    """All states of a plan, in the order of its nodes.

    Raises:
        PlanError: as :func:`node_states`.
    """
    return tuple(v for n in document.graph.nodes for v in node_states(n, document.uids[n.id], session))


def table(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """``rows`` in columns two blanks apart, a line each, no blanks at the ends."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(f"{indent}{line}\n" for line in lines)
