"""State that expires within a window or between windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.ttl import NEVER, format_ttl
from stateplan.execnodes.windows import CumulativeWindow, HoppingWindow, SessionWindow, TumblingWindow
from stateplan.plans.lint.lineage import keys, origin
from stateplan.plans.lint.rule import Problem, Rule
from stateplan.plans.lint.subject import Origin, State, Subject

_RESULTS = frozenset(
    {
        "window-aggregate",
        "global-window-aggregate",
        "group-window-aggregate",
        "window-join",
        "window-rank",
        "window-deduplicate",
    }
)
"""Operators that give the rows of a window when it ends."""


class ShorterThanWindow(Rule):
    """The TTL is shorter than the windows that feed the state.

    Anti-pattern: a running total of daily window results has a TTL of an hour; or rows are grouped by `window_start` of
    a window function, with a TTL shorter than the window.

    Why: window results arrive when windows end. If the TTL is shorter than the time between two ends, a result never
    finds the earlier ones, and the running total is that of the last window. If rows are grouped by the window itself,
    a group without rows for the TTL restarts within its window.

    Best practice: use a TTL of several windows. A window aggregation (`GROUP BY window_start, window_end` directly
    after the window function) needs no TTL.

    Source: Flink's documentation of window table-valued functions (window operators drop state when the window ends,
    other operators keep it for their TTL), and FLIP-145.
    """

    CODE: ClassVar[str] = "TTL007"
    NAME: ClassVar[str] = "shorter-than-window"

    def check(self, subject: Subject) -> Iterator[Problem]:
        pace = subject.carried(lambda node: _length(node, "pace") if node.title in _RESULTS else 0)
        for state in subject.all_states():
            if state.ttl == NEVER:
                continue
            window = _window_in_key(subject, state)
            if window is not None:
                size = _length(window, "size")
                if window.title == "window-table-function" and state.ttl < size:
                    yield _problem(state, f"it is grouped by windows of {format_ttl(size)} ({window.label})", size)
                continue
            found: Origin | None = pace.get(state.node.id)
            if found is not None and state.ttl <= found.millis:
                why = f"{found.node.label} emits results every {format_ttl(found.millis)}"
                yield _problem(state, why, found.millis)


def _problem(state: State, why: str, millis: int) -> Problem:
    return Problem(
        state.node,
        f"{state} expires after {format_ttl(state.ttl)}, but {why}",
        f'set its TTL to more than "{format_ttl(millis)}"',
        state=state.index,
    )


def _window_in_key(subject: Subject, state: State) -> ExecNode | None:
    """The operator that makes a window's bound by which the state is kept, if it is."""
    source = subject.graph.inputs(state.node)[state.input]
    for key in keys(state.node, state.input):
        node, field = origin(subject.graph, source, key)
        if node.title == "window-table-function" or node.title in _RESULTS:
            properties = getattr(node, "named_window_properties", None)
            first = len(node.output_type.fields) - (3 if properties is None else len(properties))
            if field >= first:
                return node
    return None


def _length(node: ExecNode, which: str) -> int:
    """The size of an operator's windows, or the time between two of their ends, ms; 0 where it is not known."""
    windowing: Any = getattr(node, "windowing", None) or getattr(node, "left_windowing", None)
    window = getattr(windowing, "window", None)
    if isinstance(window, TumblingWindow):
        return window.size
    if isinstance(window, SessionWindow):
        return window.gap
    if isinstance(window, HoppingWindow):
        return window.size if which == "size" else window.slide
    if isinstance(window, CumulativeWindow):
        return window.max_size if which == "size" else window.step
    return 0
