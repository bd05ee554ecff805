"""What a statement compiles to, tied to where its clauses are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from sqlglot import exp

from stateplan.common.errors import Place, StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.settings import is_batch, of_mode
from stateplan.editor.diagnosis import Diagnosis, first_line, of_lint
from stateplan.editor.findings import Edit, Fix
from stateplan.editor.positions import LineMap, Span
from stateplan.planner.dialect import nodes
from stateplan.planner.dialect.errors import place_at
from stateplan.planner.lowering import lower_traced
from stateplan.planner.physical import Physical
from stateplan.planner.positions import span_of
from stateplan.plans.document import PlanDocument
from stateplan.plans.lint import lint
from stateplan.plans.selectors import Selectors
from stateplan.plans.show import PlanView, show, to_text
from stateplan.plans.states import StateView
from stateplan.runtime.failures import coded_error
from stateplan.session.compiler import Plan, QueryPlan
from stateplan.session.script import Inserts, ScriptStatement, is_query
from stateplan.session.session import Session

_MOST_STATES = 4
_TTL_KEY = "table.exec.state.ttl"
_ENDLESS = "TTL011"
"""The rule about state that never expires."""


@dataclass(frozen=True)
class Clause:
    """A part of a statement that became an operator.

    Attributes:
        source: the text of the statement that it is in: that of a view may be another than the one that is compiled.
        span: its characters there.
        node_id: the operator.
    """

    source: str
    span: Span
    node_id: int


@dataclass(frozen=True)
class Compiled:
    """A statement with its plan.

    Attributes:
        text: its text.
        plan: what was compiled.
        document: the plan as a document.
        options: the options of the session.
        clauses: where its operators are written.
    """

    text: str
    plan: Plan
    document: PlanDocument
    options: Mapping[str, str]
    clauses: tuple[Clause, ...]

    @cached_property
    def view(self) -> PlanView:
        """What there is to see of the plan."""
        return show(self.document, self.options)

    @cached_property
    def states(self) -> tuple[tuple[str, StateView], ...]:
        """The states, each with the selector that names it."""
        selectors = Selectors(self.document, self.options)
        return tuple((selectors.name_alone(view), view) for view in selectors.views)

    @cached_property
    def summary(self) -> str:
        """The states and their TTLs in a line."""
        if is_batch(self.options):
            return "batch: no state is kept"
        if not self.states:
            return "no state"
        count = f"{len(self.states)} state{'s' * (len(self.states) > 1)}"
        names = [f"{name} {ttl_words(view)}" for name, view in self.states[:_MOST_STATES]]
        return f"{count}: {', '.join(names)}{', ...' * (len(self.states) > _MOST_STATES)}"

    def operator_text(self, node_id: int) -> str:
        """The operator as ``plan show`` prints it."""
        operators = tuple(o for o in self.view.operators if o.id == node_id)
        return "\n".join(to_text(replace(self.view, operators=operators, warnings=())).splitlines()[2:])

    @cached_property
    def changes(self) -> Mapping[int, str]:
        """The changes that operators emit, by their ids."""
        return {o.id: o.changes_text for o in self.view.operators if o.changes_text}

    def explain(self) -> str:
        """What EXPLAIN prints, with changelog modes. Raises StateplanError."""
        from stateplan.plans.advice import ExplainDetail
        from stateplan.session.explain import explain_text

        details = frozenset((ExplainDetail.CHANGELOG_MODE,))
        plan = self.plan
        return explain_text(plan.compilation, plan.graph, self.options, details, isinstance(plan, QueryPlan))

    def findings(self) -> Iterator[Diagnosis]:
        """The findings of lint, each where its operator is written."""
        if is_batch(self.options):
            return
        places = {clause.node_id: clause for clause in self.clauses}
        for finding in lint(self.document, self.options).findings:
            clause = places.get(finding.node_id)
            source, span = (self.text, first_line(self.text)) if clause is None else (clause.source, clause.span)
            fixes: tuple[Fix, ...] = ()
            if finding.code == _ENDLESS and source == self.text:
                line = f"SET '{_TTL_KEY}' = '1 d';\n"
                fixes = (Fix(f"Set '{_TTL_KEY}' to 1 d above this statement", (Edit(Span(0, 0), line),)),)
            yield of_lint(finding, source, span, fixes)


def ttl_words(view: StateView) -> str:
    """``7 d``, ``never``, or ``until time drops it``."""
    if view.source == "time":
        return "until time drops it"
    return "never expires" if view.ttl == 0 else view.ttl_text.removeprefix("ttl ")


def compile_statement(session: Session, statement: ScriptStatement) -> Compiled | None:
    """The plan of a query, an INSERT or a statement that has one in it; None for any other statement.

    Raises:
        StateplanError: whatever is wrong with it.
    """
    node = _inner(statement.node)
    if node is None:
        return None
    source = statement.source
    with coded_error():
        if is_query(node):
            plan: Plan = session.compiler.query(node, source)
        else:
            plan = session.compiler.inserts(Inserts.of(node, source))
        return of_plan(session, statement.node, source, plan)


def of_plan(session: Session, node: exp.Expr, source: str, plan: Plan) -> Compiled:
    """A plan of a statement. Raises StateplanError."""
    options = session.config.to_dict()
    document = PlanDocument.from_graph(plan.graph)
    return Compiled(source, plan, document, options, tuple(_clauses(plan, options, node, source)))


def _inner(node: exp.Expr) -> exp.Expr | None:
    """The query, INSERT or statement set of a statement."""
    if isinstance(node, (nodes.ExecuteStatement, nodes.CompilePlan, nodes.Explain)):
        inner = node.this
        return _inner(inner) if isinstance(inner, exp.Expr) and not isinstance(inner, nodes.CreateTableAs) else None
    return node if isinstance(node, (exp.Insert, nodes.StatementSet)) or is_query(node) else None


def _clauses(plan: Plan, options: Mapping[str, str], node: exp.Expr, source: str) -> Iterator[Clause]:
    """Where the operators of a plan are written, as far as they are written somewhere."""
    planned_options = of_mode({**options, "table.plan.compile.catalog-objects": "ALL"})
    try:
        _, origins = lower_traced(plan.compilation.physical, planned_options)
    except StateplanError:
        return
    ids = {node.id for node in plan.graph.nodes}
    stateful = {node.id for node in plan.graph.nodes if node.state_names}
    for node_id, physical in origins.items():
        place = physical.rel.written_at
        if place is None and node_id in stateful:
            place = next(_places_below(physical), None)
        if node_id in ids and place is not None and place.line is not None and place.source is not None:
            yield Clause(place.source, _full_span(place, node if place.source == source else None), node_id)


def _places_below(physical: Physical) -> Iterator[Place]:
    """The places of the operators below one, the nearest first."""
    queue = list(physical.inputs)
    while queue:
        below = queue.pop(0)
        if below.rel.written_at is not None:
            yield below.rel.written_at
        queue += below.inputs


def _full_span(place: Place, node: exp.Expr | None) -> Span:
    """The span of a place, all of its lines where the syntax tree has them."""
    assert place.source is not None and place.line is not None
    span = LineMap(place.source).place(place.line, place.column or 1, place.length)
    if node is None:
        return span
    longest = span.end
    for child in node.walk():
        own = span_of(child)
        if own is not None and own[0] == span.start and own[1] > longest and place_at(place.source, *own) == place:
            longest = own[1]
    return Span(span.start, longest)
