"""The states of a plan: what each is called, how long it lives, and who says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import NEVER, format_ttl
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_ttls import compiled_ttls
from stateplan.execnodes.nodes.base import STATE_TTL, TIMED_STATE_TTL, CompiledTtl, ExecNode

Source = Literal[
    "plan", "hint", "function", "option", "default", "node configuration", "session option", "time", "none"
]
"""Who says how long a state lives.

``plan``: the plan, without its origin; somebody may have edited it. ``hint``, ``option``: the STATE_TTL hint of the
query, the option when it was compiled. ``default``: neither was there when it was compiled. ``time``: nobody, and time
drops it. ``none``: nobody, so it never expires.
"""

_SOURCES: dict[Source, str] = {
    "plan": "from the plan",
    "hint": "from the STATE_TTL hint",
    "function": "from the function",
    "option": "from the option {option}",
    "default": "no TTL given",
    "node configuration": "from the node configuration",
    "session option": "from the session option {option}",
    "time": "time drops it",
    "none": "no TTL given anywhere",
}


@dataclass(frozen=True)
class StateView:
    """One state of one operator.

    Attributes:
        node_id, operator, uid: the operator.
        index, name: which of its states.
        ttl: milliseconds, 0 for never.
        source: who says so.
        option: the one that gives the TTL where the plan does not.
        compiled: what the compiler wrote, where that has been edited since; else None.
        update_type, visibility, time_characteristic: as FLIP-25 has them; None for the default.
    """

    node_id: int
    operator: str
    uid: str
    index: int
    name: str
    ttl: int
    source: Source
    option: str = STATE_TTL
    compiled: CompiledTtl | None = None
    update_type: str | None = None
    visibility: str | None = None
    time_characteristic: str | None = None

    @property
    def ttl_text(self) -> str:
        """``ttl 1 h``, ``never expires``, or ``no ttl`` for what time drops."""
        return "no ttl" if self.source == "time" else ttl_words(self.ttl)

    @property
    def source_text(self) -> str:
        """``source`` in words, and what was compiled when that is something else."""
        if self.compiled is None:
            return _SOURCES[self.source].format(option=self.option)
        origin = self.compiled.origin
        was = "" if origin == "default" else f" {_SOURCES[origin].format(option=self.option)}"
        return f"edited in the plan, compiled as {ttl_words(self.compiled.ttl)}{was}"

    @property
    def identity(self) -> dict[str, Any]:
        """Which state it is, as JSON-ready data."""
        fields = vars(self)
        return {"id": self.node_id} | {key: fields[key] for key in ("operator", "uid", "index", "name")}

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data; the TTL as text in Flink's grammar and in milliseconds."""
        fields: dict[str, Any] = {
            **self.identity,
            "ttl": format_ttl(self.ttl),
            "ttlMillis": self.ttl,
            "source": self.source,
        }
        if self.compiled is not None:
            fields["compiled"] = {"ttl": format_ttl(self.compiled.ttl), "from": self.compiled.origin}
        extra = {
            "updateType": self.update_type,
            "visibility": self.visibility,
            "timeCharacteristic": self.time_characteristic,
        }
        return fields | {key: value for key, value in extra.items() if value is not None}


def ttl_words(ms: int) -> str:
    """``ttl 1 h``, or ``never expires`` for 0."""
    return "never expires" if ms == NEVER else f"ttl {format_ttl(ms)}"


def _source(
    node: ExecNode, index: int, ttl: int, session: Mapping[str, str] | None
) -> tuple[Source, CompiledTtl | None]:
    """Who says that the state ``index`` lives for ``ttl`` milliseconds, and what was compiled if that was edited."""
    compiled_entry = compiled_ttls(node)[index] if index < len(compiled_ttls(node)) else None
    if node.states:
        if compiled_entry is None:
            return "plan", None
        return (compiled_entry.origin, None) if compiled_entry.ttl == ttl else ("plan", compiled_entry)
    if node.configuration and node.ttl_option in node.configuration:
        return "node configuration", None
    if session and node.ttl_option in session:
        return "session option", None
    return ("time" if node.ttl_option == TIMED_STATE_TTL else "none"), None


def node_states(node: ExecNode, uid: str, session: Mapping[str, str] | None = None) -> tuple[StateView, ...]:
    """The states of ``node``, by index; empty if it keeps none with a TTL.

    Raises:
        PlanError: PLAN05x, when an option that decides about a TTL is not a duration.
    """
    if not node.state_names:  # Flink ignores entries of a node that keeps none
        return ()
    views = []
    for index, (name, ttl) in enumerate(zip(node.state_names, node.ttls(session), strict=True)):
        entry = node.states[index] if node.states else None
        source, compiled_entry = _source(node, index, ttl, session)
        views.append(
            StateView(
                node.id,
                node.title,
                uid,
                index,
                entry.name if entry else name,
                ttl,
                source,
                node.ttl_option,
                compiled_entry,
                entry.update_type if entry else None,
                entry.visibility if entry else None,
                entry.time_characteristic if entry else None,
            )
        )
    return tuple(views)


def state_views(
    graph: ExecGraph, uids: Mapping[int, str], session: Mapping[str, str] | None = None
) -> tuple[StateView, ...]:
    """All states of a plan, in the order of its nodes, whose uids are given by their ids.

    Raises:
        PlanError: as :func:`node_states`.
    """
    return tuple(v for n in graph.nodes for v in node_states(n, uids[n.id], session))
