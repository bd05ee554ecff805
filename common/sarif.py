"""SARIF 2.1.0: what programs read that show findings beside the lines of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from stateplan.common.errors import Place

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(version: str, rules: Iterable[Mapping[str, Any]], results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A log with one run of stateplan.

    Args:
        version: of stateplan.
        rules: what the codes of the results mean.
        results: the findings.
    """
    driver = {"name": "stateplan", "version": version, "rules": [*rules]}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [*results]}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def sarif_rule(code: str, name: str, text: str, level: str) -> dict[str, Any]:
    """What a code means, and how bad it is: ``error``, ``warning`` or ``note``."""
    return {
        "id": code,
        "name": name,
        "shortDescription": {"text": text},
        "defaultConfiguration": {"level": level},
    }


def sarif_result(code: str, level: str, text: str, place: Place, identity: Mapping[str, str]) -> dict[str, Any]:
    """A finding.

    Args:
        code: the id of its rule.
        level: how bad it is.
        text: what is wrong.
        place: where it is; without a line, at the beginning of the file.
        identity: by which it is the same finding when lines have moved.
    """
    line, column = place.line or 1, place.column or 1
    region = {"startLine": line, "startColumn": column, "endColumn": column + place.length}
    artifact = {"uri": quote(place.file or "")}
    return {
        "ruleId": code,
        "level": level,
        "message": {"text": text},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
        "partialFingerprints": dict(identity),
    }
