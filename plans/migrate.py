"""Older plans brought to a newer Flink version: the steps of :mod:`plans.migrations`, one after the other.

A plan that is current is left byte for byte. Any other is written anew in Flink's layout, with its nodes, ids,
descriptions and keys that nobody knows as they were.

Error codes: PLAN160 to PLAN163.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from stateplan.common.errors import PlanError, nearest
from stateplan.common.files import safe_url
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import amount
from stateplan.execnodes.graph import FLINK_VERSION, FLINK_VERSIONS
from stateplan.plans import jackson
from stateplan.plans.diff import compare
from stateplan.plans.document import PlanDocument
from stateplan.plans.jsontext import loads
from stateplan.plans.migrations import NODE_UPGRADES, OLDEST, RELEASES, Effect, is_before
from stateplan.plans.verdicts import Verdict, severity

_SAYS: dict[Verdict, str] = {
    "identical": "used as it is",
    "ttl-only": "used with another TTL",
    "stateless": "used as it is",
    "rewrite": "to be rewritten",
    "reset": "partly lost",
    "unknown": "not known",
}


@dataclass(frozen=True)
class NodeChange:
    """What one step changes in one operator.

    Attributes:
        step: name of the step.
        node_id, operator: the operator.
        effect: what changes, and what happens to its state.
    """

    step: str
    node_id: int
    operator: str
    effect: Effect


@dataclass(frozen=True)
class Migration:
    """A plan and what becomes of it.

    Attributes:
        source: the plan as it was read.
        document: the migrated plan; ``source`` itself when that is current.
        to: the Flink version it was brought to.
        changes: by step, in the order of the plan's nodes.
    """

    source: PlanDocument
    document: PlanDocument
    to: str
    changes: tuple[NodeChange, ...]

    @property
    def is_current(self) -> bool:
        """Whether there was nothing to do."""
        return self.document is self.source

    @property
    def steps(self) -> tuple[str, ...]:
        """The names of the steps that changed something."""
        return tuple(dict.fromkeys(change.step for change in self.changes))

    @property
    def state(self) -> Verdict:
        """What happens to state in a checkpoint of stateplan: the worst of all changes."""
        return _worst(change.effect.state for change in self.changes)

    @property
    def flink_state(self) -> Verdict:
        """What happens to state in a savepoint of Flink: the worst of all changes."""
        return _worst(change.effect.flink_state for change in self.changes)


def _worst(verdicts: Iterator[Verdict]) -> Verdict:
    return max(verdicts, key=severity, default="identical")


def migrate(document: PlanDocument, to: str = FLINK_VERSION) -> Migration:
    """Brings a plan to the format of a newer Flink version.

    Args:
        document: the plan.
        to: a Flink version, not older than the plan's.

    Raises:
        PlanError: PLAN160 (``to`` is not a version that can be migrated to), PLAN161 (the plan is older than the oldest
            format that is known), PLAN162 (the plan is newer than ``to``), PLAN163 (what came out is not a valid plan).
    """
    start = document.graph.flink_version
    _check(document, start, to)
    data = copy.deepcopy(loads(document.text))
    changes = [*_through_releases(data, start, to), *_through_nodes(data, to)]
    if start == to and not changes:
        return Migration(document, document, to, ())
    data["flinkVersion"] = to
    try:
        new_document = PlanDocument.parse(jackson.dumps(data))
    except PlanError as error:
        raise PlanError(
            "PLAN163",
            to=to,
            problem=error.message,
            place=document.place("/flinkVersion"),
            expected=error.expected,
            hint=error.hint,
        ) from error
    return Migration(document, new_document, to, tuple(_certain(document, new_document, changes)))


def _check(document: PlanDocument, start: str, to: str) -> None:
    versions = FLINK_VERSIONS[FLINK_VERSIONS.index(OLDEST) :]
    if to not in versions:
        raise PlanError("PLAN160", to=to, known=", ".join(versions), hint=nearest(to, versions))
    place = document.place("/flinkVersion")
    if is_before(start, OLDEST):
        raise PlanError("PLAN161", start=start, oldest=OLDEST, place=place)
    if is_before(to, start):
        raise PlanError("PLAN162", start=start, to=to, place=place)


def _through_releases(data: dict[str, Any], start: str, to: str) -> Iterator[NodeChange]:
    for step in RELEASES:
        if is_before(start, step.to) and not is_before(to, step.to):
            for node in data["nodes"]:
                for effect in step.upgrade(node):
                    yield _change(step.name, node, effect)


def _through_nodes(data: dict[str, Any], to: str) -> Iterator[NodeChange]:
    for node in data["nodes"]:
        name, _, version = node["type"].rpartition("_")
        step = NODE_UPGRADES.get((name, int(version)))
        while step is not None and not is_before(to, step.since):
            node["type"] = f"{name}_{step.to}"
            for effect in step.upgrade(node):
                yield _change(step.name, node, effect)
            step = NODE_UPGRADES.get((name, step.to))


def _change(step: str, node: dict[str, Any], effect: Effect) -> NodeChange:
    title = str(node["type"]).rpartition("_")[0].removeprefix("stream-exec-")
    return NodeChange(step, int(node["id"]), title, effect)


def _certain(old: PlanDocument, new: PlanDocument, changes: list[NodeChange]) -> Iterator[NodeChange]:
    """The changes, and one more for each operator whose state fares worse than the steps say, when the plans are
    compared as for a restart."""
    yield from changes
    verdict_by_node: dict[int, Verdict] = {}
    for change in changes:
        verdict_by_node[change.node_id] = max(
            verdict_by_node.get(change.node_id, "identical"), change.effect.state, key=severity
        )
    for operator in compare(old, new).operators:
        new_operator = operator.new
        if (
            new_operator is not None
            and not operator.harmless
            and severity(operator.verdict) > severity(verdict_by_node.get(new_operator.id, "identical"))
        ):
            effect = Effect("the plans are not the same", operator.verdict, "; ".join(operator.reasons))
            yield NodeChange("all steps", new_operator.id, new_operator.name, effect)


def notes(migration: Migration) -> list[str]:
    """What was done and what it means for state in a checkpoint, in a few lines."""
    start = migration.source.graph.flink_version
    if migration.is_current:
        return [f"the plan already has the format of Flink {start}; written unchanged"]
    steps = amount(len(migration.steps), "step")
    return [
        f"Flink {start} -> {migration.to} in {steps}; state in a checkpoint: {_verdict_text(migration.state)}",
        *(line.strip() for line in _reasons([(c, c.effect.state, c.effect.why) for c in migration.changes])),
    ]


def to_text(migration: Migration) -> str:
    """What was done, step by step, and what it means for state."""
    start, count = migration.source.graph.flink_version, len(migration.source.graph.nodes)
    if migration.is_current:
        return f"the plan already has the format of Flink {start}\n"
    lines = [f"Flink {start} -> {migration.to}, {count} operators"]
    for step in migration.steps:
        lines += ["", step]
        changes_by_text: dict[str, list[NodeChange]] = {}
        for change in migration.changes:
            if change.step == step:
                changes_by_text.setdefault(change.effect.change, []).append(change)
        for text, changes in changes_by_text.items():
            names = ", ".join(f"{change.node_id} ({change.operator})" for change in changes)
            lines.append(f"  {names}")
            lines.append(f"    {text}")
    lines += ["", f"state in a checkpoint: {_verdict_text(migration.state)}"]
    lines += _reasons([(c, c.effect.state, c.effect.why) for c in migration.changes])
    lines += [f"state in a savepoint of Flink: {_verdict_text(migration.flink_state)}"]
    lines += _reasons([(c, c.effect.flink_state, c.effect.flink_why) for c in migration.changes])
    return "\n".join(lines) + "\n"


def _verdict_text(verdict: Verdict) -> str:
    return f"{verdict} ({_SAYS[verdict]})"


def _reasons(changes: list[tuple[NodeChange, Verdict, str]]) -> list[str]:
    nodes_by_reason: dict[tuple[Verdict, str], list[str]] = {}
    for change, verdict, reason in changes:
        if verdict != "identical":
            nodes_by_reason.setdefault((verdict, reason), []).append(f"{change.node_id} ({change.operator})")
    return [f"  {verdict}: {', '.join(nodes)}: {reason}" for (verdict, reason), nodes in nodes_by_reason.items()]


def to_json(migration: Migration) -> dict[str, Any]:
    """The same as JSON-ready data."""
    return {
        "plan": safe_url(migration.source.file) if migration.source.file else None,
        "from": migration.source.graph.flink_version,
        "to": migration.to,
        "current": migration.is_current,
        "state": migration.state,
        "flinkState": migration.flink_state,
        "changes": [
            {
                "step": change.step,
                "id": change.node_id,
                "operator": change.operator,
                "what": change.effect.change,
                "state": change.effect.state,
                "why": change.effect.why or None,
                "flinkState": change.effect.flink_state,
                "flinkWhy": change.effect.flink_why or None,
            }
            for change in migration.changes
        ],
    }
