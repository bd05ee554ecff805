"""Which small changes of a query no test notices.

A mutant is noticed if a test of its file does not hold any more. It is equivalent if its plan is the plan of the query.
It is refused if it cannot be planned, and does not count then.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import amount
from stateplan.testing.mutants import SqlMutant, TtlMutant, sql_mutants, ttl_mutants
from stateplan.testing.play import Play, Setup, Trial, initial_plan
from stateplan.testing.stage import with_ttls
from stateplan.testing.story import Case, SetTtl, Sql, Story, UsePlan
from stateplan.testing.story_plan import Preparation, StoryPlan, prepare
from stateplan.testing.suite import Selection

Fate: TypeAlias = Literal["noticed", "not noticed", "equivalent", "refused"]


@dataclass(frozen=True)
class Result:
    """A mutant, and what became of it.

    Attributes:
        file: the test file.
        text: what was changed.
        location: its place, for people.
        fate: what became of it.
        test: the title of the test that notices it.
    """

    file: str
    text: str
    location: str
    fate: Fate
    test: str | None = None


@dataclass
class Mutation:
    """What became of all mutants.

    Attributes:
        results: of each.
    """

    results: list[Result] = field(default_factory=list)

    @property
    def counts(self) -> Counter[Fate]:
        """Mutants by what became of them."""
        return Counter(mutant.fate for mutant in self.results)

    @property
    def survivors(self) -> list[Result]:
        """Those that no test notices."""
        return [mutant for mutant in self.results if mutant.fate == "not noticed"]


@dataclass(frozen=True)
class _Group:
    """Tests of a file that have the same statements, and a mutant of these."""

    cases: tuple[Case, ...]
    mutant: SqlMutant | TtlMutant


def mutate(stories: Sequence[Story], selection: Selection, most: int, seed: int) -> Iterator[Result]:
    """Tries mutants of the queries of test files.

    Args:
        stories: the files.
        selection: which of their tests.
        most: this number of mutants at most.
        seed: says which of them, if there are more.

    Raises:
        StateplanError: a query cannot be planned; TEST012, a test fails without any change.
    """
    options = selection.options
    for case in (case for story in stories for case in selection.cases(story)):
        if not Play(case, options).run().holds:
            raise StateplanError("TEST012", name=case.title, place=case.place(case.line))
    groups = [group for story in stories for group in _groups(selection.cases(story), options)]
    places = range(len(groups))
    for place in sorted(random.Random(seed).sample(places, most)) if len(groups) > most else places:
        yield _try(groups[place], options)


def _groups(all_cases: Sequence[Case], options: Mapping[str, str]) -> Iterator[_Group]:
    by_sql: dict[tuple[Sql, ...], list[Case]] = {}
    for case in all_cases:
        if not any(expect.subject == "error" for expect in case.expectations()):
            by_sql.setdefault(case.sql, []).append(case)
    for cases in by_sql.values():
        session = prepare(cases[0].sql, options)
        for mutant in sql_mutants(session.all_statements):
            yield _Group(tuple(cases), mutant)
        by_ttls: dict[tuple[tuple[str, int], ...], list[Case]] = {}
        for case in cases:
            by_ttls.setdefault(tuple(_first_ttls(case.steps).items()), []).append(case)
        for ttls, same_cases in by_ttls.items():
            plan = initial_plan(same_cases[0], session)
            document = with_ttls(plan.document, dict(ttls), plan.options) if ttls else plan.document
            for ttl_mutant in ttl_mutants(document, dict(plan.options)):
                yield _Group(tuple(same_cases), ttl_mutant)


def _first_ttls(steps: Iterable[object]) -> dict[str, int]:
    """The TTLs that a test sets before anything else happens: those of its plan."""
    out: dict[str, int] = {}
    for step in steps:
        if isinstance(step, SetTtl):
            out[step.selector] = step.ttl
        elif not isinstance(step, UsePlan):
            break
    return out


def _try(group: _Group, options: Mapping[str, str]) -> Result:
    first, mutant = group.cases[0], group.mutant
    location = f"{first.file}" if isinstance(mutant, TtlMutant) else f"{mutant.place.file}:{mutant.place.line}"
    result = Result(first.file, mutant.text, location, "not noticed")
    if isinstance(mutant, SqlMutant):
        fate = _fate_of_plan(first, mutant, options)
        if fate is not None:
            return replace(result, fate=fate)
    for case in group.cases:
        if not Play(case, options, _trial(case, mutant, options)).run().holds:
            return replace(result, fate="noticed", test=case.title)
    return result


def _trial(case: Case, mutant: SqlMutant | TtlMutant, options: Mapping[str, str]) -> Trial:
    if isinstance(mutant, SqlMutant):
        changes = {mutant.statement: mutant.changed_statement}
        return Trial(prepare=lambda: Preparation(case.sql, options, changes))

    def vary(setup: Setup) -> Setup:
        plan, first = setup.plan, _first_ttls(setup.moments)
        others = [m for i, m in enumerate(setup.moments) if not (isinstance(m, SetTtl) and i < len(first) + 1)]
        document = with_ttls(plan.document, first, plan.options) if first else plan.document
        changed_document = with_ttls(document, {mutant.selector: mutant.ttl}, plan.options)
        return replace(setup, plan=plan.having(changed_document), moments=others)

    return Trial(vary=vary)


def _fate_of_plan(case: Case, mutant: SqlMutant, options: Mapping[str, str]) -> Fate | None:
    """Whether the plan of a mutant is refused, or is that of the query; None if its tests have to say."""
    try:
        plan = _meaning(Preparation(case.sql, options, {mutant.statement: mutant.changed_statement}).plan)
    except StateplanError:
        return "refused"
    return "equivalent" if plan == _meaning(prepare(case.sql, options).plan) else None


def _meaning(plan: StoryPlan) -> object:
    """A plan without the SQL that it was compiled from."""
    return plan.graph.to_json()


def mutation_text(mutation: Mutation) -> str:
    """What became of the mutants; those that no test notices one by one."""
    counts = mutation.counts
    lines = [f"{m.location}: no test notices: {m.text}" for m in mutation.survivors]
    total = len(mutation.results) - counts["refused"]
    parts = [
        f"{counts['noticed']} noticed",
        f"{counts['equivalent']} equivalent",
        f"{counts['not noticed']} not noticed",
    ]
    lines.append(f"{amount(total, 'mutant')}: {', '.join(parts)}")
    return "\n".join(lines)


def mutation_json(mutation: Mutation) -> dict[str, object]:
    """The same for programs."""
    return {
        "counts": dict(mutation.counts),
        "mutants": [
            {"file": m.file, "location": m.location, "change": m.text, "outcome": m.fate, "test": m.test}
            for m in mutation.results
        ],
    }
