"""Frozen dataclasses with cached properties."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


class FrozenDataclass:
    """Base of frozen dataclasses that compute things once, on first use, and do not pickle them."""

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: vars(self)[f.name] for f in fields(self)}  # type: ignore[arg-type] # a subclass is one
