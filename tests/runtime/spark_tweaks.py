"""Takes each of Spark's tweaks away, and runs a job without it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stateplan.runtime.spark import collect, local_spark, session, state_messages
from stateplan.runtime.spark.local_spark import CLASSES
from stateplan.runtime.spark.tweaks import TWEAKS
from stateplan.session.environment import TableEnvironment

Patch = pytest.MonkeyPatch


def class_is_missing(name: str) -> Callable[[Patch], None]:
    """The source of a tweak in the JVM names a class of Spark's or Hadoop's that is gone."""

    def take(monkeypatch: Patch) -> None:
        read = local_spark._source

        def source(cls: str) -> str:
            text = read(cls)
            gone = text.replace("org.apache.", "org.apache.gone.", 1)
            assert gone != text
            return gone if cls == CLASSES[name] else text

        monkeypatch.setattr(local_spark, "_source", source)

    return take


def setting_is_missing(name: str) -> Callable[[Patch], None]:
    """Spark does not know a setting of the tweak, or the class that it names."""

    def take(monkeypatch: Patch) -> None:
        tweak = TWEAKS[name]
        gone = {k: f"{v}Gone" for k, v in tweak.settings.items()}
        if not all(v.startswith("org.") for v in tweak.settings.values()):
            gone = {f"{k}.gone": v for k, v in tweak.settings.items()}
        monkeypatch.setitem(TWEAKS, name, replace(tweak, settings=gone))

    return take


def _fails(*_: Any) -> Any:
    raise TypeError("'JavaPackage' object is not callable")


TAKEN: Mapping[str, Callable[[Patch], None]] = {
    **{name: class_is_missing(name) for name in CLASSES if name not in ("stored-state", "coded-failures")},
    **{name: setting_is_missing(name) for name in TWEAKS if TWEAKS[name].settings and name != "kept-memory"},
    "ui-listeners": lambda patch: patch.setattr(local_spark, "_forget_pages", _fails),
    "class-archive": lambda patch: patch.setattr(session, "archive_options", _fails),
    "class-path": lambda patch: patch.setattr(session, "_FIRST", ("spark-gone",)),
    "worker-python": lambda patch: patch.setattr(session, "worker_python", _fails),
    "state-messages": lambda patch: patch.setattr(state_messages, "MapStateClient", object()),
    "collect-async": lambda patch: patch.setattr(collect, "_probe_rows", _fails),
    "json-progress": lambda patch: patch.setattr("pyspark.sql.streaming.listener.QueryProgressEvent.fromJson", _fails),
}


def results(folder: Path, options: Mapping[str, str], console: Callable[[str], None] | None = None) -> list[Any]:
    """The last counts of a job of two micro-batches."""
    for n in range(2):
        file = folder / "input" / f"{n}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text('{"k": 1}\n' + f'{{"k": {n + 2}}}\n')
        os.utime(file, (1_700_000_000 + n,) * 2)
    in_spark = {"table.exec.local.max-input-size": "0"}
    environment = TableEnvironment.create(
        {"pipeline.max-parallelism": "1", "parallelism.default": "1", **in_spark, **options}, console=console
    )
    environment.execute_sql(f"""CREATE TABLE src (k INT) WITH ('connector'='filesystem', 'path'='{folder / "input"}',
        'format'='json', 'source.max-files-per-trigger'='1')""")
    environment.execute_sql(f"""CREATE TABLE snk (k INT, n BIGINT) WITH ('connector'='filesystem',
        'path'='{folder / "output"}', 'format'='debezium-json')""")
    environment.execute_sql("INSERT INTO snk SELECT k, COUNT(*) FROM src GROUP BY k").wait()
    counts: dict[int, int] = {}
    lines = [line for file in sorted((folder / "output").glob("*.json")) for line in file.read_text().splitlines()]
    for change in map(json.loads, lines):
        if change["op"] == "c":
            counts[change["after"]["k"]] = max(change["after"]["n"], counts.get(change["after"]["k"], 0))
    return sorted(counts.items())


EXPECTED = [(1, 2), (2, 1), (3, 1)]
