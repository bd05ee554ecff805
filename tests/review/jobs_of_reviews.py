"""Checkpoints with the figures of jobs that never ran, of the plans of scripts."""

from __future__ import annotations

from pathlib import Path

from stateplan.plans.document import PlanDocument
from stateplan.review.queries import Query, Script
from stateplan.runtime.metrics.log import FOLDER, MetricsLog
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo, OperatorInfo, StateSize

CHANGES = Path(__file__).parent / "changes"
DAY = 86_400_000


def queries(path: Path) -> list[Query]:
    """The queries of a script."""
    return Script({}, None, "", None).read(path, path.name)


def plan_of(path: Path) -> PlanDocument:
    """The plan of the only query of a script."""
    (query,) = queries(path)
    assert query.document is not None, query.error
    return query.document


def job_of(document: PlanDocument, folder: Path, rows: int = 1000, days: int = 30) -> Path:
    """A checkpoint of a job with a plan. Each state has so many rows of 100 bytes after some days."""
    folder.mkdir()
    (folder / "stateplan.json").write_text("{}")
    (folder / "plan.json").write_text(document.text)
    operators = tuple(
        OperatorInfo(f"uid-{node.id}", node.id, "operator", node.label, tuple(node.state_names), node.id)
        for node in document.graph.nodes
        if node.state_names
    )
    sizes = {
        operator.uid: StateSize(*([n] * len(operator.states) for n in (rows, rows * 100, 3))) for operator in operators
    }
    log = MetricsLog(folder / FOLDER)
    log.begin(JobInfo("4711", "job", 0, 0, operators, 2))
    log.append(BatchMetrics(0, 0, 0, 1.0, {}, sizes))
    log.append(BatchMetrics(1, days * DAY, 1, 1.0, {}, sizes))
    return folder
