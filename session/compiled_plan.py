"""Compiled plans in a session, the names of plans, and statement sets: look at them, write them, run them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from stateplan.common.errors import SqlError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import amount
from stateplan.session.results import TableResult
from stateplan.session.script import Insert, Inserts, read_statement
from stateplan.session.session import Session
from stateplan.session.table import Table

if TYPE_CHECKING:
    from stateplan.evolution.evolve import Evolved
    from stateplan.plans.document import PlanDocument, TtlGiven
    from stateplan.session.evolution_preview import EvolutionPreview


class CompiledPlan:
    """A plan, under PyFlink's names. Made by ``TableEnvironment.compile_plan_sql`` and ``load_plan``.

    Attributes:
        document: the plan as a document, with its text and its graph.
    """

    def __init__(self, session: Session, document: PlanDocument) -> None:
        self._session = session
        self.document = document

    def __repr__(self) -> str:
        graph = self.document.graph
        states = amount(sum(len(node.states) for node in graph.nodes), "state")
        return f"CompiledPlan(Flink {graph.flink_version}, {amount(len(graph.nodes), 'operator')}, {states})"

    def __str__(self) -> str:
        """See :meth:`explain`."""
        return self.explain()

    def _repr_html_(self) -> str:
        """The drawing of the plan, for a notebook."""
        return f'<div style="overflow: auto">{self.explain(format="svg")}</div>'

    def get_flink_version(self) -> str:
        """The version of Flink whose format the plan has, such as ``2.3``."""
        return self.document.graph.flink_version

    def as_json_string(self) -> str:
        """The plan's text, byte for byte as it was read."""
        return self.document.text

    def print_json_string(self) -> None:
        """Writes the plan's text to standard output."""
        sys.stdout.write(self.document.text + "\n")

    def write_to_file(self, path: str | os.PathLike[str], ignore_if_exists: bool = False) -> bool:
        """Writes the plan to a path or URL, whole or not at all; returns whether it was written.

        An existing file is replaced only with ``table.plan.force-recompile``.

        Raises:
            PlanError: PLAN002, the file exists; others when it cannot be written.
        """
        overwrite = bool(self._session.config.value("table.plan.force-recompile"))
        return self.document.write(os.fspath(path), overwrite=overwrite, if_not_exists=ignore_if_exists)

    def set_ttl(self, selector: str, ttl: TtlGiven) -> CompiledPlan:
        """Sets how long a state lives, in this plan and not in a file; see docs/sql/selectors.md for what points at it.

            >>> plan.set_ttl("deduplicate", "1 h").set_ttl("join.right", "7 d").write_to_file("plan.json")

        Args:
            selector: a selector of one state, or of several with ``*``.
            ttl: text such as ``"1 h"`` or ``"never"``, or a ``datetime.timedelta``.

        Returns:
            This plan.

        Raises:
            PlanError: PLAN100 to PLAN104, for what is not a selector or does not point at one state; PLAN05x and
                PLAN072, for what is not a TTL, such as a number without a unit.
        """
        return self.set_ttls({selector: ttl})

    def set_ttls(self, ttls: Mapping[str, TtlGiven]) -> CompiledPlan:
        """Sets several TTLs by selector, all of them or none. Raises the same errors as :meth:`set_ttl`, and PLAN106
        when two of them are for one state."""
        from stateplan.plans.edit import set_ttls

        set_ttls(self.document, ttls, self._session.config.to_dict())
        return self

    def explain(self, *details: str, format: str = "text") -> str:  # noqa: A002 - as Flink names it
        """The operators as a tree, and the state each of them keeps, with its TTL; or a drawing of them.

        Args:
            details: :class:`plans.advice.ExplainDetail`, or their names; for text and JSON.
            format: ``text``, ``json``, ``mermaid``, ``svg`` or ``html``.

        Raises:
            PlanError: PLAN180, PLAN181 for a detail that there is not; PLAN182 for one with a drawing; PLAN184 for
                another format.
        """
        from stateplan.plans.render import render_explanation

        return render_explanation(self.document, self._session.config.to_dict(), format, details)

    def print_explain(self, *details: str) -> None:
        """Writes :meth:`explain` to standard output."""
        sys.stdout.write(self.explain(*details) + "\n")

    def execute(self) -> TableResult:
        """Runs the plan; returns once the job has started.

        Raises:
            StateplanError: when the plan does not fit the session's tables, or the job cannot be started.
        """
        return self._session.starter.document(self.document)

    def evolve(self, checkpoint: str | os.PathLike[str]) -> tuple[Evolved, Sequence[str]]:
        """Fills the empty directory ``execution.checkpointing.dir`` with the state that this plan can use of the
        checkpoint of another plan. The plan then starts from there, and its sources continue where those of the other
        plan stand. The other checkpoint stays as it is.

        Args:
            checkpoint: a savepoint, or the checkpoint directory of a job that has ended.

        Returns:
            The new checkpoint, and what became of the state, a line each.

        Raises:
            CheckpointError: CKPT003, state would be lost, and ``execution.state-recovery.accept`` does not allow that.
            StateplanError: whatever else keeps the checkpoint from being made.
        """
        return self._session.starter.evolve(self.document, os.fspath(checkpoint))

    def preview_evolution(self, checkpoint: str | os.PathLike[str]) -> tuple[EvolutionPreview, Sequence[str]]:
        """What :meth:`evolve` would do with the state of each operator, why, and what it would read. Nothing is
        written, and the job of the other plan may run.

        Args:
            checkpoint: a savepoint, or the checkpoint directory of a job.

        Returns:
            The preview, and notes on the plan.

        Raises:
            StateplanError: what keeps the checkpoint from being made. That state would be lost is in the preview.
        """
        return self._session.starter.preview(self.document, os.fspath(checkpoint))


def compile_plan(session: Session, statement: str) -> CompiledPlan:
    """The plan of an INSERT or a statement set. Raises the same errors as :meth:`TableEnvironment.compile_plan_sql`."""
    read = read_statement(statement)
    return CompiledPlan(session, session.compiler.document(Inserts.of(read.node, read.source)))


@dataclass(frozen=True)
class PlanReference:
    """Names a plan for :meth:`~session.environment.TableEnvironment.load_plan`, as PyFlink's class does."""

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


class StatementSet:
    """A statement set, under PyFlink's names. Made by ``TableEnvironment.create_statement_set``."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._inserts: list[Insert] = []

    def add_insert_sql(self, statement: str) -> StatementSet:
        """Adds an INSERT; returns this set.

        Raises:
            SqlError: SQL001 to SQL010; SQL012 when it is not an INSERT.
        """
        read = read_statement(statement)
        if not isinstance(read.node, exp.Insert):
            raise SqlError("SQL012", place=read.place, expected="INSERT INTO ...")
        self._inserts.append(Insert(read.node, read.source, read.text))
        return self

    def add_insert(self, target_path: str, table: Table, overwrite: bool = False) -> StatementSet:
        """Adds an INSERT of a table's rows; returns this set.

        Raises:
            SqlError: SQL001 to SQL009, for what is not a name of a table.
        """
        self._inserts.append(table.insert_by_name(target_path, overwrite))
        return self

    def __repr__(self) -> str:
        return f"StatementSet({amount(len(self._inserts), 'INSERT')})"

    def _all(self) -> Inserts:
        if not self._inserts:
            raise SqlError("SQL012.empty_set")
        return Inserts.of_all(self._inserts)

    def compile_plan(self) -> CompiledPlan:
        """The plan of all INSERTs together. Raises StateplanError."""
        return CompiledPlan(self._session, self._session.compiler.document(self._all()))

    def explain(self, *details: str) -> str:
        """The plan of all INSERTs together, for people. Raises the same errors as
        :meth:`TableEnvironment.explain_sql`."""
        return self._session.compiler.explain(self._all(), details)

    def execute(self) -> TableResult:
        """Runs all INSERTs as one job, and empties the set. Raises StateplanError."""
        self._session.check_no_open_set()
        result = self._session.starter.inserts(self._all(), "STATEMENT SET")
        self._inserts.clear()
        return result
