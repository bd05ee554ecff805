"""A job beside its plan: the figures of its micro-batches under the names of the plan, and the TTLs that hold now.

``job top`` and the page of a gateway show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath
from stateplan.common.ttl import format_ttl
from stateplan.plans.document import PlanDocument, ttl_text
from stateplan.plans.live import plan_in
from stateplan.plans.selectors import Selectors
from stateplan.plans.states import StateView
from stateplan.runtime.checkpoint.live_ttl import Record, StateTtl, read_ttls
from stateplan.runtime.metrics.view import JobView, OperatorView

Key = tuple[int, int]
"""(Operator id, number of the state)."""

_USUAL = "default_catalog.default_database."


@dataclass(frozen=True)
class PlannedState:
    """A state of a job, with the TTL of the plan and the TTLs that were requested while the job ran.

    Attributes:
        view: the state in the plan.
        selector: the selector of the state.
        live: the TTLs that the checkpoint has recorded; None if it has not recorded any.
    """

    view: StateView
    selector: str
    live: StateTtl | None = None

    @property
    def ttl(self) -> int:
        """Its TTL in the last micro-batch, ms."""
        return self.view.ttl if self.live is None else self.live.now

    @property
    def ttl_text(self) -> str:
        """``1 h``, ``never``, or ``1 h -> 2 h`` while the next micro-batch is to change it."""
        request = self.live.asked if self.live else None
        return ttl_text(self.ttl) + (f" -> {ttl_text(request.ttl)}" if request else "")

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data: the TTL, what the plan says, what is requested, and what held since which micro-batch."""
        live = self.live
        request = live.asked if live else None
        settings = live.settings if live else ()
        return {
            "ttl": format_ttl(self.ttl),
            "ttlMillis": self.ttl,
            "planTtl": format_ttl(self.view.ttl),
            "asked": request and {"ttl": format_ttl(request.ttl), "who": request.who, "at": request.at},
            "settings": [
                {"ttl": format_ttl(s.ttl), "since": s.since, "by": s.by, "who": s.who, "at": s.at} for s in settings
            ],
        }


class JobPlan:
    """The plan of a job, and the TTLs of its states.

    Args:
        document: the plan of its last run.
        folder: its checkpoint; None for a job without one.
        options: the options of the session, for states whose TTL neither the plan nor the node says.

    Attributes:
        document, folder: as given.
    """

    def __init__(
        self, document: PlanDocument, folder: AnyPath | None = None, options: Mapping[str, str] | None = None
    ) -> None:
        self.document = document
        self.folder = folder
        self._options = dict(options or {})

    @staticmethod
    def of(folder: AnyPath, options: Mapping[str, str] | None = None) -> JobPlan:
        """The plan in a checkpoint. Raises PlanError, or OSError if there is none."""
        return JobPlan(plan_in(folder), folder, options)

    @cached_property
    def _views(self) -> tuple[tuple[StateView, str], ...]:
        selectors = Selectors(self.document, self._options)
        return tuple((view, selectors.name_alone(view)) for view in selectors.views)

    def states(self) -> dict[Key, PlannedState]:
        """The states with a TTL, as they are now, in the order of the plan.

        Raises:
            CheckpointError: CKPT031, the record of TTLs is damaged.
        """
        record = Record() if self.folder is None else read_ttls(self.folder)
        return {
            (view.node_id, view.index): PlannedState(view, selector, record.get((view.uid, view.index)))
            for view, selector in self._views
        }

    def now(self, states: Mapping[Key, PlannedState]) -> PlanDocument:
        """The plan with the TTLs of ``states``, a document of its own."""
        edits = [(*key, state.ttl) for key, state in states.items() if state.ttl != state.view.ttl]
        return self.document.with_splices(self.document.ttl_splices(edits, self._options))


def plain_name(operator: OperatorView) -> str:
    """What an operator is called: without its id, and of a table without the catalog and database that all have."""
    return operator.info.name.removesuffix(f"[{operator.info.id}]").removeprefix(_USUAL)


def job_json(view: JobView, states: Mapping[Key, PlannedState], operators: Sequence[OperatorView]) -> dict[str, Any]:
    """A snapshot of a job as JSON-ready data; instants in ms since 1970.

    Args:
        view: the job.
        states: of its plan.
        operators: ``view.operators()``.
    """
    last = view.last
    return {
        "jobId": view.info.job_id.replace("-", ""),
        "name": view.info.name,
        "running": view.writer is not None,
        "process": view.writer.pid if view.writer else None,
        "time": view.now,
        "started": view.info.started,
        "batches": view.batches,
        "batch": last.to_json() if last else None,
        "batchInHand": view.in_hand[0] if view.in_hand else None,
        "batchInHandSince": view.in_hand[1] if view.in_hand else None,
        "load": round(view.load, 3),
        "backlog": view.backlog,
        "operators": [operator_json(operator, states) for operator in operators],
    }


def operator_json(operator: OperatorView, states: Mapping[Key, PlannedState]) -> dict[str, Any]:
    """An operator as JSON-ready data."""
    info = operator.info
    hits = operator.cache_hits
    data: dict[str, Any] = {
        "id": info.id,
        "uid": info.uid,
        "kind": info.kind,
        "name": plain_name(operator),
        "rowsInPerSecond": round(operator.rows_in, 3),
        "rowsOutPerSecond": round(operator.rows_out, 3),
        "inputs": [round(rate, 3) for rate in operator.inputs],
        "busy": round(operator.busy, 4),
        "cacheHitRatio": None if hits is None else round(hits, 4),
        "watermark": operator.watermark,
        "totals": operator.totals,
    }
    if info.states:
        data["state"] = [_state_json(operator, i, states.get((info.id, i))) for i in range(len(info.states))]
    return data


def _state_json(operator: OperatorView, index: int, state: PlannedState | None) -> dict[str, Any]:
    sizes = operator.state
    return {
        "name": operator.info.states[index],
        "selector": state and state.selector,
        "storedRows": sizes and sizes.rows[index],
        "bytes": sizes and sizes.bytes[index],
        "runs": sizes and sizes.runs[index],
        "partial": sizes is not None and sizes.partial,
        **({} if state is None else state.to_json()),
    }
