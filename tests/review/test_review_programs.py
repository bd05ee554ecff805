"""What programs read of a review: JSON, SARIF and a drawing."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.review.jobs_of_reviews import CHANGES
from tests.support.command import Command
from tests.support.schemas import problems


@pytest.mark.parametrize("change", sorted(folder.name for folder in CHANGES.iterdir() if folder.is_dir()))
def test_sarif_is_valid(stateplan: Command, tmp_path: Path, change: str) -> None:
    folder, target = CHANGES / change, tmp_path / "review.sarif"
    assert stateplan("review", folder / "old.sql", folder / "new.sql", "-o", target).code == 0
    assert problems(json.loads(target.read_text()), "https://json.schemastore.org/sarif-2.1.0.json") == []


def test_sarif(stateplan: Command, tmp_path: Path) -> None:
    folder = CHANGES / "another_key"
    target = tmp_path / "review.sarif"
    assert stateplan("review", folder / "old.sql", folder / "new.sql", "-o", target).code == 0
    log = json.loads(target.read_text())
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert {result["ruleId"] for result in run["results"]} <= set(rules)
    lost = next(result for result in run["results"] if result["ruleId"] == "REV010")
    assert lost["message"]["text"].endswith("loses the state of join.left, join.right")
    region = lost["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"]) == (11, 1)


def test_json(stateplan: Command) -> None:
    folder = CHANGES / "another_key"
    data = json.loads(stateplan("review", folder / "old.sql", folder / "new.sql", "--format", "json").out)
    assert data["version"] == 1
    assert [state["fate"] for state in data["queries"][0]["states"]] == ["lost", "lost"]


def test_a_drawing_has_what_changed_and_what_is_next_to_it(stateplan: Command, tmp_path: Path) -> None:
    folder = CHANGES / "another_key"
    target = tmp_path / "review.svg"
    assert stateplan("review", folder / "old.sql", folder / "new.sql", "-o", target).code == 0
    text = target.read_text()
    ElementTree.fromstring(text)
    assert text.count('class="node') == 5
    assert text.count("{ opacity: 1; }") == 2
