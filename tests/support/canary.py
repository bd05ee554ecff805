"""A module that tells when somebody imports it."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

import pytest


class Canary:
    """A module on Python's path that leaves a file behind when it is imported, in whatever process.

    Attributes:
        name: of the module; it has the functions ``f`` (scalar) and ``agg`` (an aggregate).
        ran: the file.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.name = f"canary_{uuid.uuid4().hex}"
        self.ran = folder / f"{self.name}.ran"
        (folder / f"{self.name}.py").write_text(
            f"open({str(self.ran)!r}, 'w').close()\n"
            "from stateplan.planner.catalog.udf import AggregateFunction, udaf, udf\n"
            "f = udf(lambda value: value, ['BIGINT'], 'BIGINT')\n"
            "class Bird: pass\n"
        )
        patch.syspath_prepend(str(folder))

    @property
    def sang(self) -> bool:
        """Whether it was imported."""
        return self.ran.exists() or self.name in sys.modules
