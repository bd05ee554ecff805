"""OVER windows and window table-valued functions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from stateplan.common.errors import SqlError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.functions.aggregates import find_aggregate
from stateplan.functions.rex import InputRef, Literal, Rex, input_refs, remap
from stateplan.planner.algebra.match import Match
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.over_frames import DEFAULT, SO_FAR
from stateplan.planner.algebra.relations import (
    AggCall,
    Aggregate,
    Calc,
    Expand,
    Project,
    Rank,
    Rel,
    Window,
    field_names,
    fresh_name,
    is_identity,
    unique_names,
)
from stateplan.planner.algebra.table_functions import is_python
from stateplan.planner.algebra.windows import (
    Property,
    WindowAggregate,
    WindowDeduplicate,
    WindowPosition,
    WindowRank,
    WindowTable,
)
from stateplan.planner.expressions.normal import equal, key, member
from stateplan.planner.expressions.ops import RANKING, Over, kind, rewrite, walk
from stateplan.planner.metadata.window_properties import WindowProperties, window_properties
from stateplan.planner.passes.build import typed_by
from stateplan.planner.passes.group_windows import fields_of_window
from stateplan.planner.passes.projects import is_trivial
from stateplan.planner.positions import not_supported

# Takes window functions out of projections: a projection of their operands, the window, the projection above.
#
# Source: Calcite's ``ProjectToWindowRule`` (``CalcRelSplitter`` over a ``RexProgram``). The projection below computes
# each distinct subexpression once; what is not a field of the input is called ``$`` and its position.


def split_windows(rel: Rel) -> Rel | None:
    """Raises SqlError SQL164, for windows that are not the same."""
    if not isinstance(rel, Project):
        return None
    overs = _windows_of(rel)
    if not overs:
        return None
    below, level = _below(rel)
    window = _window_over(below, level, overs)
    width = below.width

    def change(e: Rex) -> Rex | None:
        if isinstance(e, Over):
            return InputRef(e.type, width + next(i for i, o in enumerate(overs) if equal(o, e)))
        for i, x in enumerate(level):
            if equal(x, e) and x.type == e.type:
                return InputRef(x.type, i)
        return None

    exprs = tuple(rewrite(e, change) for e in rel.exprs)
    if is_identity(exprs, window):
        return window
    return replace(rel, input=window, exprs=exprs, names=_names_above(rel, exprs))


def _windows_of(rel: Project) -> list[Over]:
    """The distinct window functions of a projection. Raises SqlError SQL164."""
    overs: list[Over] = []
    for e in rel.exprs:
        for part in walk(e):
            if isinstance(part, Over) and not member(part, overs):
                overs.append(part)
    other = next((o for o in overs[1:] if _window_key(o) != _window_key(overs[0])), None)
    if other is not None:
        raise SqlError("SQL164", why="differs from another one of this SELECT", place=other.place)
    return overs


def _below(rel: Project) -> tuple[Rel, list[Rex]]:
    """The projection of the operands of windows, and its expressions; the input itself where it has them all."""
    window_fields = fields_of_window(rel.input)
    level = _level_zero(rel, window_fields)
    fields = rel.input.fields
    group_number = _group_number(rel.input)
    are_fields = [isinstance(e, InputRef) and e.index not in window_fields for e in level]
    if _window_comes_first(rel, window_fields):
        level = [InputRef(t, i) for i, (_, t) in enumerate(fields) if i != group_number]
        are_fields = [True] * len(level)
    if len(level) >= len(fields) and all(are_fields) and is_identity(level, rel.input):
        return rel.input, level
    names = [
        fields[e.index][0] if isinstance(e, InputRef) and e.index not in window_fields else f"${i}"
        for i, e in enumerate(level)
    ]
    return Project(rel.input, tuple(level), tuple(unique_names(names))), level


def _window_over(below: Rel, level: Sequence[Rex], overs: Sequence[Over]) -> Window | OverAggregate:
    """The relation of window functions that share a window, over the fields that ``level`` computes."""
    first = overs[0]

    def at(e: Rex) -> int:
        return next(i for i, x in enumerate(level) if equal(x, e))

    partition = tuple(sorted({at(p) for p in first.partition if not isinstance(p, Literal)}))
    order: dict[int, tuple[int, bool, bool]] = {}
    for e, ascending, last in first.order:
        order.setdefault(at(e), (at(e), ascending, last))
    keys = tuple(order.values())
    if len(overs) == 1 and first.function in RANKING:
        return Window(below, first.function, partition, keys, first.type, "w0$o0", first.place, first.hint)
    pool = _constants(overs)

    def argument(e: Rex) -> int:
        return below.width + _place(e, pool) if isinstance(e, Literal) else at(e)

    calls = tuple(_call(o, tuple(map(argument, o.operands)), f"w0$o{i}") for i, o in enumerate(overs))
    return OverAggregate(below, partition, keys, first.frame, calls, tuple(pool), first.place, first.hint)


def _window_comes_first(rel: Project, window_fields: Collection[int]) -> bool:
    """Whether the windows are computed before all other expressions, from the fields of the input.

    An expression has its turn once its operands had theirs: constants and fields first, in their order; of what the
    same field makes ready, what is earlier in the projection. All that needs no window is below it where one
    expression has its turn before.
    """
    program = _program(rel.exprs)
    overs = [(i, e) for i, e in enumerate(program) if isinstance(e, Over)]
    if any(not isinstance(e, Over) and not e.children and not isinstance(e, InputRef) for e in program):
        return False
    if any(_offsets(over) or not all(isinstance(c, InputRef) for c in over.children) for _, over in overs):
        return False
    last = max((i for _, over in overs for i in input_refs(over)), default=-1)
    place = next((place for place, over in overs if last in input_refs(over)), 0)

    def earlier(i: int, e: Rex) -> bool:
        if isinstance(e, InputRef):
            return e.index in window_fields
        return all(isinstance(c, InputRef) for c in e.children) and (max(input_refs(e)), i) < (last, place)

    return not any(earlier(i, e) for i, e in enumerate(program) if not isinstance(e, Over))


def _window_key(over: Over) -> object:
    return tuple(map(key, over.partition)), tuple((key(e), a, n) for e, a, n in over.order), over.frame.text


def _offsets(over: Over) -> list[Literal]:
    return [b.offset for b in (over.frame.lower, over.frame.upper) if b.offset is not None]


def _constants(overs: Sequence[Over]) -> list[Literal]:
    """The constants of all calls, those of a call before those of its window."""
    out: list[Literal] = []
    for over in overs:
        for e in (*over.operands, *over.partition, *_offsets(over)):
            if isinstance(e, Literal) and not any(e == o for o in out):
                out.append(e)
    return out


def _place(rex: Rex, pool: Sequence[Literal]) -> int:
    return next(i for i, c in enumerate(pool) if c == rex)


def _call(over: Over, args: tuple[int, ...], name: str) -> AggCall:
    if over.system_name is not None or over.catalog_name is not None:
        names = over.system_name, over.catalog_name
        return AggCall(over.function, args, over.type, name, over.distinct, -1, "", None, *names)
    function = find_aggregate(over.function)
    syntax = "FUNCTION_STAR" if over.function == "COUNT" else None if function is None else function.syntax
    internal = f"${over.function}$1" if function is None else function.internal_name
    call = AggCall(over.function, args, over.type, name, over.distinct, -1, internal, syntax)
    return replace(call, ignore_nulls=over.ignore_nulls)


def _group_number(rel: Rel) -> int | None:
    """Of an aggregate over grouping sets the field that distinguishes them, which is none of the query's: Flink adds it
    later."""
    if not isinstance(rel, Aggregate) or not isinstance(rel.input, Expand):
        return None
    return next((i for i, g in enumerate(rel.group) if g == rel.input.id_field), None)


def _names_above(rel: Project, exprs: Sequence[Rex]) -> tuple[str, ...]:
    """The names of the projection above windows: its own where it computes something or changes the order, else those
    of the input's fields, with ``$`` and the position for what the windows, or the projection below them, compute."""
    if not all(isinstance(e, InputRef) for e in exprs):
        return rel.names
    window_fields = fields_of_window(rel.input)
    program = _program(rel.exprs)
    names, order = [], []
    for i, e in enumerate(rel.exprs):
        is_field = isinstance(e, InputRef) and e.index not in window_fields
        names.append(rel.input.fields[e.index][0] if isinstance(e, InputRef) and is_field else f"${i}")
        place = (
            e.index if isinstance(e, InputRef) and is_field else next(j for j, x in enumerate(program) if equal(x, e))
        )
        order.append((not is_field, place))
    return tuple(unique_names(names)) if order == sorted(set(order)) else rel.names


def _program(exprs: Sequence[Rex]) -> list[Rex]:
    """All expressions in the order of their evaluation: operands first, each once."""
    out: list[Rex] = []

    def register(e: Rex) -> None:
        windowed = (*e.operands, *e.partition, *(o[0] for o in e.order)) if isinstance(e, Over) else e.children
        for child in windowed:
            register(child)
        if not member(e, out):
            out.append(e)

    for e in exprs:
        register(e)
    return out


def _level_zero(rel: Project, window_fields: Collection[int]) -> list[Rex]:
    """What is computed below the window: the fields not ``window_fields`` that are used above or by it, then other
    expressions, each after its own operands; the window's order comes before its partition. Constants are there if
    the window is ordered by them."""
    orders: list[Rex] = []
    program: list[Rex] = []
    used_exprs: list[Rex] = []

    def register(e: Rex) -> None:
        if isinstance(e, Over):
            orders.extend(o[0] for o in e.order)
            for operand in (*e.operands, *(o[0] for o in e.order), *e.partition):
                register(operand)
            return
        for child in e.children:
            register(child)
        if not member(e, program):
            program.append(e)

    def use(e: Rex) -> None:
        if not any(isinstance(p, Over) for p in walk(e)):
            used_exprs.append(e)
            return
        for child in e.children:
            use(child)

    for e in rel.exprs:
        register(e)
        use(e)
    level_exprs = [e for e in program if member(e, used_exprs) and (not isinstance(e, Literal) or member(e, orders))]
    refs = sorted(
        (e for e in level_exprs if isinstance(e, InputRef) and e.index not in window_fields), key=lambda e: e.index
    )
    return [*refs, *(e for e in level_exprs if not isinstance(e, InputRef) or e.index in window_fields)]


# Window functions that are no top-N query: aggregates over frames.
#
# Source: Flink's ``StreamPhysicalOverAggregateRule``, and what ``StreamExecOverAggregate`` refuses when a plan is run.


def window_to_over_aggregate(rel: Rel) -> Rel | None:
    """A number that no condition bounds is computed for every row."""
    if not isinstance(rel, Window):
        return None
    call = AggCall(rel.function, (), rel.type, rel.name, internal_name=f"${rel.function}$1")
    frame = SO_FAR if rel.function == "ROW_NUMBER" else DEFAULT
    return OverAggregate(rel.input, rel.partition, rel.order, frame, (call,), (), rel.place, rel.hint)


def check_over_aggregate(rel: Rel) -> Rel | None:
    """Raises SqlError SQL164, for a window that no stream can have."""
    if not isinstance(rel, OverAggregate):
        return None
    if len(rel.order) != 1:
        raise _refusal("is not ordered by one field", rel, "ORDER BY one column")
    _, ascending, _ = rel.order[0]
    if not ascending:
        raise _refusal("is ordered downwards", rel, "ORDER BY one column, ascending")
    if rel.frame.upper.kind != "CURRENT_ROW" or rel.frame.lower.kind == "FOLLOWING":
        raise _refusal("has rows after the current one", rel, "a frame that ends with CURRENT ROW")
    if rel.frame.lower.kind == "CURRENT_ROW":
        raise _refusal("begins with the current row", rel, "0 PRECEDING")
    if is_python(rel):
        if not all(call.is_user_defined for call in rel.calls):
            raise _refusal("has functions of Python and others", rel, "functions of Python only")
        if rel.frame.lower.kind != "PRECEDING":
            raise _refusal(
                "of a function of Python has no bound", rel, "ROWS BETWEEN n PRECEDING AND CURRENT ROW, or RANGE"
            )
    if rel.by_time:
        return None
    if rel.frame.lower.kind == "PRECEDING":
        raise _refusal("has a bound and is not ordered by a time attribute", rel, "ORDER BY a time attribute")
    if any(call.function == "LAG" for call in rel.calls):
        raise _refusal("of LAG is not ordered by a time attribute", rel, "ORDER BY a time attribute")
    return None


def check_window_table(rel: Rel) -> Rel | None:
    """Raises SqlError SQL119, for windows over a field that is no longer a time attribute: a join without bounds in
    time, an aggregate and DISTINCT make plain timestamps of time attributes
    (``StreamPhysicalWindowTableFunctionRule``)."""
    if not isinstance(rel, WindowTable) or rel.position.time_type.kind is not None:
        return None
    name, time_type = rel.names[rel.time], rel.input.fields[rel.time][1]
    raise SqlError(
        "SQL119",
        problem=f"{rel.window.kind} needs a time attribute, and '{name}' is a plain {time_type.summary()} here",
        place=rel.place,
        expected="a time attribute that no operator below has made a plain timestamp",
        hint="a join without bounds in time, GROUP BY, DISTINCT and OVER do so: use the window below them",
    )


def check_match(rel: Rel) -> Rel | None:
    """Raises SqlError SQL181, for MATCH_RECOGNIZE over a field that is no longer a time attribute
    (``StreamExecMatch``)."""
    if not isinstance(rel, Match):
        return None
    name, order_type = rel.input.fields[rel.order[0][0]]
    if order_type.kind is not None:
        return None
    raise SqlError(
        "SQL181",
        problem=f"'{name}', which its ORDER BY begins with, is a plain {order_type.summary()} here",
        place=rel.place,
        hint="a join without bounds in time, GROUP BY and DISTINCT make plain timestamps of time attributes: "
        "match the rows below them",
    )


def _refusal(why: str, rel: OverAggregate, expected: str) -> SqlError:
    return SqlError("SQL164", why=why, place=rel.place, expected=expected)


# Aggregates whose groups are windows become aggregates of windows, and take in the window table function below.
#
# Source: Flink's ``StreamPhysicalWindowAggregateRule``, ``PullUpWindowTableFunctionIntoWindowAggregateRule``,
# ``ExpandWindowTableFunctionTransposeRule`` and ``WindowUtil``.


def window_aggregate(rel: Rel) -> Rel | None:
    """An aggregate grouped by start and end of a window.

    Raises:
        SqlError: SQL150, for functions that cannot be computed in windows; SQL163, for hopping windows whose slide does
            not divide them.
    """
    if not isinstance(rel, Aggregate):
        return None
    properties_below = window_properties(rel.input)
    if properties_below is None or not properties_below.grouped_by(rel.group):
        return None
    if is_python(rel):  # what Flink has no operator on windows for: a group as any other
        return None
    window = properties_below.window
    if window.kind == "HOP" and window.size % window.step:
        raise SqlError("SQL163", size=window.size, step=window.step, place=rel.place)
    starts = [g for g in rel.group if g in properties_below.starts]
    ends = [g for g in rel.group if g in properties_below.ends]
    times = [g for g in rel.group if g in properties_below.times]
    keys = tuple(g for g in rel.group if g not in properties_below.columns)
    if window.kind == "SESSION" and {*keys} != {*window.keys}:  # a group as any other
        return None
    last: Property = ("window_time", "Rowtime" if properties_below.time_type.kind == "ROWTIME" else "Proctime")
    properties: list[Property] = [("window_start", "WindowStart")] * len(starts)
    properties += [("window_end", "WindowEnd")] * len(ends)
    properties += [last] * len(times)
    position = WindowPosition(window, properties_below.time_type, start=starts[0], end=ends[0])
    new_aggregate = WindowAggregate(rel.input, keys, rel.calls, position, tuple(properties), rel.place, rel.hint)
    pulled = _pulled_up(new_aggregate, properties_below)
    fields = pulled.fields
    first = len(keys) + len(rel.calls)
    field_map = {g: i for i, g in enumerate(keys)} | {g: first + i for i, g in enumerate([*starts, *ends, *times])}
    order = [*(field_map[g] for g in rel.group), *range(len(keys), first)]
    refs = tuple(InputRef(fields[i][1], i) for i in order)
    return Calc(pulled, refs, tuple(field_names(rel)), input_names=tuple(field_names(new_aggregate)))


def _pulled_up(rel: WindowAggregate, properties_below: WindowProperties) -> WindowAggregate:
    """``rel`` with the window table function below it taken in, if only its own fields are made of windows. Flink's
    rule asks for a calc between them."""
    if isinstance(rel.input, WindowTable):
        return rel
    used_fields = {a for c in rel.calls for a in (*c.args, *([c.filter] if c.filter >= 0 else ()))}
    if used_fields & properties_below.columns:
        return rel
    below = _without_window(rel.input)
    if below is None:
        return rel
    new_input, field_map = below.rel, below.places
    if isinstance(new_input, Calc) and is_trivial(new_input):
        new_input = new_input.input
    window = rel.position.window
    if window.kind == "SESSION":
        if below.keys is None:
            return rel
        window = replace(window, keys=below.keys)
    calls = tuple(
        replace(c, args=tuple(field_map[a] for a in c.args), filter=field_map[c.filter] if c.filter >= 0 else -1)
        for c in rel.calls
    )
    position = WindowPosition(window, rel.position.time_type, time=below.time)
    return replace(rel, input=new_input, group=tuple(field_map[g] for g in rel.group), calls=calls, position=position)


@dataclass(frozen=True)
class _RelWithoutWindow:
    """A relation without its window table function.

    Attributes:
        rel: with the other fields, and the time attribute, which is added where it is not one of them.
        time: the time attribute.
        places: field of the relation before -> field now.
        keys: the keys of its sessions; None if one is lost.
    """

    rel: Rel
    time: int
    places: dict[int, int]
    keys: tuple[int, ...] | None


def _over(rel: Rel, rex: Rex) -> Rex:
    """``rex`` over the fields of ``rel``, without casts to the types that these have."""
    new_rex = typed_by(rex, rel)
    return rewrite(new_rex, lambda e: e.children[0] if kind(e) == "CAST" and e.children[0].type == e.type else None)


def _without_window(rel: Rel) -> _RelWithoutWindow | None:
    """What ``rel`` is without its window table function. None where something is computed of windows."""
    if isinstance(rel, WindowTable):
        return _RelWithoutWindow(rel.input, rel.time, {i: i for i in range(rel.input.width)}, rel.window.keys)
    if not isinstance(rel, (Calc, Expand)):
        return None
    narrow_input = _without_window(rel.input)
    windows = window_properties(rel.input)
    if narrow_input is None or windows is None:
        return None
    below, time, field_map, keys = narrow_input.rel, narrow_input.time, narrow_input.places, narrow_input.keys
    rows = rel.projects if isinstance(rel, Expand) else (rel.exprs,)
    conditions: list[Rex] = [e for row in rows for e in row if not isinstance(e, InputRef)]
    if isinstance(rel, Calc) and rel.condition is not None:
        conditions.append(rel.condition)
    if any(i in windows.columns for e in conditions for i in input_refs(e)):
        return None
    kept_fields = [p for p in range(rel.width) if not all(_is_one_of(row[p], windows.columns) for row in rows)]
    if any(_is_one_of(row[p], windows.columns) for p in kept_fields for row in rows):
        return None
    places = {p: i for i, p in enumerate(kept_fields)}
    new = [[_over(below, remap(row[p], field_map)) for p in kept_fields] for row in rows]
    at = next((i for i in range(len(kept_fields)) if all(_is_one_of(row[i], {time}) for row in new)), None)
    names = [field_names(rel)[p] for p in kept_fields]
    if keys is not None:
        places_of = [
            next((i for i in range(len(kept_fields)) if all(_is_one_of(r[i], {k}) for r in new)), None) for k in keys
        ]
        keys = None if None in places_of else tuple(p for p in places_of if p is not None)
    if at is None:
        at = len(kept_fields)
        attribute: Rex = InputRef(below.fields[time][1], time)
        new = [[*row, attribute] for row in new]
        names.append(fresh_name(field_names(below)[time], names))
    if isinstance(rel, Calc):
        condition = None if rel.condition is None else remap(rel.condition, field_map)
        calc = replace(rel, input=below, exprs=tuple(new[0]), names=tuple(names), condition=condition)
        return _RelWithoutWindow(calc, at, places, keys)
    types = [rel.types[p] for p in kept_fields]
    types += [below.fields[time][1]] * (len(names) - len(types))
    expanded = replace(
        rel,
        input=below,
        projects=tuple(map(tuple, new)),
        names=tuple(names),
        types=tuple(types),
        id_field=places[rel.id_field],
    )
    return _RelWithoutWindow(expanded, at, places, keys)


def _is_one_of(rex: Rex, fields: Sequence[int] | frozenset[int] | set[int]) -> bool:
    return isinstance(rex, InputRef) and rex.index in fields


def rank_in_window(rel: Rel) -> Rel | None:
    """The first rows of each window (``StreamPhysicalWindowRankRule``); where it is the first or the last one by a
    rowtime attribute, a deduplication (``StreamPhysicalWindowDeduplicateRule``).

    Raises:
        SqlError: SQL150, for a number of rows that is not constant.
    """
    window_below = window_properties(rel.input) if isinstance(rel, Rank) else None
    if not isinstance(rel, Rank) or window_below is None or not window_below.grouped_by(rel.partition):
        return None
    keys = tuple(p for p in rel.partition if p not in window_below.columns)
    position = WindowPosition(
        window_below.window,
        window_below.time_type,
        start=next(p for p in rel.partition if p in window_below.starts),
        end=next(p for p in rel.partition if p in window_below.ends),
    )
    order = rel.order[0][0]
    if rel.is_deduplication and len(rel.order) == 1 and rel.fields[order][1].kind == "ROWTIME":
        return WindowDeduplicate(rel.input, keys, order, rel.keeps_last, position, rel.place, rel.hint)
    if rel.end_index is not None:
        raise not_supported("a top-N query of each window whose N is a field", rel.place, "a constant")
    return WindowRank(rel.input, keys, rel.order, rel.start, rel.end, rel.rank_name, position, rel.place, rel.hint)


def keyed_as_flink(rel: Rel) -> Rel | None:
    """The first rows of each window with the keys that Flink derives (``FlinkRelMdUniqueKeys.getRankUniqueKeys``)."""
    return replace(rel, keyed_as_flink=True) if isinstance(rel, WindowRank) and not rel.keyed_as_flink else None
