"""TTLs that are set while a job runs: rows are judged by them from a known micro-batch on, and after a restart too."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.plans.live import set_live_ttls
from stateplan.runtime.checkpoint.live_ttl import LiveTtls, read_ttls
from stateplan.runtime.checkpoint.locks import running_writer, writer_lock
from tests.e2e.deduplicate_job import HOUR, Job


@pytest.mark.spark
def test_rows_are_judged_by_what_was_set_live(
    spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tmp_path / "checkpoint"
    asked = {1: "3 h", 2: "30 min"}
    take_in = LiveTtls.take_in

    def asked_before(live: LiveTtls, batch: int) -> str | None:
        assert running_writer(checkpoint) is not None
        if batch in asked:
            set_live_ttls(checkpoint, {"deduplicate": asked[batch]})
        return take_in(live, batch)

    monkeypatch.setattr(LiveTtls, "take_in", asked_before)
    job = Job(tmp_path, capsys)
    job.compile("1 h")
    job.arrive(0, (1, 10), (2, 20))
    job.arrive(2 * HOUR, (1, 11))  # known under 3 h
    job.arrive(2 * HOUR + HOUR // 2, (2, 21), (3, 30))  # expired under 30 min
    assert sorted(job.run()) == ["+I[1, 10]", "+I[2, 20]", "+I[2, 21]", "+I[3, 30]"]
    (state,) = read_ttls(checkpoint).values()
    assert [(s.ttl, s.since, s.by) for s in state.settings] == [
        (HOUR, 0, "plan"),
        (3 * HOUR, 1, "live"),
        (HOUR // 2, 2, "live"),
    ]
    assert running_writer(checkpoint) is None
    job.arrive(3 * HOUR + HOUR // 4, (3, 31))  # 45 min old: expired under 30 min, known under the 1 h of the plan
    assert job.run() == ["+I[3, 31]"], "the same plan keeps what was set live"
    job.edit("2 h")
    job.arrive(5 * HOUR, (3, 32))
    writer = writer_lock(checkpoint)
    with pytest.raises(CheckpointError) as error:
        job.run()
    assert error.value.code == "CKPT030"
    writer.release()
    assert job.run() == [], "a plan that was edited later wins"
