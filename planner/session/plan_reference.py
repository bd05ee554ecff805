"""Where a plan is: a file or a text."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stateplan.plans.document import PlanDocument


@dataclass(frozen=True)
class PlanReference:
    """Names a plan for :meth:`~planner.session.environment.TableEnvironment.load_plan`, as PyFlink's class does."""

    file: str | None = None
    text: str | None = None

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> PlanReference:
        """The plan in a file: a path or a URL."""
        return PlanReference(file=os.fspath(path))

    @staticmethod
    def from_json_string(text: str) -> PlanReference:
        """The plan that this text is."""
        return PlanReference(text=text)

    def load(self) -> PlanDocument:
        """The plan. Raises PlanError when it cannot be read or is not a valid plan."""
        from stateplan.plans.document import PlanDocument

        return PlanDocument.load(self.file) if self.file is not None else PlanDocument.parse(self.text or "")
