"""Plans whose scans read metadata: replay tables have recorded it with their rows, other tables give what they have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import CatalogError
from stateplan.execnodes.graph import ExecGraph
from stateplan.plans.document import PlanDocument
from stateplan.runtime.translate import translate
from tests.support.local import printed

TIME = "TIMESTAMP(3)"
ROWS = [
    {"@at": 1, "a": 1, "b": 1, "c": "hi", "ts": "2020-04-15 08:00:01"},
    {"@at": 1, "a": 2, "b": 2, "c": "hello", "ts": "2020-04-15 08:00:02"},
    {"@at": 2, "a": 3, "b": 2, "c": "hello world", "ts": None},
]


def plan(abilities: list[Mapping[str, Any]], produced: str, options: Mapping[str, str]) -> ExecGraph:
    """A plan as Flink writes it: a scan of ``a INT, b BIGINT, c STRING, d TIMESTAMP(3) METADATA FROM 'ts'``."""
    columns = [
        {"name": "a", "dataType": "INT"},
        {"name": "b", "dataType": "BIGINT"},
        {"name": "c", "dataType": "VARCHAR(2147483647)"},
        {"name": "d", "kind": "METADATA", "dataType": TIME, "metadataKey": "ts", "isVirtual": False},
    ]
    source = {
        "table": {
            "identifier": "`default_catalog`.`default_database`.`t`",
            "resolvedTable": {"schema": {"columns": columns, "watermarkSpecs": []}, "options": options},
        },
        "abilities": abilities,
    }
    fields = [part.strip().split("` ") for part in produced.removeprefix("ROW<").removesuffix(">").split(", ")]
    sink = {
        "table": {
            "identifier": "`default_catalog`.`default_database`.`s`",
            "resolvedTable": {
                "schema": {
                    "columns": [{"name": name.removeprefix("`"), "dataType": of} for name, of in fields],
                    "watermarkSpecs": [],
                },
                "options": {"connector": "print"},
            },
        }
    }
    forward = {"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}
    nodes = [
        {
            "id": 1,
            "type": "stream-exec-table-source-scan_1",
            "scanTableSource": source,
            "outputType": produced,
            "description": "scan",
            "inputProperties": [],
        },
        {
            "id": 2,
            "type": "stream-exec-sink_1",
            "configuration": {},
            "dynamicTableSink": sink,
            "inputChangelogMode": ["INSERT"],
            "inputProperties": [forward],
            "outputType": produced,
            "description": "sink",
        },
    ]
    edges = [{"source": 1, "target": 2, "shuffle": {"type": "FORWARD"}, "shuffleMode": "PIPELINED"}]
    return PlanDocument.parse(json.dumps({"flinkVersion": "1.19", "nodes": nodes, "edges": edges})).graph


def recorded(folder: Path) -> dict[str, str]:
    path = folder / "rows.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return {"connector": "replay", "path": str(path), "format": "json"}


def projected(fields: list[int], produced: str) -> dict[str, Any]:
    return {"type": "ProjectPushDown", "projectedFields": [[f] for f in fields], "producedType": f"{produced} NOT NULL"}


def reading(produced: str, *keys: str) -> dict[str, Any]:
    return {"type": "ReadingMetadata", "metadataKeys": list(keys), "producedType": f"{produced} NOT NULL"}


def test_metadata_behind_some_columns(tmp_path: Path) -> None:
    produced = f"ROW<`a` INT, `c` VARCHAR(2147483647), `d` {TIME}>"
    abilities = [projected([0, 2], "ROW<`a` INT, `c` VARCHAR(2147483647)>"), reading(produced, "ts")]
    assert printed(translate(plan(abilities, produced, recorded(tmp_path)), {}, 2)) == [
        "+I[1, hi, 2020-04-15T08:00:01]",
        "+I[2, hello, 2020-04-15T08:00:02]",
        "+I[3, hello world, null]",
    ]


def test_all_columns_and_metadata_without_an_ability(tmp_path: Path) -> None:
    produced = f"ROW<`a` INT, `b` BIGINT, `c` VARCHAR(2147483647), `d` {TIME}>"
    lines = printed(translate(plan([], produced, recorded(tmp_path)), {}, 2))
    assert lines[0] == "+I[1, 1, hi, 2020-04-15T08:00:01]"


def test_filters_partitions_and_metadata_together(tmp_path: Path) -> None:
    produced = f"ROW<`a` INT, `d` {TIME}>"
    greater = {
        "kind": "CALL",
        "syntax": "BINARY",
        "internalName": "$>$1",
        "operands": [
            {"kind": "INPUT_REF", "inputIndex": 3, "type": TIME},
            {"kind": "LITERAL", "value": "2020-04-15 08:00:01", "type": f"{TIME} NOT NULL"},
        ],
        "type": "BOOLEAN",
    }
    abilities = [
        {"type": "PartitionPushDown", "partitions": [{"b": "2"}]},
        {"type": "FilterPushDown", "predicates": [greater]},
        projected([0], "ROW<`a` INT>"),
        reading(produced, "ts"),
    ]
    assert printed(translate(plan(abilities, produced, recorded(tmp_path)), {}, 2)) == ["+I[2, 2020-04-15T08:00:02]"]


def test_metadata_that_a_connector_does_not_have() -> None:
    produced = f"ROW<`a` INT, `d` {TIME}>"
    abilities = [projected([0], "ROW<`a` INT>"), reading(produced, "ts")]
    options = {"connector": "filesystem", "path": "/data", "format": "json"}
    with pytest.raises(CatalogError) as caught:
        translate(plan(abilities, produced, options), {}, 2)
    assert caught.value.code == "CAT102"
    assert "the connector 'filesystem' has no metadata 'ts'" in str(caught.value)
    assert caught.value.place is not None
    assert str(caught.value.place.pointer).endswith("/scanTableSource/abilities/1/metadataKeys/0")
