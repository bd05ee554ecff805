"""What a test proves beyond itself: the same rows in other micro-batches, in another order, over more key groups and
with restarts must leave the same tables.

With ``-- accept order dependence in OPERATOR``, a test accepts that rows in another order leave other tables, if this
operator is the first one that differs.

Rows change their order only within a micro-batch, and only those of tables with nothing but +I. A variation in which
other rows are late is not compared: it goes beyond the watermark.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from stateplan.common.changelog import INSERT_ONLY
from stateplan.common.errors import StateplanError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import amount
from stateplan.testing.operators import Operators
from stateplan.testing.play import Play, Setup, Trial, Variation
from stateplan.testing.schedule import Arrival, Moment
from stateplan.testing.story import Case, Expect, Restart
from stateplan.testing.story_plan import Input
from stateplan.testing.taps import Taps

_KEY_GROUPS = 7
_ORDERS = ("rows in reverse order", "rows in random order 1", "rows in random order 2")

Cells = tuple[str | None, ...]
Order = Callable[[list[tuple[str, bytes]]], list[tuple[str, bytes]]]
"""Puts rows into another order."""


@dataclass(frozen=True)
class Deviation:
    """A variation of a test that leaves other tables.

    Attributes:
        variation: what is different about it.
        table: the first table that differs.
        missing_rows, extra: rows that only the test leaves, and that only the variation does.
        operator: the first operator whose rows differ, though its input does not; None if that is not known.
        error: why the variation fails.
    """

    variation: str
    table: str = ""
    missing_rows: tuple[Cells, ...] = ()
    extra: tuple[Cells, ...] = ()
    operator: str | None = None
    error: StateplanError | None = None


@dataclass
class Properties:
    """What the variations of a test have shown.

    Attributes:
        case: the test.
        variations: the number of variations that were compared.
        beyond: variations in which other rows were late.
        deviations: those that leave other tables.
        accepted: variations in the order of rows that leave other tables because of operators that the test names.
        skip_reason: why the test has no variations.
    """

    case: Case
    variations: int = 0
    beyond: int = 0
    deviations: list[Deviation] = field(default_factory=list)
    accepted: list[Deviation] = field(default_factory=list)
    skip_reason: str | None = None


@dataclass(frozen=True)
class _Result:
    """What a run leaves: its tables, the rows of its operators, and how many rows were late."""

    tables: Mapping[str, Counter[Cells]]
    operators: Operators | None
    late: int
    error: StateplanError | None


def check_properties(case: Case, options: Mapping[str, str], seed: int = 0) -> Properties:
    """Runs the variations of a test.

    Raises:
        StateplanError: TEST003, the test names an operator that its plan does not have.
    """
    result = Properties(case)
    if any(expect.subject == "error" for expect in case.expectations()):
        result.skip_reason = "it expects an error"
        return result
    base = _run(case, options, Trial(vary=_with(_as_written)))
    if base.error is not None:
        result.skip_reason = f"it fails: {base.error.message}"
        return result
    names = () if base.operators is None else tuple(base.operators.names)
    order_dependent = _operators_named(case, names)
    for name, trial in variations(seed):
        other = _run(case, options, trial)
        if other.error is None and other.late != base.late:
            result.beyond += 1
            continue
        result.variations += 1
        deviation = _compare(name, base, other)
        if deviation is not None:
            is_accepted = name in _ORDERS and deviation.operator in order_dependent
            (result.accepted if is_accepted else result.deviations).append(deviation)
    return result


def _operators_named(case: Case, operators: Sequence[str]) -> frozenset[str]:
    """The operators in which the order of rows matters, as a test says. Raises StateplanError TEST003."""
    out: set[str] = set()
    for directive in case.order_dependent:
        for name in directive.operators:
            matching = {operator for operator in operators if name in (operator, operator.partition("[")[0])}
            if not matching:
                raise StateplanError(
                    "TEST003",
                    verb="have an operator",
                    name=name,
                    place=case.place(directive.line),
                    expected=", ".join(operators),
                    hint=nearest(name, operators),
                )
            out |= matching
    return frozenset(out)


def variations(seed: int) -> Iterator[tuple[str, Trial]]:
    """The variations of a test, with their names."""
    yield "one row per micro-batch", Trial(vary=_with(_single_rows))
    yield "larger micro-batches", Trial(vary=_with(_larger_batches))
    yield _ORDERS[0], Trial(vary=_with(_in_order(_reverse)))
    for number, name in enumerate(_ORDERS[1:]):
        yield name, Trial(vary=_with(_in_order(_shuffle(seed + number))))
    yield f"{_KEY_GROUPS} key groups", Trial(key_groups=_KEY_GROUPS, vary=_with(_as_written))
    yield "a restart after each micro-batch", Trial(vary=_with(_restarting))
    yield (
        "one row per micro-batch, restarts and more key groups",
        Trial(key_groups=_KEY_GROUPS, vary=_with(_single_rows_restarting)),
    )


def _reverse(rows: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    return rows[::-1]


def _shuffle(seed: int) -> Order:
    source = random.Random(seed)
    return lambda rows: source.sample(rows, len(rows))


def _with(change: Callable[[Setup], list[Moment]]) -> Variation:
    """A variation: other moments, without expectations, and with the files of their rows."""

    def vary(setup: Setup) -> Setup:
        moments: list[Moment] = [m for m in setup.moments if not isinstance(m, Expect)]
        changed_moments = change(replace(setup, moments=moments))
        count = 0
        out: list[Moment] = []
        for moment in changed_moments:
            if isinstance(moment, Arrival):
                moment, count = replace(moment, at=count), count + 1
            out.append(moment)
        return replace(setup, moments=out)

    return vary


def _as_written(setup: Setup) -> list[Moment]:
    return setup.moments


def _single_rows(setup: Setup) -> list[Moment]:
    out: list[Moment] = []
    for moment in setup.moments:
        if isinstance(moment, Arrival):
            out += [replace(moment, rows=(row,)) for row in moment.rows]
        else:
            out.append(moment)
    return out


def _single_rows_restarting(setup: Setup) -> list[Moment]:
    return _restarting(replace(setup, moments=_single_rows(setup)))


def _larger_batches(setup: Setup) -> list[Moment]:
    """Arrivals that nothing separates, as one."""
    out: list[Moment] = []
    for moment in setup.moments:
        last = out[-1] if out else None
        if isinstance(moment, Arrival) and isinstance(last, Arrival):
            out[-1] = replace(last, rows=(*last.rows, *moment.rows))
        else:
            out.append(moment)
    return out


def _in_order(order: Order) -> Callable[[Setup], list[Moment]]:
    """The rows of each arrival in another order: those of tables with nothing but +I, in the places that they have."""

    def change(setup: Setup) -> list[Moment]:
        inputs = setup.plan.inputs()
        return [_rearranged(m, inputs, order) if isinstance(m, Arrival) else m for m in setup.moments]

    return change


def _rearranged(
    arrival: Arrival,
    inputs: Mapping[str, Input],
    order: Order,
) -> Arrival:
    free = [i for i, (table, _) in enumerate(arrival.rows) if inputs[table].mode == INSERT_ONLY]
    rows = list(arrival.rows)
    for place, row in zip(free, order([arrival.rows[i] for i in free]), strict=True):
        rows[place] = row
    return replace(arrival, rows=tuple(rows))


def _restarting(setup: Setup) -> list[Moment]:
    out: list[Moment] = []
    for moment in setup.moments:
        out.append(moment)
        if isinstance(moment, Arrival):
            out.append(Restart(moment.line, "restart"))
    return out


def _run(case: Case, options: Mapping[str, str], trial: Trial) -> _Result:
    taps = Taps()
    play = Play(case, options, replace(trial, taps=taps))
    error = play.run().error
    stage = play.stage
    tables = {name: Counter(c.cells for c in play.tables.table(name)) for name in play.tables.outputs}
    late = int(sum(figures.get("late_rows", 0) for figures in play.figures.values()))
    operators = None if stage is None else Operators(stage.plan.graph, stage.plan.zone, taps)
    return _Result(tables, operators, late, error)


def _compare(name: str, base: _Result, other: _Result) -> Deviation | None:
    if other.error is not None:
        return Deviation(name, error=other.error)
    for table, rows in base.tables.items():
        others = other.tables[table]
        if rows != others:
            missing_rows, extra = tuple((rows - others).elements()), tuple((others - rows).elements())
            return Deviation(name, table, missing_rows, extra, _first_operator(base, other))
    return None


def _first_operator(base: _Result, other: _Result) -> str | None:
    """The first operator that has left other rows: its inputs have left the same."""
    if base.operators is None or other.operators is None:
        return None
    for name in base.operators.names:
        try:
            if base.operators.sums(name) != other.operators.sums(name):
                return name
        except StateplanError:
            continue
    return None


def properties_text(results: Sequence[Properties]) -> str:
    """What the variations of the tests of a file have shown, a line for each test."""
    lines = []
    for result in results:
        title = result.case.title
        if result.skip_reason is not None:
            lines.append(f"  {title}: not varied: {result.skip_reason}")
            continue
        count = result.variations - len(result.deviations) - len(result.accepted)
        beyond = f", {result.beyond} with other late rows not compared" if result.beyond else ""
        lines.append(f"  {title}: {count} of {result.variations} variations leave the same tables{beyond}")
        for operator, accepted in Counter(deviation.operator for deviation in result.accepted).items():
            lines.append(f"    in {amount(accepted, 'other order')}, {operator} has other rows, as the test says")
        for deviation in result.deviations:
            lines += [f"    {line}" for line in _deviation_lines(deviation)]
    return "\n".join(lines)


def _deviation_lines(deviation: Deviation) -> Iterator[str]:
    if deviation.error is not None:
        yield f"{deviation.variation}: [{deviation.error.code}] {deviation.error.message}"
        return
    operator = deviation.operator or "not known"
    yield f"{deviation.variation}: table {deviation.table} differs; the first operator with other rows is {operator}"
    yield from (f"- {_text(cells)}" for cells in deviation.missing_rows[:3])
    yield from (f"+ {_text(cells)}" for cells in deviation.extra[:3])


def _text(cells: Cells) -> str:
    return "(" + ", ".join("NULL" if cell is None else cell for cell in cells) + ")"


def properties_json(result: Properties) -> dict[str, object]:
    """The same for programs."""
    return {
        "title": result.case.title,
        "variations": result.variations,
        "deviations": [_deviation_json(deviation) for deviation in result.deviations],
        "accepted": [_deviation_json(deviation) for deviation in result.accepted],
        "skipped": result.skip_reason,
    }


def _deviation_json(deviation: Deviation) -> dict[str, object]:
    return {
        "variation": deviation.variation,
        "table": deviation.table,
        "operator": deviation.operator,
        "missing": [list(cells) for cells in deviation.missing_rows],
        "extra": [list(cells) for cells in deviation.extra],
        "error": None if deviation.error is None else deviation.error.to_dict(),
    }
