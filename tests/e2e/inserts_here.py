"""Jobs whose results Spark's are compared with: they run in the process of a test that is marked with ``spark``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stateplan.session.starter import JobStarter

_start_here = JobStarter._start_here  # before tests/conftest.py changes it for tests of Spark


@contextmanager
def inserts_here() -> Iterator[None]:
    """Jobs with little input that ends, and without a checkpoint, start in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobStarter, "_start_here", _start_here)
        yield
