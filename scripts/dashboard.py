"""Writes the Grafana dashboard of jobs: ``python -m scripts.dashboard``. With ``--check`` it only compares.

Panels name metrics of the registry. Metrics that no panel of the first rows shows get a panel in the last one, so that
a new metric is on the dashboard by itself.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stateplan.runtime.metrics.registry import METRICS, OPERATOR_LABELS, TASK_LABELS, Kind, Metric

FILE = Path(__file__).resolve().parent.parent / "deploy" / "grafana" / "stateplan.json"
NAME = re.compile(r"\b(?:flink|stateplan)_\w+")
"""A metric in an expression."""

_WIDTH, _HEIGHT = 12, 8
_OPERATOR = "flink_taskmanager_job_task_operator_"
_JOB = "flink_jobmanager_job_"
_OF_JOB = '{job_name=~"$job"}'
_OF_OPERATOR = '{job_name=~"$job", operator_name=~"$operator"}'
_OF_TASK = '{job_name=~"$job", task_name=~"$operator"}'


@dataclass(frozen=True)
class Panel:
    """A panel.

    Attributes:
        title: its title.
        queries: expression and legend of each line.
        unit: a unit of Grafana.
        text: what it shows; empty for what the title says.
        kind: a panel type of Grafana.
        is_wide: whether it has the whole width.
    """

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    text: str = ""
    kind: str = "timeseries"
    is_wide: bool = False


def _sum(expression: str, *labels: str) -> str:
    return f"sum by ({', '.join(labels)}) ({expression})"


def _rate(metric: str, *labels: str) -> str:
    return _sum(f"rate({metric}{_OF_OPERATOR}[$__rate_interval])", *labels)


_ROWS: dict[str, tuple[Panel, ...]] = {
    "Jobs": (
        Panel(
            "Status",
            [(_sum(f"stateplan_job_status{_OF_JOB}", "job_name", "status"), "{{job_name}}: {{status}}")],
            kind="stat",
            is_wide=True,
            text="Jobs of a gateway. A job with a reporter of its own has no status.",
        ),
        Panel(
            "Load",
            [(f"stateplan_load{_OF_JOB}", "{{job_name}}")],
            "percentunit",
            "Near 100 %, the job barely keeps up with its input, or falls behind.",
        ),
        Panel("Duration of the last micro-batch", [(f"{_JOB}lastCheckpointDuration{_OF_JOB}", "{{job_name}}")], "ms"),
        Panel(
            "Time since the last commit",
            [(f"time() - stateplan_last_commit_seconds{_OF_JOB}", "{{job_name}}")],
            "s",
            "Grows while a job has no input, too.",
        ),
        Panel("Age of the current micro-batch", [(f"stateplan_batch_running_seconds{_OF_JOB}", "{{job_name}}")], "s"),
    ),
    "Rows": (
        Panel("Input rows", [(f"{_OPERATOR}numRecordsInPerSecond{_OF_OPERATOR}", "{{operator_name}}")], "rowsps"),
        Panel("Output rows", [(f"{_OPERATOR}numRecordsOutPerSecond{_OF_OPERATOR}", "{{operator_name}}")], "rowsps"),
        Panel(
            "Watermark lag",
            [
                (
                    f"time() - ({_OPERATOR}currentInputWatermark{_OF_OPERATOR} > 0 < 9e15) / 1000",
                    "{{operator_name}}",
                )
            ],
            "s",
            "How far event time is behind the clock.",
        ),
        Panel(
            "Late rows and missed retractions",
            [
                (f"increase({_OPERATOR}numLateRecordsDropped{_OF_OPERATOR}[5m])", "late: {{operator_name}}"),
                (f"increase(stateplan_retractions_missed_total{_OF_OPERATOR}[5m])", "missed: {{operator_name}}"),
            ],
            text="Of five minutes.",
        ),
        Panel("Input by row kind", [(_rate("stateplan_rows_in_total", "kind"), "{{kind}}")], "rowsps"),
        Panel("Output by row kind", [(_rate("stateplan_rows_out_total", "kind"), "{{kind}}")], "rowsps"),
    ),
    "State": (
        Panel("Bytes of state", [(f"stateplan_state_bytes{_OF_OPERATOR}", "{{operator_name}} {{state}}")], "bytes"),
        Panel("Stored rows", [(f"stateplan_state_stored_rows{_OF_OPERATOR}", "{{operator_name}} {{state}}")]),
        Panel(
            "Expired rows",
            [(_rate("stateplan_state_expired_rows_total", "operator_name", "state"), "{{operator_name}} {{state}}")],
            "rowsps",
        ),
        Panel(
            "Expired rows that were needed",
            [(_rate("stateplan_state_needed_rows_total", "operator_name", "state"), "{{operator_name}} {{state}}")],
            "rowsps",
            "Of the keys that an audit of state follows. A TTL may be too short.",
        ),
        Panel("Used share of state budgets", [(f"stateplan_state_budget_used{_OF_JOB}", "{{budget}}")], "percentunit"),
        Panel(
            "Bytes of state written",
            [(_rate("stateplan_state_written_bytes_total", "operator_name"), "{{operator_name}}")],
            "Bps",
        ),
    ),
    "Time": (
        Panel("Time by phase", [(_rate("stateplan_phase_seconds_total", "phase"), "{{phase}}")], "percentunit"),
        Panel(
            "Busy time",
            [(f"flink_taskmanager_job_task_busyTimeMsPerSecond{_OF_TASK} / 1000", "{{task_name}}")],
            "percentunit",
        ),
        Panel(
            "Hits of the cache of state",
            [
                (
                    f"{_rate('stateplan_cache_hits_total', 'operator_name')} / "
                    f"({_rate('stateplan_cache_hits_total', 'operator_name')} + "
                    f"{_rate('stateplan_cache_misses_total', 'operator_name')})",
                    "{{operator_name}}",
                )
            ],
            "percentunit",
            is_wide=True,
        ),
    ),
}
"""Title of a row -> its panels. The last row is made of what they lack."""


def other_panels(rows: dict[str, tuple[Panel, ...]]) -> Iterator[Panel]:
    """A panel for each metric that no panel of these rows shows."""
    names = {name for panels in rows.values() for p in panels for query, _ in p.queries for name in NAME.findall(query)}
    for metric in METRICS:
        if metric.name not in names:
            yield Panel(metric.name, [_query(metric)], text=metric.text)


def _query(metric: Metric) -> tuple[str, str]:
    owner = next((labels for labels in (OPERATOR_LABELS, TASK_LABELS) if metric.labels[: len(labels)] == labels), ())
    name = owner[-1] if owner else "job_name"
    selector = {OPERATOR_LABELS: _OF_OPERATOR, TASK_LABELS: _OF_TASK}.get(owner, _OF_JOB)
    expression = f"{metric.name}{selector}"
    if metric.kind is Kind.COUNTER:
        expression = f"rate({expression}[$__rate_interval])"
    return _sum(expression, name), f"{{{{{name}}}}}"


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in {**_ROWS, "Others": tuple(other_panels(_ROWS))}.items():
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
             "gridPos": {"h": 1, "w": 2 * _WIDTH, "x": 0, "y": y}}
        )  # fmt: skip
        y, x = y + 1, 0
        for panel in row:
            width = 2 * _WIDTH if panel.is_wide else _WIDTH
            if x + width > 2 * _WIDTH:
                x, y = 0, y + _HEIGHT
            panels.append(_panel(panel, len(panels) + 1, {"h": _HEIGHT, "w": width, "x": x, "y": y}))
            x += width
        y += _HEIGHT
    return {
        "uid": "stateplan",
        "title": "stateplan",
        "description": "Jobs of stateplan. Written by scripts/dashboard.py.",
        "tags": ["stateplan"],
        "timezone": "browser",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables())},
        "annotations": {"list": []},
        "links": [],
        "panels": panels,
    }


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "options": {},
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": source, "expr": expression, "legendFormat": legend}
            for i, (expression, legend) in enumerate(panel.queries)
        ],
    }


def _variables() -> Iterator[dict[str, Any]]:
    """The data source, and the jobs and operators to choose from."""
    yield {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}}
    queries = {
        "job": "label_values(stateplan_running, job_name)",
        "operator": f"label_values({_OPERATOR}numRecordsIn{_OF_JOB}, operator_name)",
    }
    for name, query in queries.items():
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": {"type": "prometheus", "uid": "${source}"},
            "query": {"query": query, "refId": name},
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


def main() -> int:
    """1 when ``--check`` finds it out of date."""
    text = json.dumps(dashboard(), indent=1) + "\n"
    is_fresh = FILE.exists() and FILE.read_text(encoding="utf-8") == text
    if not is_fresh:
        is_check = "--check" in sys.argv[1:]
        print(f"{'out of date' if is_check else 'wrote'}: {FILE.name}")
        if is_check:
            return 1
        FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
