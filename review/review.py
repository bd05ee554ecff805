"""A review: the queries of both sides in pairs, what a change does to each, and what became of the tests."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.review.comparison import QueryChange, compare_query
from stateplan.review.figures import Figures
from stateplan.review.findings import ReviewFinding, findings_of, findings_of_tests
from stateplan.review.queries import Query, Script
from stateplan.review.sides import Side
from stateplan.testing.play import Outcome
from stateplan.testing.reader import read_story
from stateplan.testing.suite import Report, Selection, run_suite


@dataclass(frozen=True)
class StoryResults:
    """What became of the tests of the new side.

    Attributes:
        report: of all of them.
        former_count: how many tests the changed test files had before.
        former: those of them that fail with the new queries.
    """

    report: Report
    former_count: int = 0
    former: tuple[Outcome, ...] = ()


@dataclass(frozen=True)
class Review:
    """A review.

    Attributes:
        queries: that differ on the two sides.
        unchanged: how many queries are the same.
        tests: what became of the tests; None if none were run.
        notes: for readers, a sentence each.
        old, new: what the sides are called.
    """

    queries: tuple[QueryChange, ...]
    unchanged: int = 0
    tests: StoryResults | None = None
    notes: tuple[str, ...] = ()
    old: str = ""
    new: str = ""

    def findings(self) -> Iterator[ReviewFinding]:
        """What a reviewer should look at, in order."""
        for query in self.queries:
            yield from findings_of(query)
        if self.tests is not None:
            yield from findings_of_tests(self.tests.report.files)

    def fails(self, policies: Collection[str]) -> bool:
        """Whether there is something that the user wants to fail on; advice of lint is not enough."""
        return any(finding.policy in policies and finding.level != "note" for finding in self.findings())


def review(
    old: Side,
    new: Side,
    options: Mapping[str, str],
    figures: Sequence[Figures] = (),
    *,
    runs_tests: bool = True,
    notes: Sequence[str] = (),
) -> Review:
    """Reviews the change from one side to the other.

    Raises:
        StateplanError: the script that runs first cannot be read.
    """
    pairs, same_files = _pairs(old, new, options)
    choice = _choose(figures, [old_query for _, old_query, _ in pairs])
    changes = [
        compare_query(name, old_query, new_query, options, choice.get(place))
        for place, (name, old_query, new_query) in enumerate(pairs)
    ]
    spare_figures = [one.source for one in figures if not any(one is other for other in choice.values())]
    more_notes = [f"the states of {source} belong to no query that has changed" for source in spare_figures]
    more_notes += [note for place, one in choice.items() if (note := _drift(one, pairs[place][1]))]
    differing = tuple(change for change in changes if change.status != "unchanged")
    tests = _tests(old, new, options) if runs_tests and new.tests else None
    return Review(differing, len(changes) - len(differing) + same_files, tests, (*notes, *more_notes))


def _drift(figures: Figures, query: Query | None) -> str | None:
    """What to say of a job that runs another plan than the old one."""
    if figures.document is None or query is None or query.document is None:
        return None
    if set(figures.document.uids.values()) == set(query.document.uids.values()):
        return None
    return f"the job of {figures.source} runs another plan than the old {query.file}; only states of both have figures"


# ---- pairs -----------------------------------------------------------------------------------------------------


def _pairs(
    old: Side, new: Side, options: Mapping[str, str]
) -> tuple[list[tuple[str, Query | None, Query | None]], int]:
    """The queries of files that differ, in pairs with a name, and how many files are the same."""
    scripts = [Script(options, side.init, _name(side), side.folder) for side in (old, new)]
    has_same_init = _same(old.init, new.init)
    pairs: list[tuple[str, Query | None, Query | None]] = []
    same_files = 0
    for name in sorted({*old.queries, *new.queries}):
        paths = old.queries.get(name), new.queries.get(name)
        if has_same_init and None not in paths and _same(*paths):
            same_files += _may_have_query(paths[1])
            continue
        sides = [
            [] if path is None else script.read(path, side.prefix + name)
            for path, script, side in zip(paths, scripts, (old, new), strict=True)
        ]
        pairs += _in_file(name, *sides)
    return _pair_by_tables(pairs), same_files


def _may_have_query(path: Path | None) -> bool:
    return path is not None and (path.suffix == ".json" or "INSERT" in path.read_text("utf-8", "replace").upper())


def _name(side: Side) -> str:
    """The path of the script that runs first, for readers."""
    if side.init is None:
        return ""
    path = side.init
    return (path.relative_to(side.folder) if side.folder is not None else path).as_posix()


def _same(one: Path | None, other: Path | None) -> bool:
    if one is None or other is None:
        return one is other
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:
        return False


def _in_file(name: str, old: Sequence[Query], new: Sequence[Query]) -> Iterator[tuple[str, Query | None, Query | None]]:
    """The queries of a file in pairs: those that write the same tables, in their order; then single ones."""
    left = list(old)
    partners: list[tuple[Query | None, Query]] = []
    for query in new:
        partner = next((one for one in left if one.sinks == query.sinks and query.sinks), None)
        if partner is not None:
            left.remove(partner)
        partners.append((partner, query))
    lonely = [place for place, (partner, _) in enumerate(partners) if partner is None]
    if len(lonely) == len(left) == 1 or (lonely and left and any(q.error is not None for q in (*old, *new))):
        partners[lonely[0]] = left.pop(0), partners[lonely[0]][1]
    several = len(partners) + len(left) > 1
    for partner, query in partners:
        yield _query_name(name, query, several), partner, query
    for query in left:
        yield _query_name(name, query, several), query, None


def _query_name(name: str, query: Query, is_one_of_several: bool) -> str:
    return f"{name}: {', '.join(query.sinks)}" if is_one_of_several and query.sinks else name


def _pair_by_tables(
    pairs: Sequence[tuple[str, Query | None, Query | None]],
) -> list[tuple[str, Query | None, Query | None]]:
    """The pairs, where a query that was deleted and one that was created in another file are one if no others write
    the same tables."""
    deleted = [pair for pair in pairs if pair[2] is None and pair[1] is not None and pair[1].sinks]
    out = list(pairs)
    for name, _, query in pairs:
        if query is None or not query.sinks or (name, None, query) not in out:
            continue
        partners = [pair for pair in deleted if pair[1] is not None and pair[1].sinks == query.sinks and pair in out]
        rivals = [p for p in out if p[1] is None and p[2] is not None and p[2].sinks == query.sinks]
        if len(partners) == len(rivals) == 1:
            out[out.index((name, None, query))] = (name, partners[0][1], query)
            out.remove(partners[0])
    return out


def _choose(figures: Sequence[Figures], queries: Sequence[Query | None]) -> dict[int, Figures]:
    """The figures of each query, by its place: those that have most of its states."""
    choice: dict[int, Figures] = {}
    for figure in figures:
        fits = [0 if query is None or query.document is None else figure.matches(query.document) for query in queries]
        if any(fits):
            choice.setdefault(fits.index(max(fits)), figure)
    return choice


# ---- tests -----------------------------------------------------------------------------------------------------


def _tests(old: Side, new: Side, options: Mapping[str, str]) -> StoryResults:
    """Runs the tests of the new side, and those of changed test files as they were."""
    selection = Selection(dict(options))
    report = run_suite([str(path) for path in new.tests.values()], selection)
    for name, file in zip(new.tests, report.files, strict=True):
        file.file = new.prefix + name
    count, failing = 0, list[Outcome]()
    for name, path in new.tests.items():
        before = old.tests.get(name)
        if before is None or _same(before, path):
            continue
        try:
            story = read_story(before.read_text("utf-8"), str(path))
        except (StateplanError, OSError, ValueError):
            continue  # what the old file says is no longer of interest
        outcomes = [selection.run(case, selection.options) for case in selection.cases(story)]
        count += len(outcomes)
        failing += [replace(o, case=replace(o.case, file=new.prefix + name)) for o in outcomes if not o.holds]
    return StoryResults(report, count, tuple(failing))
