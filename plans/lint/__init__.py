"""Finds what is odd in plans: TTLs that make results wrong, state that grows without end.

Source of the idea: Flink's ``PLAN_ADVICE`` (FLIP-280) and its ``PlanAdvice`` analyzers; the rules say their own.
"""

from stateplan.plans.lint.engine import AppliedFix, Finding, Report, advice, choose, fix, lint, severities_of
from stateplan.plans.lint.rule import Rule, Severity
from stateplan.plans.lint.rules import all_rules
from stateplan.plans.lint.suppress import check_code, operators, suppress, unsuppress

__all__ = [
    "AppliedFix",
    "Finding",
    "Report",
    "Rule",
    "Severity",
    "advice",
    "all_rules",
    "check_code",
    "choose",
    "fix",
    "lint",
    "operators",
    "severities_of",
    "suppress",
    "unsuppress",
]
