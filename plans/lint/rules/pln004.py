"""STATE_TTL hints without effect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from stateplan.plans.facts import KEY
from stateplan.plans.lint.rule import Problem, Rule
from stateplan.plans.lint.subject import Subject

_HINT = re.compile(r"/\*\+[^*]*\bSTATE_TTL\s*\(", re.IGNORECASE)


class HintWithoutEffect(Rule):
    """A STATE_TTL hint in the SQL applies to no state of the plan.

    Anti-pattern: `/*+ STATE_TTL('orders' = '7 d') */` in a query that deduplicates or ranks, or whose IN becomes a
    semi-join.

    Why: the hint applies only to joins and GROUP BY of its own query block. Elsewhere it is ignored without a message.
    The state then has the TTL of the session, or never expires.

    Best practice: set the TTL in the plan with `stateplan plan set-ttl plan.json 'deduplicate=7 d'`, which works for
    every state, and remove the hint from the SQL.

    Source: FLIP-373 and Flink's documentation of hints. A run with Flink 2.3 confirmed that it ignores such hints.
    """

    CODE: ClassVar[str] = "PLN004"
    NAME: ClassVar[str] = "hint-without-effect"

    def check(self, subject: Subject) -> Iterator[Problem]:
        compiled = [ttl for node in subject.nodes for ttl in node.compiled_ttls]
        if not compiled or any(ttl.origin == "hint" for ttl in compiled):
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
