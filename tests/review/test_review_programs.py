"""What programs read of a review: JSON, SARIF and a drawing."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import jsonschema

from tests.review.jobs_of_reviews import CHANGES
from tests.support.command import Command

SARIF = {
    "type": "object",
    "required": ["version", "runs", "$schema"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["tool", "results"],
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {"type": "object", "required": ["id"]},
                                    }
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message", "ruleId", "locations"],
                            "properties": {
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": {"type": "object", "required": ["text"]},
                                "locations": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "required": ["physicalLocation"],
                                        "properties": {
                                            "physicalLocation": {
                                                "type": "object",
                                                "required": ["artifactLocation", "region"],
                                                "properties": {
                                                    "artifactLocation": {
                                                        "properties": {"uri": {"type": "string", "format": "uri"}}
                                                    },
                                                    "region": {
                                                        "properties": {
                                                            "startLine": {"type": "integer", "minimum": 1},
                                                            "startColumn": {"type": "integer", "minimum": 1},
                                                            "endColumn": {"type": "integer", "minimum": 1},
                                                        }
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}
"""What section 3 of SARIF 2.1.0 requires of the parts that a review has."""


def test_sarif(stateplan: Command, tmp_path: Path) -> None:
    folder = CHANGES / "another_key"
    target = tmp_path / "review.sarif"
    assert stateplan("review", folder / "old.sql", folder / "new.sql", "-o", target).code == 0
    log = json.loads(target.read_text())
    jsonschema.validate(log, SARIF)
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
