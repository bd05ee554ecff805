"""dbt, which `make dbt` installs beside the environment, with links to the adapter."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DBT = ROOT / "build" / "dbt"


@pytest.fixture(scope="session")
def dbt_packages() -> Path:
    """The folder of dbt, from which this process imports. Without it, tests are skipped, and fail where ``CI=true``."""
    if not (DBT / ".installed").exists():
        if os.environ.get("CI") == "true":
            pytest.fail("no dbt: make dbt")
        pytest.skip("no dbt: make dbt")
    if str(DBT) not in sys.path:
        sys.path.append(str(DBT))
    os.environ["DO_NOT_TRACK"] = "1"
    os.environ["DBT_SEND_ANONYMOUS_USAGE_STATS"] = "false"
    return DBT
