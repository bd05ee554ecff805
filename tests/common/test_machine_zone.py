"""The zone of the machine, as Java finds it: the variable ``TZ``, then ``/etc/localtime``."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from stateplan.common.zone import _installed_zone, local_time_zone, tz_of


@pytest.fixture
def system_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Lets a test set ``TZ``, for the C library, too."""
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":Europe/Berlin", "Europe/Berlin"),
        ("posix/Europe/Berlin", "Europe/Berlin"),
        ("UTC", "UTC"),
        ("GMT", "GMT"),
        ("PST", "America/Los_Angeles"),
        # no zones of Java: the offset that the system has now
        ("<+05>-5:30", "GMT+05:30"),
        ("XYZ7", "GMT-07:00"),
        ("Nope/Zone", "GMT"),
        (":/etc/passwd", "GMT"),
        ("\u00e9", "GMT"),
    ],
)
def test_a_zone_of_the_environment(text: str, zone: str, system_zone: pytest.MonkeyPatch) -> None:
    system_zone.setenv("TZ", text)
    time.tzset()
    assert local_time_zone({}) == zone
    tz_of(zone)


@pytest.mark.parametrize("text", ["", ":"])
def test_without_a_zone_in_the_environment(text: str, system_zone: pytest.MonkeyPatch) -> None:
    system_zone.setenv("TZ", text)
    assert local_time_zone({}) == _installed_zone()
