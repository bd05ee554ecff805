"""How many examples hypothesis tries."""

from __future__ import annotations

from hypothesis import settings


def fewer(share: float) -> settings:
    """Settings of a test whose examples are long, or that is one of many alike: this share of the examples that the
    profile asks for."""
    default = settings.default
    assert default is not None
    return settings(max_examples=max(1, int(share * default.max_examples)))
