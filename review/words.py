"""A review in words: what becomes of state, how much of it there is, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from stateplan.common.readable import amount, bytes_text
from stateplan.plans.lint import Severity
from stateplan.review.comparison import Fate, QueryChange, StateChange
from stateplan.review.figures import Amount
from stateplan.review.review import Review

FATE_WORDS: Mapping[Fate, str] = {
    "kept": "kept",
    "rewritten": "kept, in another layout",
    "converted": "computed from the old state",
    "rebuilt": "made from the history of its inputs",
    "empty": "starts empty",
    "lost": "lost",
    "unknown": "unknown",
    "deleted": "deleted",
    "new": "new",
}

_ACCEPT = "execution.state-recovery.accept"

STEPS: Mapping[Fate, str] = {
    "kept": "The job continues from its checkpoint with the new plan.",
    "rewritten": f"The job continues from its checkpoint with `{_ACCEPT}` = `rewrite`.",
    "converted": "No state is lost. `stateplan plan evolve` makes a checkpoint for the new plan, from the old state "
    "alone.",
    "rebuilt": "No state is lost. `stateplan plan evolve` makes a checkpoint for the new plan, and reads the history "
    "of the sources again.",
    "empty": f"The job continues from its checkpoint with `{_ACCEPT}` = `reset`. New state starts empty, "
    "without the rows read so far.",
    "lost": f"The job continues only with `{_ACCEPT}` = `reset`. This state starts empty then, "
    "and the rows read so far are lost.",
    "unknown": f"The job continues only with `{_ACCEPT}` = `unknown`. This state starts empty then.",
    "deleted": "State of removed operators is deleted.",
}
"""What to do with a checkpoint of the old plan, in Markdown."""

_SHORT: Mapping[Fate, str] = {
    "kept": "keeps its state",
    "rewritten": "keeps its state",
    "empty": "has new state that starts empty",
    "deleted": "keeps its state",
}
"""What a query does, in the first line."""

_PLURAL: Mapping[Fate, str] = {
    "kept": "keep their state",
    "rewritten": "keep their state",
    "converted": "compute state from the old one",
    "rebuilt": "make state from history",
    "empty": "have new state that starts empty",
    "deleted": "keep their state",
    "lost": "lose state",
    "unknown": "may lose state",
}

_MANY = 3


def headline(review: Review) -> str:
    """The first line: how many queries have changed, and what becomes of their state."""
    parts = []
    changes = [query for query in review.queries if query.status == "changed"]
    if changes:
        parts.append(f"{amount(len(changes), 'query', 'queries')} changed: {_state_of_changes(changes)}")
    for status, word in (("created", "new"), ("deleted", "deleted")):
        number = sum(query.status == status for query in review.queries)
        if number:
            parts.append(f"{number} {word}" if parts else f"{amount(number, 'query', 'queries')} {word}")
    broken = sum(query.status == "broken" for query in review.queries)
    if broken:
        verb = "does" if broken == 1 else "do"
        parts.append(f"{amount(broken, 'query', 'queries')} {verb} not compile")
    if not parts:
        parts.append("No query changed")
    if sizes := _sizes_of_all(changes):
        parts.append(sizes)
    tests = review.tests
    if tests is not None and tests.report.failed:
        parts.append(f"{amount(tests.report.failed, 'test fails', 'tests fail')}")
    new_warnings = sum(f.severity is Severity.WARNING for query in changes for f in query.lint.new)
    if new_warnings:
        parts.append(amount(new_warnings, "new lint warning"))
    return "; ".join(parts)


def _sizes_of_all(queries: Sequence[QueryChange]) -> str | None:
    """How large state is before and after the change, if that is known and not the same."""
    states = [state for query in queries if query.figures is not None for state in query.states]
    before, after = total(states, "before"), total(states, "after")
    if before is None or after is None or before == after or not size_words(before) or not size_words(after):
        return None
    return f"size of state {size_words(before)} -> {size_words(after)}"


def _state_of_changes(queries: Sequence[QueryChange]) -> str:
    if len(queries) == 1:
        return f"it {query_words(queries[0])}"
    groups: dict[str, list[QueryChange]] = {}
    for query in sorted(queries, key=lambda query: query.loses_state):
        groups.setdefault(_PLURAL[query.fate] if query.states else "have no state", []).append(query)
    return ", ".join(
        f"1 {query_words(group[0])}" if len(group) == 1 else f"{len(group)} {words}" for words, group in groups.items()
    )


def query_words(query: QueryChange) -> str:
    """What a changed query does with its state, such as ``loses join.left (1.2 GiB)``."""
    if not query.states:
        return "has no state"
    for fate, verb in (("lost", "loses"), ("unknown", "may lose")):
        hurt = [state for state in query.states if state.fate == fate]
        if hurt:
            return f"{verb} {_names(hurt)}{_sizes(hurt)}"
    for fate, text in (("rebuilt", "makes {} from history"), ("converted", "computes {} from the old state")):
        if query.fate == fate:
            return text.format(_names([state for state in query.states if state.fate == fate]))
    return _SHORT[query.fate]


def _names(states: Sequence[StateChange]) -> str:
    names = [state.selector for state in states[:_MANY]]
    more = len(states) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _sizes(states: Sequence[StateChange]) -> str:
    sizes = [state.before.bytes for state in states if state.before is not None and state.before.bytes is not None]
    return f" ({bytes_text(sum(sizes))})" if len(sizes) == len(states) else ""


def amount_words(figure: Amount | None) -> str:
    """``1,000 rows, 303 KiB``; a range where there is one."""
    if figure is None:
        return "unknown"
    sizes = size_words(figure)
    unit = "row" if figure.rows == figure.most_rows == 1 else "rows"
    return f"{_range(_count(figure.rows), figure.most_rows, _count)} {unit}" + (f", {sizes}" if sizes else "")


def size_words(figure: Amount) -> str:
    """``303 KiB``; a range where there is one, and nothing if the size is unknown."""
    return "" if figure.bytes is None else _range(bytes_text(figure.bytes), figure.most_bytes, bytes_text)


def _range(least: str, most: int | None, text: Callable[[int], str]) -> str:
    if most is None:
        return f"at least {least}"
    return least if text(most) == least else f"{least} to {text(most)}"


def _count(number: int) -> str:
    """``18.4 M``: a review needs no more digits."""
    for unit, size in (("G", 1_000_000_000), ("M", 1_000_000)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:,}"


def total(states: Sequence[StateChange], side: Literal["before", "after"]) -> Amount | None:
    """The amounts of states together, before or after the change; None if one is unknown."""
    if side == "before":
        amounts = [state.before for state in states if state.old is not None]
    else:
        amounts = [state.after for state in states if state.new is not None]
    sums = [one for one in amounts if one is not None]
    if not sums or len(sums) < len(amounts):
        return None
    return Amount(
        sum(one.rows for one in sums),
        _sum([one.most_rows for one in sums]),
        _sum([one.bytes for one in sums]),
        _sum([one.most_bytes for one in sums]),
    )


def _sum(numbers: Sequence[int | None]) -> int | None:
    return None if None in numbers else sum(number for number in numbers if number is not None)


def cost_words(query: QueryChange) -> str | None:
    """How much state a query keeps before and after the change; None without figures."""
    if query.figures is None:
        return None
    before, after = total(query.states, "before"), total(query.states, "after")
    if before == after:
        return amount_words(before)
    return f"{amount_words(before)} -> {amount_words(after)}"
