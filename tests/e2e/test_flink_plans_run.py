"""Plans that Flink 2.3 compiled give here the rows they gave there, whatever the micro-batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stateplan.execnodes.graph import ExecGraph
from stateplan.runtime.translate import translate
from tests.support.cases import IN_SCOPE, Case, arrivals
from tests.support.local import printed


def replayed(case: Case, folder: Path, step: int) -> ExecGraph:
    """Flink's plan of the case, its tables reading replay files written to ``folder``."""
    times = sorted({at for rows in arrivals(case).values() for at, _ in rows})
    instant = {at: times[i - i % step] for i, at in enumerate(times)}
    for name, rows in arrivals(case).items():
        text = "".join(json.dumps({**json.loads(line), "@at": instant[at]}) + "\n" for at, line in rows)
        (folder / name).write_text(text)
    data: dict[str, Any] = json.loads(case.text("plan.json").replace("${DIR}", str(folder)))
    for node in data["nodes"]:
        if "scanTableSource" in node:
            node["scanTableSource"]["table"]["resolvedTable"]["options"]["connector"] = "replay"
    return ExecGraph.from_json(data, strict_unknown=False)


# An update event of debezium-json is two changes at one instant: what it makes of a group in between is netted.
UPDATES = (
    "statement_set_two_sinks",
    "group_agg_retract",
    "join_left_nopk",
    "join_semi_in",
    "changelog_normalize_cdc_dup",
    "sink_upsert_materializer",
    "sink_upsert_materializer_on_conflict",
    "sink_upsert_materializer_print",
    "sink_upsert_same_key",
)
# Flink gathers the rows of a second before it changes anything.
MINI_BATCHES = ("agg_of_agg_minibatch", "two_level_agg_minibatch")
ONE_CHANGE_AN_INSTANT = [n for n in IN_SCOPE if n not in (*UPDATES, *MINI_BATCHES)]


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize("name", IN_SCOPE)
def test_rows_like_flink(name: str, step: int, shared: Path, tmp_path: Path) -> None:
    """One row at a time gives the same changes too."""
    if step > 1 and name.startswith("ttl_"):
        pytest.skip("rows that share an instant cannot expire between each other")
    if step > 1 and name in ("dedup_keep_first_rowtime", "window_tvf_tumble"):
        pytest.skip("no row is late among those of one micro-batch")
    case = Case(shared / "cases" / name)
    lines = printed(translate(replayed(case, tmp_path, step), {}, key_groups=4))
    assert case.folded(lines) == case.materialized
    if step == 1 and name in ONE_CHANGE_AN_INSTANT:
        assert sorted(lines) == sorted(case.text("changelog.txt").splitlines())
