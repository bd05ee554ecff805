"""The golden cases: scripts and input, with what Flink 2.3 made of them, played on the replay clock."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.local import fold, upsert_fold

SESSION = {"table.local-time-zone": "UTC"}
"""What was set when Flink compiled the cases and golden pairs, besides what their scripts set."""

IN_SCOPE = (
    "agg_of_agg_minibatch",
    "changelog_normalize_cdc_dup",
    "changelog_normalize_upsert",
    "dedup_keep_first_proctime",
    "dedup_keep_first_rowtime",
    "dedup_keep_last_proctime",
    "from_changelog_retract",
    "group_agg_retract",
    "interval_join",
    "join_inner_append",
    "join_inner_hint_ttl",
    "join_inner_pk",
    "join_left_nopk",
    "join_semi_in",
    "limit_append",
    "multi_join",
    "nottl_changelog_normalize",
    "nottl_dedup_keep_last",
    "order_by_limit_append",
    "order_by_limit_offset_append",
    "over_agg_proctime",
    "sink_on_conflict_error",
    "sink_on_conflict_nothing",
    "sink_upsert_materializer",
    "sink_upsert_materializer_on_conflict",
    "sink_upsert_materializer_print",
    "sink_upsert_none",
    "sink_upsert_same_key",
    "temporal_join_event_time",
    "statement_set_two_sinks",
    "topn_append_no_rownum",
    "topn_append_with_rownum",
    "topn_retract_no_rownum",
    "topn_updatefast_with_rownum",
    "ttl_changelog_normalize",
    "ttl_dedup_keep_first",
    "ttl_group_agg",
    "ttl_join_left_short",
    "ttl_limit",
    "ttl_outer_join_right_short",
    "two_level_agg_minibatch",
    "union_distinct_agg",
    "window_tvf_tumble",
    "withttl_group_agg",
)
"""Every case, by the name of its folder."""


_KEYED = ("sink_upsert_materializer_print",)
"""Cases whose sink is written to by its first column, without their script saying so."""


@dataclass(frozen=True)
class Case:
    """A golden case in ``folder``."""

    folder: Path

    def text(self, name: str) -> str:
        """A file of the case, with this project's print for the sink that Flink was given to declare a mode."""
        text = (self.folder / name).read_text()
        if name == "script.sql":
            return re.sub(r"'connector'='labsink',\s*'mode'=", "'connector'='print', 'changelog-mode'=", text)
        if name == "plan.json":
            return re.sub(r'"connector" : "labsink",(\s+)"mode" :', r'"changelog-mode" :', text).replace(
                '"changelog-mode" :', '"connector" : "print", "changelog-mode" :'
            )
        return text

    @property
    def script(self) -> str:
        """The SQL as it was given to Flink, in the case's own folder."""
        return self.text("script.sql").replace("${DIR}", str(self.folder))

    @property
    def plan(self) -> str:
        return self.text("plan.json").replace("${DIR}", str(self.folder))

    @property
    def materialized(self) -> list[str]:
        return self.folded(self.text("changelog.txt").splitlines())

    def folded(self, lines: Sequence[str]) -> list[str]:
        """The rows that changes leave: by the key that the script names, else as a multiset."""
        key = re.search(r"@upsert-key: ([\d,]+)", self.text("script.sql"))
        if key is not None or self.folder.name in _KEYED:
            return upsert_fold(lines, [int(i) for i in key[1].split(",")] if key else [0])
        return fold(lines)


_TABLE = re.compile(r"CREATE TABLE (\w+)[^;]*?'path'='\$\{DIR\}/(\w+\.json)'[^;]*;", re.S)


def arrivals(case: Case) -> dict[str, list[tuple[int, str]]]:
    """Input file -> (instant in ms, line): rows 20 ms apart, in turn over the tables or as ``order.txt`` says."""
    tables = dict(_TABLE.findall(case.text("script.sql")))
    lines = {t: iter(case.text(f).splitlines()) for t, f in tables.items()}
    out: dict[str, list[tuple[int, str]]] = {f: [] for f in tables.values()}
    now = 1_000
    order = case.folder / "order.txt"
    if order.exists():
        for entry in order.read_text().split("\n"):
            if entry.startswith("sleep "):
                now += int(entry.removeprefix("sleep "))
            elif entry.strip():
                out[tables[entry.strip()]].append((now, next(lines[entry.strip()])))
                now += 20
    live = dict(lines)
    while live:
        for table in list(live):
            line = next(live[table], None)
            if line is None:
                del live[table]
            else:
                out[tables[table]].append((now, line))
                now += 20
    return out


def replay_script(case: Case, folder: Path, step: int = 1) -> str:
    """The case's script reading from replay tables written to ``folder``; ``step`` rows arrive at one instant."""
    times = sorted({at for rows in arrivals(case).values() for at, _ in rows})
    instant = {at: times[i - i % step] for i, at in enumerate(times)}
    for name, rows in arrivals(case).items():
        text = "".join(json.dumps({**json.loads(line), "@at": instant[at]}) + "\n" for at, line in rows)
        (folder / name).write_text(text)
    script = case.text("script.sql").replace("${DIR}", str(folder))
    return re.sub(r"'connector'\s*=\s*'filesystem'", "'connector'='replay'", script)
