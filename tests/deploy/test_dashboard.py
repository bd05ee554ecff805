"""The Grafana dashboard and the alerts for Prometheus: they name metrics and labels that jobs have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.dashboard import FILE, NAME, dashboard
from stateplan.runtime.metrics.registry import METRICS

ROOT = Path(__file__).resolve().parent.parent.parent
PROMETHEUS = ROOT / "deploy" / "prometheus"
RUNBOOK = ROOT / "docs" / "operate" / "runbook.md"
BY_NAME = {metric.name: metric for metric in METRICS}
SELECTOR = re.compile(r"\b((?:flink|stateplan)_\w+)\{([^}]*)\}")
GROUPS = re.compile(r"\b(?:by|on) \(([^)]*)\)")


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"]
    return list(group["rules"])


def queries() -> list[str]:
    panels = [target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ())]
    variables = [v["query"]["query"] for v in dashboard()["templating"]["list"] if v["type"] == "query"]
    return [*panels, *variables, *(rule["expr"] for rule in rules())]


def test_the_file_is_up_to_date() -> None:
    assert json.loads(FILE.read_text()) == dashboard(), "run python -m scripts.dashboard"


@pytest.mark.parametrize("query", queries())
def test_queries_name_metrics_and_labels_that_exist(query: str) -> None:
    names = NAME.findall(re.sub(r'"[^"]*"', "", query))
    assert set(names) <= BY_NAME.keys(), f"no such metric: {set(names) - BY_NAME.keys()}"
    for name, matchers in SELECTOR.findall(query):
        labels = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)
        assert set(labels) <= set(BY_NAME[name].labels), f"{name} has no {labels}"
    for group in GROUPS.findall(query):
        labels = {label.strip() for label in group.split(",")}
        assert all(labels <= set(BY_NAME[name].labels) for name in names), f"{names} have no {labels}"
    for opening, closing in ("()", "{}", "[]"):
        assert query.count(opening) == query.count(closing)


def test_every_metric_is_on_the_dashboard() -> None:
    text = " ".join(target["expr"] for panel in dashboard()["panels"] for target in panel.get("targets", ()))
    assert set(NAME.findall(text)) == BY_NAME.keys()


def test_panels_do_not_overlap() -> None:
    cells: set[tuple[int, int]] = set()
    panels = dashboard()["panels"]
    for panel in panels:
        place = panel["gridPos"]
        own = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert not own & cells and all(0 <= x < 24 for x, _ in own), panel["title"]
        cells |= own
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_every_alert_has_a_section_in_the_runbook() -> None:
    headings = {line.removeprefix("### ") for line in RUNBOOK.read_text().splitlines() if line.startswith("### ")}
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names) and set(names) <= headings
    for rule in rules():
        assert rule["annotations"]["runbook_url"] == f"docs/operate/runbook.md#{rule['alert'].lower()}"
        labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        metrics = [BY_NAME[name] for name in NAME.findall(re.sub(r'"[^"]*"', "", rule["expr"]))]
        assert labels <= {"instance", *(label for metric in metrics for label in metric.labels)}, rule["alert"]


def test_alerts_fire_when_they_should() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool, of Prometheus")
    subprocess.run(["promtool", "check", "rules", str(PROMETHEUS / "alerts.yml")], check=True, capture_output=True)
    command = ["promtool", "test", "rules", str(Path(__file__).with_name("alerts_test.yml"))]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_rules_of_the_test_are_all_rules() -> None:
    cases = yaml.safe_load(Path(__file__).with_name("alerts_test.yml").read_text())["tests"]
    names = {case["alertname"] for test in cases for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert names == {rule["alert"] for rule in rules()}
