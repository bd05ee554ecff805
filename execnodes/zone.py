"""The session's time zone (``table.local-time-zone``)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path


def local_time_zone(session: Mapping[str, str]) -> str:
    """The zone's id; ``default`` is the machine's zone, as Java finds it: ``TZ``, then ``/etc/localtime``, else UTC."""
    zone = session.get("table.local-time-zone", "default")
    return _machine_zone() if zone == "default" else zone


def _machine_zone() -> str:
    return os.environ.get("TZ", "").lstrip(":") or _installed_zone()


@cache
def _installed_zone() -> str:
    """The zone of ``/etc/localtime`` when it was asked for first: Java, too, reads it once."""
    target = os.path.realpath("/etc/localtime")
    _, found, name = target.partition("/zoneinfo/")
    return name if found and Path(target).exists() and name not in ("Etc/UTC", "UCT", "Etc/UCT") else "UTC"
