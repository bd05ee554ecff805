"""Why an expectation does not hold: what each operator did in the step, and which TTL makes the difference.

It says what it has seen. The rows of operators are those of another run of the test, with a look at what each operator
emits. A TTL is named if the expectation holds in a run in which only that state never expires.
"""

from __future__ import annotations

from collections.abc import Mapping

from stateplan.testing.play import Outcome


def explain(outcome: Outcome, options: Mapping[str, str]) -> None:
    """Adds what is known of the reason to the failures of a test."""
