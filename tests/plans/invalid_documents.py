"""Plan documents that do not load, with the errors of Flink."""

from __future__ import annotations

import json
from typing import Any

from stateplan.plans.jackson import dumps
from tests.plans.conftest import DATA

# FACTS, section 3, "edit / result": the ttl as JSON, the code, what is said.
BAD_TTLS = [
    ('"abc"', "PLAN053", "not a duration"),
    ('"-1 d"', "PLAN054", "negative"),
    ('"+1 d"', "PLAN053", "write it without the sign: '1 d'"),
    ('"-PT1H"', "PLAN054", "negative"),
    ('""', "PLAN052", "blank"),
    ('"  "', "PLAN052", "blank"),
    ('"1 week"', "PLAN055", "write '7 d'"),
    ('"1.5 h"', "PLAN055", "write '90 min'"),
    ('"5 us"', "PLAN055", "'µs'"),
    ('"1 parsec"', "PLAN055", "not known"),
    ('"99999999999999999999 d"', "PLAN056", "too long"),
    ('"106751991168 d"', "PLAN056", "too long"),
    ("1" + "0" * 30, "PLAN056", "too long"),
    ("-1", "PLAN054", "negative"),
    ("1.5", "PLAN050", "1.5"),
    ("true", "PLAN050", "true"),
    ("null", "PLAN051", "missing"),
]


def edited(change: Any) -> str:
    plan = json.loads((DATA / "join" / "plan.json").read_text())
    result = change(plan)
    return dumps(plan if result is None else result)


# FACTS, section 3, "Other load errors".
LOAD_ERRORS: dict[str, tuple[Any, str, str, str | None]] = {
    "a list": (lambda p: [1, 2], "PLAN065", "not a JSON object", "["),
    "no nodes": (lambda p: {}, "PLAN041", '"flinkVersion" is missing', "{"),
    "no edges": (lambda p: p.pop("edges") and None, "PLAN041", '"edges" is missing', "{"),
    "no flinkVersion": (lambda p: p.pop("flinkVersion") and None, "PLAN041", '"flinkVersion" is missing', "{"),
    "extra top level key": (lambda p: p.update(node=[]), "PLAN045", "did you mean 'nodes'", '"node"'),
    "unknown type": (
        lambda p: p["nodes"][1].update(type="stream-exec-exchnge_1"),
        "PLAN034",
        "did you mean 'stream-exec-exchange_1'",
        '"stream-exec-exchnge_1"',
    ),
    "unknown version": (
        lambda p: p["nodes"][1].update(type="stream-exec-exchange_7"),
        "PLAN033",
        "stream-exec-exchange has no version 7",
        '"stream-exec-exchange_7"',
    ),
    "type without version": (
        lambda p: p["nodes"][1].update(type="stream-exec-exchange"),
        "PLAN032",
        "write 'stream-exec-exchange_1'",
        '"stream-exec-exchange"',
    ),
    "batch plan": (
        lambda p: p["nodes"][1].update(type="batch-exec-exchange_1"),
        "PLAN034",
        "batch mode",
        '"batch-exec-exchange_1"',
    ),
    "no type": (lambda p: p["nodes"][1].pop("type") and None, "PLAN031", 'has no "type"', "{"),
    "flinkVersion 9.9": (lambda p: p.update(flinkVersion="9.9"), "PLAN066", "unknown Flink version", '"9.9"'),
    "flinkVersion 2.3.0": (lambda p: p.update(flinkVersion="2.3.0"), "PLAN066", "did you mean '2.3'", '"2.3.0"'),
    "edge to nowhere": (lambda p: p["edges"][2].update(target=99), "PLAN037", "99", "99"),
    "node removed": (lambda p: p["nodes"].pop(1) and None, "PLAN037", "names the node 2", "2"),
    "duplicate id": (lambda p: p["nodes"][1].update(id=5), "PLAN036", "the id 5 is used by two nodes", "5"),
    "edge dropped": (lambda p: p["edges"].pop(2) and None, "PLAN047", "the node 5 (join) has 1 input", None),
    "cycle": (lambda p: p["edges"].append({"source": 6, "target": 2}), "PLAN039", "form a cycle", None),
    "wrong type of value": (lambda p: p["nodes"][4]["joinSpec"].update(leftKeys="x"), "PLAN040", "a list", '"x"'),
    "wrong enum": (
        lambda p: p["nodes"][4]["joinSpec"].update(joinType="INER"),
        "PLAN046",
        "did you mean 'INNER'",
        '"INER"',
    ),
    "missing field": (
        lambda p: p["nodes"][4]["joinSpec"].pop("leftKeys") and None,
        "PLAN041",
        '"leftKeys" is missing',
        '"joinSpec"',
    ),
    "bad type": (lambda p: p["nodes"][0].update(outputType="ROW<`a` INTT>"), "TYPE001", "INTT", '"ROW<`a` INTT>"'),
    "bad expression": (lambda p: p["nodes"][5]["projection"][1].update(kind="INPUT"), "PLAN030", "INPUT", None),
    "field out of range": (lambda p: p["nodes"][4]["joinSpec"].update(leftKeys=[9]), "PLAN049", "field 9", None),
}
