"""Options of a session."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from stateplan.common.errors import OptionError
from stateplan.common.settings import (
    DEPRECATED,
    NO_EFFECT,
    NO_EFFECT_PREFIXES,
    OPTIONS,
    Configuration,
    default_text,
    value,
)
from tests.support.rooms import ROOMS

ROOT = Path(__file__).resolve().parents[2]


def fails(action: Callable[[], object]) -> str:
    with pytest.raises(OptionError) as raised:
        action()
    return str(raised.value)


def test_values_are_read_by_their_type() -> None:
    config = Configuration(
        {
            "table.exec.state.ttl": "36 h",
            "parallelism.default": "4",
            "table.plan.force-recompile": "TRUE",
            "table.plan.compile.catalog-objects": "schema",
        }
    )
    assert config.value("table.exec.state.ttl") == 36 * 3_600_000
    assert config.value("parallelism.default") == 4
    assert config.value("table.plan.force-recompile") is True
    assert config.value("table.plan.compile.catalog-objects") == "SCHEMA"
    assert config.get("table.exec.state.ttl") == "36 h"


def test_defaults() -> None:
    config = Configuration()
    assert config.value("table.exec.state.ttl") == 0
    assert config.get("table.exec.state.ttl") == "0 ms"
    assert config.get("table.plan.restore.catalog-objects") == "ALL"
    assert config.get("pipeline.name") is None
    assert config.get("pipeline.name", "mine") == "mine"
    assert value({}, "table.exec.sink.require-on-conflict") is True
    assert config.to_dict() == {}


@pytest.mark.parametrize("key", OPTIONS)
def test_every_default_can_be_set_and_says_so(key: str) -> None:
    row = OPTIONS[key]
    assert row.description.endswith("."), "a description is one or two whole sentences"
    text = default_text(row)
    if text is not None:
        config = Configuration()
        config.set(key, text)
        assert config.value(key) == row.default


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        (
            "table.exec.stat.ttl",
            "1 h",
            "[OPT001] unknown option 'table.exec.stat.ttl'\n  expected: one of the options that SHOW OPTIONS "
            "lists, or spark.*\n  hint: did you mean 'table.exec.state.ttl'",
        ),
        (
            "plan.force-recompile",
            "true",
            "[OPT001] unknown option 'plan.force-recompile'\n  expected: one of the options that "
            "SHOW OPTIONS lists, or spark.*\n  hint: did you mean 'table.plan.force-recompile'?",
        ),
        ("table.exec.state.ttl", "abc", "[OPT105] 'abc' is not a value of the option 'table.exec.state.ttl'"),
        ("table.exec.state.ttl", "-1 d", "[OPT105] '-1 d' is not a value of the option 'table.exec.state.ttl'"),
        (
            "parallelism.default",
            "two",
            "[OPT105] 'two' is not a value of the option 'parallelism.default'\n"
            "  expected: a whole number of at most 32 bits, at least 1",
        ),
        (
            "parallelism.default",
            "0",
            "[OPT105] '0' is not a value of the option 'parallelism.default': it is too small\n"
            "  expected: a whole number of at most 32 bits, at least 1",
        ),
        (
            "table.plan.force-recompile",
            "yes",
            "[OPT105] 'yes' is not a value of the option 'table.plan.force-recompile'\n  expected: 'true' or 'false'",
        ),
        (
            "table.plan.compile.catalog-objects",
            "SCHEMAS",
            "[OPT105] 'SCHEMAS' is not a value of the option "
            "'table.plan.compile.catalog-objects'\n  expected: 'ALL' or 'SCHEMA' or 'IDENTIFIER'\n"
            "  hint: did you mean 'SCHEMA'?",
        ),
        (
            "execution.runtime-mode",
            "automatic",
            "[OPT105] 'automatic' is not a value of the option 'execution.runtime-mode'\n"
            "  expected: 'STREAMING' or 'BATCH'",
        ),
        (
            "table.sql-dialect",
            "hive",
            "[OPT002] the option 'table.sql-dialect' = 'hive' cannot be honoured: only Flink's dialect is available",
        ),
        (
            "table.local-time-zone",
            "Europe/Berlim",
            "[OPT105] 'Europe/Berlim' is not a value of the option "
            "'table.local-time-zone'\n  expected: an id such as Europe/Berlin, an offset such as GMT-08:00, "
            "or default\n"
            "  hint: did you mean 'Europe/Berlin'",
        ),
    ],
)
def test_bad_options(key: str, text: str, message: str) -> None:
    assert fails(lambda: Configuration().set(key, text)).startswith(message)


def test_what_changes_nothing_says_why() -> None:
    config = Configuration()
    assert config.set("state.backend.type", "rocksdb") == (
        "the option 'state.backend.type' has no effect: state is kept in Spark's state store"
    )
    assert config.set("taskmanager.numberOfTaskSlots", "4") == (
        "the option 'taskmanager.numberOfTaskSlots' has no effect: there is no Flink cluster"
    )
    assert config.set("spark.sql.shuffle.partitions", "7") is None
    assert config.to_dict() == {
        "spark.sql.shuffle.partitions": "7",
        "state.backend.type": "rocksdb",
        "taskmanager.numberOfTaskSlots": "4",
    }
    honoured = [k for k in OPTIONS if k.startswith(tuple(NO_EFFECT_PREFIXES)) and OPTIONS[k].only_default is None]
    assert "taskmanager.memory.managed.size" in honoured
    for key in honoured:  # others that begin alike change nothing; these do
        assert config.set(key, default_text(OPTIONS[key]) or "1") is None


SET_IN_SCRIPTS = """
    execution.checkpointing.timeout=10min execution.checkpointing.min-pause=30s state.checkpoints.num-retained=5
    execution.checkpointing.max-concurrent-checkpoints=1 execution.checkpointing.num-retained=5
    execution.checkpointing.externalized-checkpoint-retention=RETAIN_ON_CANCELLATION
    execution.checkpointing.tolerable-failed-checkpoints=3 execution.checkpointing.unaligned.enabled=true
    execution.checkpointing.unaligned=true state.checkpoint-storage=filesystem state.backend.local-recovery=true
    state.backend.rocksdb.compression.type=LZ4 pipeline.operator-chaining=true pipeline.operator-chaining.enabled=false
    pipeline.object-reuse=true pipeline.auto-watermark-interval=200ms pipeline.jars=a.jar execution.type=streaming
    table.planner=blink execution.savepoint.ignore-unclaimed-state=true python.executable=python3 python.files=a.py
    akka.ask.timeout=120s pekko.ask.timeout=1min web.timeout=120000 yarn.application.queue=root
    kubernetes.cluster-id=c containerized.taskmanager.env.X=1 fs.s3a.access.key=k execution.buffer-timeout=0
    execution.shutdown-on-application-finish=false state.backend.latency-track.keyed-state-enabled=true
    table.exec.async-lookup.timeout=3min table.exec.spill-compression.block-size=64kb metrics.latency.interval=1000
    table.exec.resource.default-parallelism=4 table.optimizer.join-reorder-enabled=true table.planner=old
    table.optimizer.delta-join.strategy=NONE table.optimizer.reuse-sink-enabled=false
    table.optimizer.source.predicate-pushdown-enabled=true execution.checkpointing.mode=AT_LEAST_ONCE
    execution.checkpointing.prefer-checkpoint-for-recovery=true execution.state-recovery.claim-mode=CLAIM
    pipeline.time-characteristic=EventTime pipeline.registered-kryo-types=a.B sql-gateway.endpoint.rest.port=8083
    table.exec.hive.infer-source-parallelism=false table.exec.iceberg.use-flip27-source=true
    table.exec.shuffle-mode=pipelined table.dynamic-table-options.enabled=false
"""


@pytest.mark.parametrize("pair", SET_IN_SCRIPTS.split())
def test_options_of_flink_that_scripts_set_are_taken_with_one_note(pair: str) -> None:
    key, _, text = pair.partition("=")
    config = Configuration()
    note = config.set(key, text)
    assert note is not None and note.startswith(f"the option '{key}' has no effect: ")
    assert config.get(key) == text
    config.reset(key)
    assert config.to_dict() == {}


def test_the_default_of_an_option_without_effect_needs_no_note() -> None:
    for row in OPTIONS.values():
        text = default_text(row)
        if row.no_effect and text is not None:
            assert Configuration().set(row.key, text) is None


def test_no_option_has_a_meaning_and_none() -> None:
    assert not set(NO_EFFECT) & {*OPTIONS, *DEPRECATED}
    assert all(why and not why.endswith(".") for why in NO_EFFECT.values())


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("execution.checkpointing.tolerable-failed-checkpoint", "execution.checkpointing.tolerable-failed-checkpoints"),
        ("pipeline.object-reus", "pipeline.object-reuse"),
        ("restart-strategy.fixed-delay.atempts", "restart-strategy.fixed-delay.attempts"),
        ("table.exec.async-lookup.timeouts", "table.exec.async-lookup.timeout"),
        ("state.backend.forst.cache.dri", "state.backend.forst.cache.dir"),
        ("table.exec.state.ttll", "table.exec.state.ttl"),
    ],
)
def test_a_misspelled_option_of_flink_is_refused_with_the_nearest_name(key: str, meant: str) -> None:
    said = fails(lambda: Configuration().set(key, "1"))
    assert said.startswith("[OPT001]")
    assert f"'{meant}'" in said


def test_reset() -> None:
    config = Configuration({"pipeline.name": "x", "spark.a": "b"})
    config.reset("pipeline.name")
    assert config.to_dict() == {"spark.a": "b"}
    config.reset()
    assert config.to_dict() == {}
    assert fails(lambda: config.reset("pipeline.nam")).startswith("[OPT001]")
    assert fails(lambda: config.get("pipeline.nam")).startswith("[OPT001]")


def test_time_zones() -> None:
    config = Configuration()
    for zone in ("default", "UTC", "Europe/Berlin", "GMT-08:00", "GMT+1"):
        config.set("table.local-time-zone", zone)
    assert "table.local-time-zone" in config
    assert list(config) == ["table.local-time-zone"]


def test_a_refused_option_changes_nothing() -> None:
    config = Configuration()
    for key, text in (("nope", "1"), ("parallelism.default", "x"), ("execution.runtime-mode", "AUTOMATIC")):
        fails(lambda key=key, text=text: config.set(key, text))
    assert config.to_dict() == {}


def test_older_keys_set_the_option_of_today() -> None:
    config = Configuration()
    old, new = "state.checkpoints.dir", "execution.checkpointing.dir"
    assert config.set(old, "/a") == f"'{old}' is an older key of '{new}', which is set"
    assert config.to_dict() == {new: "/a"} and config.get(old) == "/a" and old in config
    assert config.set("state.backend.fs.checkpointdir", "/b") is not None
    assert config.get(new) == "/b"
    config.reset(old)  # no longer what is set
    assert config.get(new) == "/b"
    config.reset("state.backend.fs.checkpointdir")
    assert new not in config


def test_an_older_key_does_not_hide_the_option_itself() -> None:
    old, new = "table.exec.async-scalar.buffer-capacity", "table.exec.async-scalar.max-concurrent-operations"
    for options in ({old: "5", new: "7"}, {new: "7", old: "5"}):
        assert Configuration(options).value(new) == 7
    config = Configuration({new: "7"})
    assert config.set(old, "5") == f"the option '{old}' has no effect: '{new}' is set"
    with config.overlaid({old: "6"}):
        assert config.value(new) == 7
    config.reset(new)
    config.set(old, "5")
    with config.overlaid({new: "8"}):
        assert config.value(new) == 8
    assert config.value(new) == 5
    config.reset(old)
    assert not config.to_dict()


@pytest.mark.parametrize(("old", "new"), list(DEPRECATED.items()))
def test_older_keys_are_checked_as_the_option_is(old: str, new: str) -> None:
    assert new in OPTIONS and old not in OPTIONS
    refused = {"execution.state-recovery.claim-mode": "MINE", "execution.checkpointing.incremental": "maybe"}
    if new in refused:
        assert fails(lambda: Configuration().set(old, refused[new])) == fails(
            lambda: Configuration().set(new, refused[new])
        )


def test_every_option_is_read() -> None:
    """By its key, or by the end of it where a family is read by its prefix."""
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    others = "".join(path.read_text(encoding="utf-8") for path in files if path.name != "settings.py")
    unread = []
    for key, row in OPTIONS.items():
        parts = key.split(".")
        ends = [".".join(parts[i:]) for i in range(1, len(parts))]
        is_read = source.count(f'"{key}"') > 1 or any(re.search(rf'["}}.]{re.escape(end)}"', others) for end in ends)
        if not is_read and row.no_effect is None and row.only_default is None:
            unread.append(key)
    assert not unread, f"no code reads these options: {unread}"
