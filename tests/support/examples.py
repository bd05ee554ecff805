"""How many examples hypothesis tries."""

from __future__ import annotations

from hypothesis import settings

_USUAL = 60
"""Of the profile of CI."""


def examples(count: int) -> settings:
    """Settings of a test that does not try the usual number of examples: ``count`` in CI, and as many times more or
    fewer as the profile says elsewhere (``HYPOTHESIS_PROFILE=thorough`` tries 33 times as many)."""
    default = settings.default
    assert default is not None
    return settings(max_examples=max(1, count * default.max_examples // _USUAL))
