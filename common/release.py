"""Which stateplan this is."""

from __future__ import annotations


def installed_version() -> str:
    """The version of stateplan; ``not installed`` where it runs from its sources."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("stateplan")
    except PackageNotFoundError:
        return "not installed"
