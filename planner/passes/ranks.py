"""Top-N queries and sorts."""

from __future__ import annotations

from dataclasses import replace

from stateplan.common.errors import Place, SqlError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import BIGINT
from stateplan.connectors.registry import find_connector
from stateplan.functions.rex import InputRef, Literal, Rex, input_refs, remap
from stateplan.functions.typerules import family
from stateplan.planner.algebra.relations import (
    Calc,
    Filter,
    FullSort,
    Limit,
    LimitAbility,
    Order,
    Project,
    Rank,
    Rel,
    Scan,
    Sort,
    SortLimit,
    TemporalSort,
    Window,
    field_names,
    is_identity,
    refs_to,
    transform_up,
)
from stateplan.planner.expressions.fold import evaluate
from stateplan.planner.expressions.normal import to_cnf
from stateplan.planner.expressions.ops import (
    COMPARISONS,
    MIRRORED,
    and_,
    conjunctions,
    kind,
    unwrap_cast,
    with_operands,
)
from stateplan.planner.expressions.search import expand_search
from stateplan.planner.expressions.simplify import lossless_cast
from stateplan.planner.metadata.unique_keys import upsert_keys
from stateplan.planner.passes.build import empty

# ROW_NUMBER with a filter on it: the first rows of each partition.
#
# Source: Flink's ``FlinkLogicalRankRule`` with ``RankUtil.extractRankRange``, ``ConstantRankNumberColumnRemoveRule``,
# ``RedundantRankNumberColumnRemoveRule`` and ``CalcRankTransposeRule``.


@dataclass(frozen=True)
class _Range:
    """Ranks from ``start`` to ``end``, or up to the field ``end_index``; without an end when both are None."""

    start: int = 1
    end: int | None = None
    end_index: int | None = None


def rank_of_window(rel: Rel) -> Rel | None:
    """A calc whose condition bounds the row number of the window below becomes a rank with a calc on it.

    Raises:
        SqlError: SQL161, for a range that has no end or no rows; SQL162, for RANK and DENSE_RANK.
    """
    if not isinstance(rel, Calc) or not isinstance(rel.input, Window) or rel.condition is None:
        return None
    window = rel.input
    number = window.width - 1
    range_and_rest = _rank_range(rel.condition, number)
    if range_and_rest is None:
        return None
    rank_range, rest = range_and_rest
    if rank_range.end is None and rank_range.end_index is None:
        raise _bad_range("the rows have a first number and no last one", window.place)
    if any(number in input_refs(c) for c in rest):
        return None
    end = 0 if rank_range.end is None else rank_range.end
    if rank_range.end_index is None:
        if end <= 0:
            raise _bad_range(f"the last number is {end}", window.place)
        if rank_range.start > end:
            raise _bad_range(f"the first number is {rank_range.start} and the last one is {end}", window.place)
    if window.function != "ROW_NUMBER":
        raise SqlError(
            "SQL162",
            name=f"a top-N query by {window.function}",
            place=window.place,
            expected="ROW_NUMBER(), which gives each row a number of its own",
        )
    name = None
    if any(number in input_refs(e) for e in rel.exprs):
        plain = [n for n, e in zip(rel.names, rel.exprs, strict=True) if isinstance(e, InputRef) and e.index == number]
        name = plain[-1] if plain else window.name
    rank = Rank(
        window.input, window.partition, window.order, rank_range.start, end, name, window.place, rank_range.end_index
    )
    rank = replace(rank, hint=window.hint)
    condition = and_(rest) if rest else None
    if condition is None and is_identity(rel.exprs, rank):
        return rank
    return replace(rel, input=rank, condition=condition)


def _bad_range(why: str, place: Place | None) -> SqlError:
    return SqlError("SQL161", why=why, place=place)


def _rank_range(condition: Rex, number: int) -> tuple[_Range, list[Rex]] | None:
    """The range that ``condition`` gives to the field ``number``, and its other terms; None for none."""
    bounds: list[tuple[str, Rex]] = []
    rest: list[Rex] = []
    for c in conjunctions(to_cnf(_expanded(condition))):
        bound = _bound(c, number)
        if bound is None:
            rest.append(c)
        else:
            bounds.append(bound)
    limits = [_limit(op, value) for op, value in bounds]
    match sorted((b for b in limits if b is not None), key=lambda b: b[0]):
        case [("field", index)] if len(limits) == 1:
            return _Range(end_index=index), rest
        case [("is", value)] if len(limits) == 1:
            return _Range(value, value), rest
        case [("low", low)] if len(limits) == 1:
            return _Range(low), rest
        case [("up", high)] if len(limits) == 1:
            return _Range(end=high), rest
        case [("low", low), ("up", high)] if len(limits) == 2:
            return _Range(low, high), rest
    return None


def _expanded(rex: Rex) -> Rex:
    """``rex`` with comparisons in place of the intervals that they were taken together to."""
    inner = expand_search(rex)
    return with_operands(inner, [_expanded(c) for c in inner.children]) if inner.children else inner


def _bound(term: Rex, number: int) -> tuple[str, Rex] | None:
    """The operator and the other side, where ``term`` compares the field ``number`` with something else."""
    op = kind(term)
    if op not in COMPARISONS or op == "<>":
        return None
    left, right = term.children
    if not _is(left, number):
        left, right, op = right, left, MIRRORED[op]
    return (op, right) if _is(left, number) and number not in input_refs(right) else None


def _is(rex: Rex, number: int) -> bool:
    return isinstance(rex, InputRef) and rex.index == number


def _limit(op: str, value: Rex) -> tuple[str, int] | None:
    """A bound by a constant, or by a field; a comparison with a field is taken for ``<=``, as Flink does."""
    if isinstance(value, InputRef):
        return None if op in (">", ">=") else ("field", value.index)
    constant = None if list(input_refs(value)) else evaluate(value, "UTC")
    if constant is None or constant.value is None or not constant.type.is_numeric:
        return None
    n = _whole_number(constant)
    if n is None:
        return None
    if op == "=":
        return "is", n
    if op in ("<", "<="):
        return "up", n - (op == "<")
    return "low", n + (op == ">")


def _whole_number(constant: Literal) -> int | None:
    """The value of a constant; of a DECIMAL its digits without the point, as Flink takes it."""
    if isinstance(constant.value, int):
        return constant.value
    if constant.type.root == "DECIMAL":
        from decimal import Decimal

        return int(Decimal(str(constant.value)).scaleb(constant.type.scale or 0))
    return None


def remove_constant_rank_number(rel: Rel) -> Rel | None:
    """A rank number that is always the same is a constant above the rank."""
    if not isinstance(rel, Rank) or rel.rank_name is None or rel.end_index is not None or rel.start != rel.end:
        return None
    without = replace(rel, rank_name=None)
    constant = Literal(BIGINT.not_null(), rel.start)
    return Calc(without, (*refs_to(without), constant), tuple(field_names(rel)))


def remove_unused_rank_number(rel: Rel) -> Rel | None:
    """A rank number that the calc above does not read is not emitted."""
    if not isinstance(rel, Calc) or not isinstance(rel.input, Rank) or rel.input.rank_name is None:
        return None
    number = rel.input.width - 1
    if any(number in input_refs(e) for e in _expressions(rel)):
        return None
    rank = replace(rel.input, rank_name=None)
    return rank if rel.condition is None and is_identity(rel.exprs, rank) else replace(rel, input=rank)


def _expressions(calc: Calc) -> list[Rex]:
    return [*calc.exprs, *([calc.condition] if calc.condition is not None else [])]


def transpose_calc_and_rank(rel: Rel) -> Rel | None:
    """Drops the fields below a rank that neither the rank nor the calc above it needs. Keys of the input are kept."""
    if not isinstance(rel, Calc) or not isinstance(rel.input, Rank):
        return None
    rank = rel.input
    width = rank.input.width
    used_fields = {i for e in _expressions(rel) for i in input_refs(e) if i < width}
    used_fields |= {
        *rank.partition,
        *(i for i, _, _ in rank.order),
        *(i for key in upsert_keys(rank.input) for i in key),
    }
    if rank.end_index is not None:
        used_fields.add(rank.end_index)
    if len(used_fields) == width:
        return None
    kept_fields = sorted(used_fields)
    field_map = {f: i for i, f in enumerate(kept_fields)}
    names = field_names(rank.input)
    below = Calc(rank.input, tuple(refs_to(rank.input, kept_fields)), tuple(names[i] for i in kept_fields))
    narrow_rank = replace(
        rank,
        input=below,
        partition=tuple(field_map[p] for p in rank.partition),
        order=tuple((field_map[i], a, n) for i, a, n in rank.order),
        end_index=None if rank.end_index is None else field_map[rank.end_index],
    )
    field_map[width] = len(kept_fields)
    condition = None if rel.condition is None else remap(rel.condition, field_map)
    exprs = tuple(remap(e, field_map) for e in rel.exprs)
    if condition is None and is_identity(exprs, narrow_rank):
        return narrow_rank
    return replace(rel, input=narrow_rank, exprs=exprs, condition=condition)


# ORDER BY and LIMIT: where they stand among projections, what the sources take of them, and which operators they are.
#
# Source: Calcite's ``SortProjectTransposeRule`` and ``PruneEmptyRules.SORT_FETCH_ZERO_INSTANCE``, Flink's
# ``PushLimitIntoTableSourceScanRule``, ``StreamPhysicalLimitRule``, ``StreamPhysicalSortLimitRule``,
# ``StreamPhysicalTemporalSortRule`` and ``StreamPhysicalSortRule``.


def remove_empty_limit(rel: Rel) -> Rel | None:
    """LIMIT 0 gives nothing."""
    return empty(rel) if isinstance(rel, Sort) and rel.fetch == 0 else None


def transpose_sort_and_project(rel: Rel) -> Rel | None:
    """Computes after a sort what it does not sort by: few rows are left then.

    Flink chooses between both places by cost. A projection of fields only that is joined with a filter below costs
    nothing there, and stays.
    """
    if not isinstance(rel, Sort) or not isinstance(rel.input, Project):
        return None
    project = rel.input
    if rel.fetch is None and all(isinstance(e, InputRef) for e in project.exprs):
        return None
    if isinstance(project.input, Filter) and all(_is_cheap(e) for e in project.exprs):
        return None
    order = _below(rel.order, project)
    return None if order is None else replace(project, input=replace(rel, input=project.input, order=order))


def _is_cheap(rex: Rex) -> bool:
    return isinstance(unwrap_cast(rex), (InputRef, Literal))


def _below(order: Order, project: Project) -> Order | None:
    """``order`` over the fields below ``project``; None if it sorts by something else than those."""
    out = []
    for i, ascending, last in order:
        source = project.exprs[i]
        field = source.children[0] if kind(source) == "CAST" and _keeps_order(source) else source
        if not isinstance(field, InputRef):
            return None
        out.append((field.index, ascending, last))
    return tuple(out)


def _keeps_order(cast: Rex) -> bool:
    """Whether values are in the same order before and after a CAST.

    Source: Calcite's ``SqlCastFunction``. It also trusts casts that can change the order, which are left out here:
    texts to times and BOOLEAN, numbers that may overflow their new type, and instants to local times, which may repeat.
    """
    source, target = cast.children[0].type, cast.type
    before, after = family(source), family(target)
    if before == after == "NUMERIC":
        is_cut_off = source.root in _APPROXIMATE and target.root in ("INTEGER", "BIGINT")  # too large ones: the largest
        return lossless_cast(cast) or target.root in _APPROXIMATE or is_cut_off
    if source.root != target.root and _INSTANT in (source.root, target.root):
        return False
    return before == after or (before, after) in _IN_ORDER


_APPROXIMATE = ("FLOAT", "DOUBLE")
_INSTANT = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"


_IN_ORDER = {
    ("BOOLEAN", "CHARACTER"),
    ("DATE", "CHARACTER"),
    ("TIME", "CHARACTER"),
    ("TIMESTAMP", "CHARACTER"),
    ("DATE", "TIMESTAMP"),
    ("TIMESTAMP", "DATE"),
}


def push_limit_into_scan(rel: Rel) -> Rel | None:
    """Makes a source stop after the rows that a LIMIT without an order needs."""
    if not isinstance(rel, Sort) or rel.order or rel.fetch is None or not isinstance(rel.input, Scan):
        return None
    scan = rel.input
    if "LimitPushDown" not in find_connector(scan.table.options).abilities:
        return None
    if scan.normalized is not None or any(isinstance(a, LimitAbility) for a in scan.abilities):
        return None
    return replace(rel, input=replace(scan, abilities=(*scan.abilities, LimitAbility(rel.offset + rel.fetch))))


def full_sorts(rel: Rel) -> Rel:
    """``rel`` with sorts that wait for the end of their input; a hidden option of Flink allows them."""

    def change(e: Rel) -> Rel | None:
        if type(e) is not Sort or e.fetch is not None or e.offset or _is_temporal(e):
            return None
        return FullSort(e.input, e.order, place=e.place)

    return transform_up(rel, change)


def physical_sort(rel: Rel) -> Rel | None:
    """The operator of a sort.

    Raises:
        SqlError: SQL160, for one that could never emit a row of a stream.
    """
    if type(rel) is not Sort:
        return None
    if rel.fetch is None and not rel.offset and _is_temporal(rel):
        return TemporalSort(rel.input, rel.order, place=rel.place, hint=rel.hint)
    if rel.fetch is None:
        if rel.offset:
            raise SqlError("SQL160", place=rel.place)
        raise SqlError("SQL160.order_without_limit", place=rel.place)
    parts = (rel.input, rel.order, rel.offset, rel.fetch, rel.place)
    return SortLimit(*parts, hint=rel.hint) if rel.order else Limit(*parts, hint=rel.hint)


def _is_temporal(rel: Sort) -> bool:
    first, ascending, _ = rel.order[0]
    return ascending and rel.input.fields[first][1].kind is not None
