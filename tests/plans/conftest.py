"""Plans that Flink 2.3 compiled, with what its EXPLAIN says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

CASES = Path(__file__).parent.parent / "golden"
