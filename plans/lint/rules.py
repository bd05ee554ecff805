"""Rules about other parts of a plan, and the table of all rules, which finds them by itself."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from stateplan.common.changelog import RowKind
from stateplan.common.errors import nearest
from stateplan.execnodes.node_calls import expressions
from stateplan.execnodes.node_ttls import compiled_ttls
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.join import Join
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.specs import ReadingMetadata
from stateplan.functions.varying import varying_calls
from stateplan.plans.jsontext import join_pointer
from stateplan.plans.lint.rule import Problem, Rule, Severity, Unsuppress
from stateplan.plans.lint.subject import SUPPRESSIONS, Subject, accepted, is_reason
from stateplan.plans.plan_metadata import KEY


class NonDeterministicUpdate(Rule, code="PLN001", name="non-deterministic-update"):
    """A non-deterministic column makes an update retract another row than it inserted.

    Anti-pattern: `NOW()`, `UUID()`, `RAND()`, `PROCTIME()`, changelog metadata or a looked-up row, in a query over a
    table with updates and deletions, if the column helps to identify a row: a group key, a join without a key, a sink
    without a primary key.

    Why: the column is computed for the insert and again for the retraction. The values differ, so the retraction finds
    nothing. The old row stays forever, next to the new one.

    Best practice: use a value of the row itself (its own time or id), or compute the value before the table gets
    changes. Or do not identify rows by the column: a sink with a primary key only needs the key to be deterministic. A
    lookup join can keep its results (`table.optimizer.non-deterministic-update.strategy` = `TRY_RESOLVE`).

    Source: Flink's `StreamNonDeterministicUpdatePlanVisitor` and `NonDeterministicUpdateAnalyzer` (FLIP-280), and
    Flink's documentation, "Determinism in continuous queries".
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        if not any(_may_vary(subject, node) for node in subject.nodes):
            return
        from stateplan.plans.lint.determinism import varying  # loads most classes of nodes

        for use in varying(subject):
            subject_text = f"the column {use.field} is {use.call}" if use.field else f"a condition uses {use.call}"
            yield Problem(
                use.node,
                f"{subject_text}, which has another value when an update retracts the row",
                "use a value of the row itself, or compute it upstream of the updates",
                pointer=use.pointer,
            )


def _may_vary(subject: Subject, node: ExecNode) -> bool:
    """Whether an operator takes rows back, and something that it computes or reads may vary. Few plans have one."""
    if isinstance(node, TableSourceScan):
        return any(isinstance(ability, ReadingMetadata) for ability in node.scan_table_source.abilities)
    if not any(subject.retracts(node, position) for position in range(len(subject.graph.inputs(node)))):
        return False
    return node.title == "lookup-join" or any(call for rex in expressions(node) for call in varying_calls(rex))


class UnusedSuppression(Rule, code="PLN002", name="unused-suppression", fixable=True, suppressible=False):
    """A suppression has no finding to suppress.

    Anti-pattern: the plan suppresses a finding that does not exist, or no longer exists.

    Why: if a later edit causes the finding again, it stays hidden, although it was accepted for other reasons.

    Best practice: remove suppressions that are no longer needed. `--fix` removes them and changes nothing else.

    Source: similar rules of other linters, such as ruff's `unused-noqa`.
    """

    def review(self, subject: Subject, problems_by_code: Mapping[str, Sequence[Problem]]) -> Iterator[Problem]:
        at = {(code, problem.node.id) for code, problems in problems_by_code.items() for problem in problems}
        for node in subject.nodes:
            for code in accepted(node):
                if code in problems_by_code and (code, node.id) not in at:
                    yield Problem(
                        node,
                        f"{code} has no finding here to suppress",
                        "remove the suppression",
                        pointer=SUPPRESSIONS + join_pointer([code]),
                        on_key=True,
                        edit=Unsuppress(node.id, code),
                    )


class BadSuppression(Rule, code="PLN003", name="bad-suppression", suppressible=False):
    """A suppression has no reason, or names an unknown rule.

    Anti-pattern: `"suppress" : {"TTL001" : ""}`, or a code that no rule has.

    Why: without a reason, nobody knows whether the finding was reviewed or only silenced, and nobody dares to remove
    the suppression. Such a suppression has no effect, and the finding is reported.

    Best practice: `stateplan plan lint PLAN --suppress TTL001 --reason 'why this result is acceptable'`.

    Source: similar rules of other linters, such as ruff's `blanket-type-ignore`, and review practice.
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        codes = [code for code, rule in all_rules().items() if rule.SUPPRESSIBLE]
        for node in subject.nodes:
            for code, reason in accepted(node, every=True).items():
                pointer = SUPPRESSIONS + join_pointer([code])
                if code not in codes:
                    hint = nearest(code, codes) or "the codes are " + ", ".join(codes)
                    message = f"{code!r:.60} is not the code of a rule that can be suppressed"
                    yield Problem(node, message, hint, pointer=pointer, on_key=True)
                elif not is_reason(reason):
                    yield Problem(node, f"{code} is suppressed without a reason", "add the reason", pointer=pointer)


_MATCH_INPUTS = {"LEFT": 1, "RIGHT": 0, "SEMI": 1, "ANTI": 1}
"""The input whose rows are counted as matches of the other one's, by the type of a join; of a FULL join both are."""


class FlinkKeepsRows(Rule, code="PLN005", name="flink-keeps-rows", severity=Severity.ADVICE):
    """Flink returns other rows for a join of upserts.

    Anti-pattern: a LEFT, RIGHT, FULL, SEMI or ANTI join of tables with primary keys into a table with the same key, or
    a join with a further condition such as `o.price < c.cap`. The plan then sends updates without their old rows.

    Why: Flink 2.3 counts an update that replaces a row as one more match. When the row is deleted, the row of the other
    side does not reappear. A pair that no longer meets the condition stays in the table. stateplan looks up the row
    that is replaced, and returns the rows of SQL, unless `table.optimizer.flink-faults` is `as-flink`.

    Best practice: no change is needed if stateplan runs the plan. For Flink, make the join receive the old rows: write
    into a table that accepts them, such as one of the format `debezium-json`.

    Source: FLINK-40681 and FLINK-38579, and runs with Flink 2.3.
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        for node in subject.nodes:
            if isinstance(node, Join):
                sides = (("left", node.left_upsert_keys), ("right", node.right_upsert_keys))
                for position, (name, upsert_keys) in enumerate(sides):
                    reason = _loss_reason(node, position)
                    if reason and upsert_keys and _upserts(subject, node, position):
                        yield Problem(
                            node,
                            f"the {name} input of {node.label} sends updates without their old rows, {reason}",
                            "nothing where stateplan runs the plan; for Flink, write into a table that takes old rows",
                        )


def _loss_reason(join: Join, position: int) -> str | None:
    """What Flink makes of an update without its old row."""
    kind = join.join_spec.join_type
    if kind == "FULL" or _MATCH_INPUTS.get(kind) == position:
        return "and Flink counts each as one more match"
    return "and Flink keeps pairs that no longer meet the condition" if join.join_spec.non_equi_condition else None


def _upserts(subject: Subject, node: ExecNode, position: int) -> bool:
    mode = subject.gets(node, position)
    return mode is not None and RowKind.UPDATE_AFTER in mode and RowKind.UPDATE_BEFORE not in mode


_HINT = re.compile(r"/\*\+[^*]*\bSTATE_TTL\s*\(", re.IGNORECASE)


class HintWithoutEffect(Rule, code="PLN004", name="hint-without-effect"):
    """A STATE_TTL hint in the SQL applies to no state of the plan.

    Anti-pattern: `/*+ STATE_TTL('t' = '7 d') */` in a query over `(SELECT DISTINCT id FROM orders) AS t`, or over a
    table whose IN becomes a semi-join.

    Why: the hint applies to joins, GROUP BY, DISTINCT, OVER and LIMIT of its own query block, and to deduplications and
    top-N queries below it. Elsewhere it is ignored without a message. The state then has the TTL of the session, or
    never expires.

    Best practice: set the TTL in the plan with `stateplan plan set-ttl plan.json 'deduplicate=7 d'`, which works for
    every state, and remove the hint from the SQL.

    Source: FLIP-373 and Flink's documentation of hints. A run with Flink 2.3 confirmed that it ignores such hints, and
    those of deduplications and top-N queries as well.
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        origins = [ttl for node in subject.nodes for ttl in compiled_ttls(node)]
        if not origins or any(ttl.origin == "hint" for ttl in origins):
            return
        for node in subject.nodes:
            sql = (node.stateplan or {}).get("sql")
            if isinstance(sql, str) and _HINT.search(sql):
                yield Problem(
                    node,
                    "the STATE_TTL hint in the SQL applies to no state of this plan",
                    "set the TTL in the plan, and remove the hint from the SQL",
                    pointer=f"/{KEY}/sql",
                    on_key=True,
                )


@cache
def all_rules() -> dict[str, Rule]:
    """Code to rule, in the order of the codes: the rules of all modules of this folder that are called after them."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name.endswith("rules"):
            importlib.import_module(f"{package}.{module.name}")
    rules = {rule.CODE: rule() for rule in Rule.__subclasses__()}
    return dict(sorted(rules.items()))
