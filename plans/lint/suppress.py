"""Findings that somebody has accepted: kept in the plan, at the operator, with the reason.

A node's ``stateplan`` object has them under ``suppress``: code of the rule -> reason. Flink passes over it, so plans of
Flink can have it too.

Error codes: PLAN130 to PLAN133, PLAN136.
"""

from __future__ import annotations

from stateplan.common.errors import PlanError, nearest, one_of
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.plans.document import PlanDocument
from stateplan.plans.jsontext import SourceMap, join_pointer
from stateplan.plans.lint.rules import all_rules
from stateplan.plans.lint.subject import accepted
from stateplan.plans.plan_metadata import KEY, SUPPRESS
from stateplan.plans.text_splices import member_splice, removal_splice


def operators(document: PlanDocument, selector: str) -> tuple[ExecNode, ...]:
    """The operators that ``selector`` names: as for states (see :mod:`plans.selectors`), or the name, id or uid of
    one that keeps no state.

    Raises:
        PlanError: PLAN136 (there are several of that name), else as :func:`plans.selectors.select_states`.
    """
    from stateplan.plans.selectors import select_states  # loads more than linting needs

    word, graph = selector.strip(), document.graph
    nodes = [n for n in graph.nodes if word in (str(n.id), n.label, document.uids[n.id])]
    nodes = nodes or [n for n in graph.nodes if word.lower() == n.title]
    if len(nodes) > 1 and not any(n.state_names for n in nodes):
        labels = ", ".join(n.label for n in nodes)
        raise PlanError("PLAN136", count=len(nodes), word=word, listed=labels)
    if len(nodes) == 1:
        return tuple(nodes)
    ids = dict.fromkeys(view.node_id for view in select_states(document, word))
    return tuple(graph.node(i) for i in ids)


def check_code(code: str) -> None:
    """Whether ``code`` is that of a rule that can be suppressed.

    Raises:
        PlanError: PLAN130.
    """
    codes = [c for c, rule in all_rules().items() if rule.SUPPRESSIBLE]
    if code not in codes:
        raise PlanError("PLAN130", value=code, known=", ".join(codes), hint=nearest(code, codes))


def suppress(document: PlanDocument, node_id: int, code: str, reason: str) -> PlanDocument:
    """The plan with a suppression at a node, or with another reason for it; every other byte stays.

    Args:
        document: the plan; it is left as it is.
        node_id: id of the node.
        code: the code of the rule.
        reason: why the finding is accepted.

    Raises:
        PlanError: PLAN130 (no such rule), PLAN131 (no reason), PLAN070 (no such node), PLAN132 (the node's additions
            are not an object).
    """
    check_code(code)
    if not reason.strip():
        raise PlanError("PLAN131", value=code)
    at = _pointer(document, node_id)
    source = SourceMap(document.text)
    for path, value in (((KEY,), {SUPPRESS: {code: reason}}), ((KEY, SUPPRESS), {code: reason})):
        place = at + join_pointer(path)
        location = source.location(place)
        if location is None:
            return document.with_splices([member_splice(source, at + join_pointer(path[:-1]), path[-1], value, ())])
        if document.text[location.value.start] != "{":
            raise PlanError("PLAN132", where=place, place=document.place(place))
    return document.with_splices([member_splice(source, at + join_pointer((KEY, SUPPRESS)), code, reason, ())])


def unsuppress(document: PlanDocument, node_id: int, code: str) -> PlanDocument:
    """The plan without a suppression at a node, and without the objects that held nothing else.

    Raises:
        PlanError: PLAN133 (the node has no such suppression), PLAN070 (no such node).
    """
    at = _pointer(document, node_id)
    node = document.graph.node(node_id)
    codes = accepted(node, every=True)
    if code not in codes:
        raise PlanError(
            "PLAN133",
            node_id=node_id,
            title=node.title,
            value=code,
            place=document.place(at),
            expected=one_of(codes) or "a node with suppressions",
        )
    path: list[str] = [KEY, SUPPRESS, code]
    extra = node.stateplan or {}
    if len(codes) == 1:
        path = [KEY, SUPPRESS] if len(extra) > 1 else [KEY]
    source = SourceMap(document.text)
    return document.with_splices([removal_splice(source, at + join_pointer(path[:-1]), path[-1])])


def _pointer(document: PlanDocument, node_id: int) -> str:
    try:
        return document.graph.pointer(document.graph.node(node_id))
    except PlanError as error:
        raise PlanError("PLAN070.json_pointer", problem=error.message, expected=error.expected) from None
