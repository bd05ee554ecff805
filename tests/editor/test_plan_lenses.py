"""What a plan file shows of the checkpoint of its job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stateplan.plans.document import PlanDocument
from stateplan.runtime.metrics.ages import Histogram, bounds
from stateplan.runtime.metrics.log import FOLDER, MetricsLog
from stateplan.runtime.metrics.records import StateSize
from tests.editor.reading import insight
from tests.support.job_records import PLAN, info, record

HOUR = 3_600_000


def bucket_of(age: int) -> int:
    """The bucket of an age in ms."""
    return next(bucket for bucket in range(100_000) if bounds(bucket)[1] >= age)


def checkpoint(folder: Path) -> None:
    """A checkpoint of the plan whose left state was used after half an hour and after two hours."""
    folder.mkdir()
    (folder / "stateplan.json").write_text("{}")
    (folder / "plan.json").write_bytes(PLAN.read_bytes())
    document = PlanDocument.load(str(PLAN))
    (uid,) = {document.uids[node.id] for node in document.graph.nodes if node.state_names}
    ages = {uid: {"0.joined": Histogram({bucket_of(HOUR // 2): 90, bucket_of(2 * HOUR): 10})}}
    log = MetricsLog(folder / FOLDER)
    log.begin(info())
    log.append(replace(record(3), state={uid: StateSize([1003, 20], [310_000, 700], [12, 1])}, ages=ages))


def titles(text: str, folder: Path) -> list[str]:
    """The lenses of a plan."""
    return [lens.title for lens in insight(text, folder, "plan.json").lenses]


def test_a_lens_says_what_its_ttl_costs(tmp_path: Path) -> None:
    checkpoint(tmp_path / "orders-checkpoint")
    left, right = titles(PLAN.read_text("utf-8").replace('"1 s"', '"1 h"'), tmp_path)
    assert [left, right] == [
        "join.left: TTL 1 h; 1,003 rows, 303 KiB; misses 10 of 100 uses (oldest 2 h); "
        "micro-batch 3 of orders-checkpoint",
        "join.right: TTL 1 h; 20 rows, 700 B; micro-batch 3 of orders-checkpoint",
    ]


def test_a_longer_ttl_misses_fewer_uses(tmp_path: Path) -> None:
    checkpoint(tmp_path / "c")
    text = PLAN.read_text("utf-8").replace('"1 s"', '"3 h"', 1)
    assert "misses 0 of 100 uses" in titles(text, tmp_path)[0]


def test_without_a_checkpoint_the_size_is_unknown(tmp_path: Path) -> None:
    assert titles(PLAN.read_text("utf-8"), tmp_path) == [
        "join.left: TTL 1 s; size unknown: no checkpoint",
        "join.right: TTL 1 h; size unknown: no checkpoint",
    ]


def test_a_damaged_checkpoint_is_none(tmp_path: Path) -> None:
    checkpoint(tmp_path / "c")
    (tmp_path / "c" / "plan.json").write_text("{")
    assert "size unknown" in titles(PLAN.read_text("utf-8"), tmp_path)[0]
