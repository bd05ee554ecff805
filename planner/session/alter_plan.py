"""ALTER PLAN: the TTLs of a plan file, set from SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateplan.execnodes.errors import PlanError
from stateplan.planner.dialect import nodes
from stateplan.planner.session.results import TableResult, content

if TYPE_CHECKING:
    from stateplan.planner.session.statements import Context


def alter_plan(c: Context, node: nodes.AlterPlan) -> TableResult:
    """Sets the TTLs, all or none, and tells what they were: a row per state.

    Raises:
        PlanError: as :func:`plans.edit.plan_edit`, with the place in the statement.
    """
    from stateplan.execnodes.ttl import format_ttl
    from stateplan.plans.document import PlanDocument, edited_ttl
    from stateplan.plans.edit import plan_edit, write_edited
    from stateplan.plans.selector_text import Assignment, parse_selector

    assignments = []
    for group in node.expressions:
        place = c.place(group.this)
        try:
            ttl = edited_ttl(group.this.name)
        except PlanError as error:
            error.place = place
            raise
        for selector in group.expressions:
            assignments.append(Assignment(parse_selector(selector.name, c.place(selector)), ttl))
    edit = plan_edit(PlanDocument.load(node.args["path"].name), assignments, c.env.get_config().to_dict())
    if edit.splices:
        write_edited(edit)
    return content(
        "ALTER PLAN",
        ["state", "name", "old ttl", "ttl"],
        [(change.label, change.state.name, format_ttl(change.state.ttl), format_ttl(change.ttl))
         for change in edit.changes],
    )  # fmt: skip
