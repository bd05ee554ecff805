"""What surrounds a session: the shell, a script, or a gateway with rules of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stateplan.common.errors import Place, PlanError

if TYPE_CHECKING:
    from stateplan.execnodes.graph import ExecGraph
    from stateplan.planner.catalog.functions import CatalogFunction
    from stateplan.runtime.job import Job


class Host:
    """What a session asks before it does something that is not its own business alone. This one lets everything
    through, as is right for a user's own process.

    Attributes:
        keep_unknown: see :class:`common.settings.Configuration`.
    """

    keep_unknown = False

    @property
    def lists_queries(self) -> bool:
        """Whether SHOW JOBS lists queries that have ended, as Flink's gateway does."""
        return self.keep_unknown

    @property
    def runs_functions(self) -> bool:
        """Whether functions of the user may run in this process. Those of the users of a gateway must not."""
        return not self.keep_unknown

    @property
    def shows_in_sets(self) -> bool:
        """Whether SHOW is allowed while a statement set is open. Flink's gateway refuses it, so ours does."""
        return True

    def plan_file(self, name: str, place: Place | None = None) -> str:
        """The path or URL of the plan that a statement calls ``name``: what is to be opened.

        Raises:
            PlanError: PLAN006, for ``plan:`` and a name where there are no plans by name.
            StateplanError: the file must not be used.
        """
        if name.startswith(PLAN_SCHEME):
            raise PlanError("PLAN006.by_name", place=place)
        return name

    def plan_names(self) -> list[str]:
        """The plans that can be called by name."""
        return []

    def check_option(self, key: str, text: str, place: Place | None = None) -> str:
        """The value of an option as a session has it. Raises StateplanError when it must not set it."""
        return text

    def check_paths(self, options: Mapping[str, str], keys: Sequence[str]) -> None:
        """Raises StateplanError when a session must not use a path that these options name: since it was set, a folder
        may have become a link."""

    def check_table(self, options: Mapping[str, str], place: Place | None = None) -> None:
        """Raises StateplanError when a session must not read or write a table with these options."""

    def check_function(self, function: CatalogFunction, place: Place | None = None) -> None:
        """Raises StateplanError when a session must not declare or import a function of Python."""

    def check_graph(self, graph: ExecGraph) -> None:
        """Raises StateplanError when a session must not run this: the tables of a plan need not be declared in it."""

    def wait(self, job: Job) -> None:
        """Waits for the job of a statement that is to end with it (``table.dml-sync``).

        Raises:
            StateplanError: what made it fail.
        """
        job.wait()

    def check_start(self) -> None:
        """Called right before a job begins. Raises StateplanError when nobody wants it any more."""


PLAN_SCHEME = "plan://"
"""Begins the name of a plan that a gateway keeps."""
