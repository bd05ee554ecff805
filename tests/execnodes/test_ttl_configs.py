"""How states age, from the plan's state entries to the operators of the job."""

from __future__ import annotations

import pytest

from stateplan.common.ttl import StateVisibility, TtlConfig, TtlTimeCharacteristic, UpdateType
from stateplan.execnodes.specs import StateMetadata


def test_words_of_the_plan() -> None:
    assert [*UpdateType] == ["OnCreateAndWrite", "OnReadAndWrite"]
    assert [*StateVisibility] == ["NeverReturnExpired", "ReturnExpiredIfNotCleanedUp"]
    assert [*TtlTimeCharacteristic] == ["ProcessingTime", "EventTime"]


@pytest.mark.parametrize("update", [None, *UpdateType])
@pytest.mark.parametrize("visibility", [None, *StateVisibility])
@pytest.mark.parametrize("time", [None, *TtlTimeCharacteristic])
def test_entries_say_how_state_ages(update: str | None, visibility: str | None, time: str | None) -> None:
    said = {"updateType": update, "visibility": visibility, "timeCharacteristic": time}
    entry = StateMetadata.model_validate(
        {"index": 0, "ttl": "1 h", "name": "s", **{k: str(v) for k, v in said.items() if v}}
    )
    config = entry.ttl_config(entry.ttl)
    assert (config.ttl, config.update_type) == (3_600_000, update or "OnCreateAndWrite")
    assert config.visibility == (visibility or "NeverReturnExpired")
    assert config.time_characteristic == (time or "ProcessingTime")
    assert (config == TtlConfig(3_600_000)) == (
        update != "OnReadAndWrite" and visibility != "ReturnExpiredIfNotCleanedUp" and time != "EventTime"
    )


def test_state_that_never_expires_notes_event_times_only() -> None:
    config = TtlConfig(
        0,
        UpdateType.ON_READ_AND_WRITE,
        StateVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP,
        TtlTimeCharacteristic.EVENT_TIME,
    )
    assert not (config.reads_refresh or config.finds_expired or config.is_plain) and config.by_event_time
