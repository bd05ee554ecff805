"""The job with which a gateway keeps Spark ready."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.gateway.service.warm_spark import WarmSpark


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_it_leaves_the_options_of_jobs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint directory of the gateway is for its jobs: the first one would find the plan of another one there."""
    monkeypatch.setattr(WarmSpark, "_keep", lambda self: None)
    options = {"execution.checkpointing.dir": str(tmp_path / "checkpoint"), "parallelism.default": "2"}
    assert WarmSpark(options)._warm_up()
    assert not list(tmp_path.iterdir())
