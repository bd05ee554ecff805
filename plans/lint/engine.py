"""Lints plans: asks every rule, places what they find in the text, omits what is suppressed, and fixes.

Error codes: OPT420, OPT421.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from stateplan.common.errors import OptionError, Place, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import NEVER, format_ttl, outlives
from stateplan.plans.advice import Advice
from stateplan.plans.document import PlanDocument
from stateplan.plans.lint.rule import Problem, Rule, SetTtl, Severity, Unsuppress
from stateplan.plans.lint.rules import all_rules
from stateplan.plans.lint.subject import Subject, accepted
from stateplan.plans.lint.suppress import unsuppress
from stateplan.runtime.metrics.state_uses import StateUses


@dataclass(frozen=True)
class Finding:
    """One finding, placed.

    Attributes:
        code, rule: of the rule, such as ``TTL001`` and ``unaligned-retractions``.
        severity: as the rule says, or as the caller does.
        message, hint: what is wrong and what to do, sentences without a full stop.
        node_id, operator, uid: the operator it is about.
        state, state_name: the state it is about, if it is about one.
        place: file, line, column, pointer.
        edit: what ``--fix`` changes; None if there is no one right answer.
    """

    code: str
    rule: str
    severity: Severity
    message: str
    hint: str
    node_id: int
    operator: str
    uid: str
    state: int | None
    state_name: str | None
    place: Place
    edit: SetTtl | Unsuppress | None = None

    @property
    def fixable(self) -> bool:
        """Whether ``--fix`` knows what to do."""
        return self.edit is not None

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data."""
        place = self.place
        return {
            "code": self.code,
            "rule": self.rule,
            "severity": self.severity.value,
            "message": self.message,
            "hint": self.hint,
            "node": self.node_id,
            "operator": self.operator,
            "uid": self.uid,
            "state": self.state,
            "stateName": self.state_name,
            "place": {"file": place.file, "line": place.line, "column": place.column, "pointer": place.pointer},
            "fixable": self.fixable,
        }


@dataclass(frozen=True)
class Report:
    """What there is to say about one plan.

    Attributes:
        findings: by place.
        suppressed: findings that the plan says are accepted, each with the reason.
    """

    findings: tuple[Finding, ...]
    suppressed: tuple[tuple[Finding, str], ...] = ()


@dataclass(frozen=True)
class AppliedFix:
    """A change that ``--fix`` made: where, from what to what, as text, and because of which rule."""

    code: str
    node_id: int
    subject: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.code} {self.subject}: {self.before} -> {self.after}"

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "code": self.code,
            "node_id": self.node_id,
            "what": self.subject,
            "before": self.before,
            "after": self.after,
        }


def choose(select: Sequence[str] = (), ignore: Sequence[str] = ()) -> dict[str, Rule]:
    """The rules to ask: all, or those of ``select``, without those of ``ignore``.

    Args:
        select, ignore: codes, the beginnings of codes (``TTL``), or names of rules.

    Raises:
        OptionError: OPT420, when one fits no rule.
    """
    rules = all_rules()
    codes = set(rules) if not select else {c for word in select for c in _matching(word)}
    unwanted = {c for word in ignore for c in _matching(word)}
    return {code: rule for code, rule in rules.items() if code in codes - unwanted}


def severities_of(pairs: Iterable[str]) -> dict[str, Severity]:
    """Severity by code, of texts such as ``TTL003=warning``.

    Raises:
        OptionError: OPT420 (no such rule), OPT421 (no such severity).
    """
    severity_by_code: dict[str, Severity] = {}
    words = [severity.value for severity in Severity]
    for pair in pairs:
        name, _, word = pair.partition("=")
        if word.strip().lower() not in words:
            raise OptionError("OPT421", pair=pair, words=", ".join(words), hint=nearest(word, words))
        severity_by_code |= dict.fromkeys(_matching(name.strip()), Severity(word.strip().lower()))
    return severity_by_code


def _matching(word: str) -> list[str]:
    rules = all_rules()
    hits = [c for c, rule in rules.items() if word and (c.startswith(word.upper()) or word.lower() == rule.NAME)]
    if not hits:
        raise OptionError(
            "OPT420",
            word=word,
            rules=", ".join(rules),
            hint=nearest(word, [*rules, *(rule.NAME for rule in rules.values())]),
        )
    return hits


def lint(
    document: PlanDocument,
    session: Mapping[str, str] | None = None,
    *,
    against: PlanDocument | None = None,
    observed: StateUses | None = None,
    rules: Mapping[str, Rule] | None = None,
    severities: Mapping[str, Severity] | None = None,
) -> Report:
    """Asks the rules about a plan.

    Args:
        document: the plan.
        session: options of the session, for states whose TTL neither the plan nor the node says.
        against: the plan that wrote the checkpoint this one would continue from, for rules that compare.
        observed: how the states of that checkpoint were used, for rules that judge by it.
        rules: see :func:`choose`; all by default.
        severities: per code, instead of the rule's own.

    Raises:
        PlanError: PLAN05x, when an option that decides about a TTL is not a duration.
    """
    subject = Subject(document, session, against, observed)
    applicable_rules = {
        c: rule for c, rule in (all_rules() if rules is None else rules).items() if rule.applies(subject)
    }
    problems_by_code: dict[str, Sequence[Problem]] = {
        code: list(rule.check(subject)) for code, rule in applicable_rules.items()
    }
    reviewed = {
        code: [*problems_by_code[code], *rule.review(subject, problems_by_code)]
        for code, rule in applicable_rules.items()
    }
    findings: list[Finding] = []
    suppressed: list[tuple[Finding, str]] = []
    for code, problems in reviewed.items():
        rule = applicable_rules[code]
        for problem in problems:
            finding = _finding_at(subject, rule, problem, (severities or {}).get(code, rule.SEVERITY))
            reason = accepted(problem.node).get(code) if rule.SUPPRESSIBLE else None
            if reason is None:
                findings.append(finding)
            else:
                suppressed.append((finding, str(reason)))
    return Report(tuple(sorted(findings, key=_order)), tuple(sorted(suppressed, key=lambda pair: _order(pair[0]))))


def _order(finding: Finding) -> tuple[int, int, str]:
    return finding.place.line or 0, finding.place.column or 0, finding.code


def _finding_at(subject: Subject, rule: Rule, problem: Problem, severity: Severity) -> Finding:
    node = problem.node
    name = subject.states[node.id][problem.state].name if problem.state is not None else None
    return Finding(
        rule.CODE,
        rule.NAME,
        severity,
        problem.message,
        problem.hint,
        node.id,
        node.label,
        subject.document.uids[node.id],
        problem.state,
        name,
        subject.place(problem.node, problem.state, problem.pointer, problem.on_key),
        problem.edit,
    )


def fix(
    document: PlanDocument,
    session: Mapping[str, str] | None = None,
    *,
    against: PlanDocument | None = None,
    rules: Mapping[str, Rule] | None = None,
) -> tuple[PlanDocument, tuple[AppliedFix, ...]]:
    """The plan with everything fixed that has one right answer, until nothing more is found that can be fixed.

    Fixes only lengthen TTLs and take out suppressions, so this ends. They raise no other findings: where a TTL of never
    would, none is set. Every byte that is not fixed stays.

    Args:
        document, session, against, rules: as for :func:`lint`; the document is left as it is.

    Returns:
        The plan, and what was changed.
    """

    def findings(plan: PlanDocument) -> tuple[Finding, ...]:
        return lint(plan, session, against=against, rules=rules).findings

    first_keys = {_key(f) for f in findings(document)}
    current, because, removals = _fix_round(document, session, findings, never_ttl=True)
    if not first_keys.issuperset(map(_key, findings(current))):
        current, because, removals = _fix_round(document, session, findings, never_ttl=False)
    old_states, new_states = (
        {(s.node.id, s.index): s for s in Subject(plan, session).all_states()} for plan in (document, current)
    )
    ttl_changes = [
        AppliedFix(code, key[0], str(old_states[key]), format_ttl(old_states[key].ttl), format_ttl(new_states[key].ttl))
        for key, code in because.items()
    ]
    return current, (*ttl_changes, *removals)


def _key(finding: Finding) -> tuple[str, int, int | None]:
    return finding.code, finding.node_id, finding.state


def _fix_round(
    document: PlanDocument,
    session: Mapping[str, str] | None,
    findings: Callable[[PlanDocument], tuple[Finding, ...]],
    never_ttl: bool,
) -> tuple[PlanDocument, dict[tuple[int, int], str], list[AppliedFix]]:
    """The fixed plan, the first rule that changed each TTL, and other changes; never as a TTL if ``never_ttl``."""
    because: dict[tuple[int, int], str] = {}
    removals: list[AppliedFix] = []
    while True:
        open_ones = [f for f in findings(document) if f.edit is not None]
        longest: dict[tuple[int, int], int] = {}
        for finding in open_ones:
            edit = finding.edit
            if isinstance(edit, SetTtl) and (never_ttl or edit.ttl != NEVER):
                key = edit.node_id, edit.state
                because.setdefault(key, finding.code)
                if key not in longest or outlives(edit.ttl, longest[key]):
                    longest[key] = edit.ttl
        if longest:
            edits = [(node_id, index, ttl) for (node_id, index), ttl in longest.items()]
            document = document.with_splices(document.ttl_splices(edits, session))
            continue
        stale = next((f for f in open_ones if isinstance(f.edit, Unsuppress)), None)
        if stale is None or not isinstance(stale.edit, Unsuppress):
            return document, because, removals
        document = unsuppress(document, stale.edit.node_id, stale.edit.code)
        removals.append(
            AppliedFix(stale.code, stale.node_id, f"suppression at {stale.operator}", stale.edit.code, "nothing")
        )


def advice(document: PlanDocument, session: Mapping[str, str] | None = None) -> tuple[Advice, ...]:
    """The findings as ``EXPLAIN PLAN_ADVICE`` prints them: ``[WARNING] TTL001 ...``.

    Raises:
        PlanError: as :func:`lint`.
    """
    return tuple(
        Advice(f.severity.value.upper(), f"{f.code} {f.message}; {f.hint}.", (f.node_id,))
        for f in lint(document, session).findings
    )
