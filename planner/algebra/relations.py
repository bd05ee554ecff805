"""The relational algebra between SQL and the exec graph: frozen nodes with typed fields.

What the binder makes is Flink's logical plan, what the passes leave its physical plan. Fields are known by position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import accumulate
from typing import Literal, TypeAlias

from stateplan.common.errors import Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import BIGINT, BOOLEAN, LogicalType, row_type
from stateplan.execnodes.specs import ConflictBehavior, JoinType, OuterJoinType
from stateplan.functions.rex import InputRef, Rex
from stateplan.functions.rex import Literal as Constant
from stateplan.planner.algebra.base import (
    Ability,
    AggCall,
    Field,
    FilterAbility,
    InputHint,
    LimitAbility,
    Pair,
    PartitionAbility,
    ProjectAbility,
    QueryHints,
    RankStrategy,
    Rel,
    Several,
    Single,
    WatermarkAbility,
    fresh_name,
)
from stateplan.planner.algebra.groupings import Grouping
from stateplan.planner.catalog.objects import CatalogTable

__all__ = [
    "Ability",
    "AggCall",
    "Field",
    "FilterAbility",
    "LimitAbility",
    "Pair",
    "PartitionAbility",
    "ProjectAbility",
    "RankStrategy",
    "Rel",
    "Several",
    "Single",
    "WatermarkAbility",
    "fresh_name",
]

Order: TypeAlias = tuple[tuple[int, bool, bool], ...]
"""Of each field of an order: its position, whether it is ascending, and whether NULLs come last."""


@dataclass(frozen=True)
class Scan(Rel):
    """Reading a table: its physical columns, then its metadata columns, less what is not read.

    ``names`` are the columns' own names (not the metadata keys). ``hints`` are the options of an OPTIONS hint.
    ``normalized`` says why its changes have to be put in order by primary key: they are upserts, or may come twice.
    ``alias`` is its name in a join inside an expression's query, which Flink shows where the statement has hints;
    ``alias_in_text`` that of any table of such a statement, which its logical plan shows.
    """

    table: CatalogTable
    names: tuple[str, ...]
    types: tuple[LogicalType, ...]
    abilities: tuple[Ability, ...] = ()
    hints: tuple[tuple[str, str], ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)
    normalized: Literal["upserts", "duplicates"] | None = None
    alias: str | None = None
    alias_in_text: str | None = field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(zip(self.names, self.types, strict=True))

    @property
    def key(self) -> tuple[int, ...] | None:
        """The fields of the table's primary key, in its order; None without one, or when not all of it is read."""
        names = self.table.schema.primary_key
        if not names or not all(n in self.names for n in names):
            return None
        return tuple(self.names.index(n) for n in names)

    @property
    def projection(self) -> ProjectAbility | None:
        """The projection pushed into it last, or its metadata."""
        abilities = [a for a in self.abilities if isinstance(a, ProjectAbility)]
        return abilities[-1] if abilities else None

    @property
    def is_filtered(self) -> bool:
        return any(isinstance(a, FilterAbility) for a in self.abilities)


@dataclass(frozen=True)
class Values(Rel):
    """Constant rows; none of them is the empty relation."""

    row: tuple[Field, ...]
    tuples: tuple[tuple[Constant, ...], ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.row


@dataclass(frozen=True)
class Filter(Single):
    """Rows for which ``condition`` is TRUE."""

    condition: Rex


@dataclass(frozen=True)
class Project(Single):
    """One expression per output field.

    ``written_names`` are the names of the fields in the SELECT that this is, where two have the same. ``grouping`` is
    the GROUP BY that it and what is below stand for, where that is not a plain aggregate.
    """

    exprs: tuple[Rex, ...]
    names: tuple[str, ...]
    written_names: tuple[str, ...] | None = field(default=None, compare=False)
    grouping: Grouping | None = field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple((n, e.type) for n, e in zip(self.names, self.exprs, strict=True))


@dataclass(frozen=True)
class Calc(Single):
    """Projection with an optional condition over the input.

    ``python`` says that it calls Python functions. ``input_names`` are what its text calls the fields of the input,
    where they had other names when Flink made the calc (a ``RexProgram`` keeps them).
    """

    exprs: tuple[Rex, ...]
    names: tuple[str, ...]
    condition: Rex | None = None
    python: bool = False
    input_names: tuple[str, ...] | None = field(default=None, compare=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple((n, e.type) for n, e in zip(self.names, self.exprs, strict=True))


class JoinRelation(Pair):
    """A relational expression whose rows are those of two inputs, put together by ``join_type``."""

    join_type: JoinType

    @property
    def fields(self) -> tuple[Field, ...]:
        right = () if self.join_type in ("SEMI", "ANTI") else self.right.fields
        left = self.left.fields
        if self.join_type in ("RIGHT", "FULL"):
            left = tuple((n, t.as_nullable()) for n, t in left)
        if self.join_type in ("LEFT", "FULL"):
            right = tuple((n, t.as_nullable()) for n, t in right)
        names = unique_names([n for n, _ in (*left, *right)])
        return tuple((n, t) for n, (_, t) in zip(names, (*left, *right), strict=True))


@dataclass(frozen=True)
class Join(JoinRelation):
    """A join; ``condition`` is over left ++ right.

    ``ttl_texts`` are the lifetimes of the state as the hint gives them; ``multi`` asks for a :class:`MultiJoin`;
    ``mini_batch`` says that it works by mini-batches, ``takes_back`` that it asks for the old rows of updates where a
    row that has lost its match would stay.
    """

    condition: Rex
    join_type: JoinType = "INNER"
    left_hint: InputHint | None = None
    right_hint: InputHint | None = None
    names: tuple[str, ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)
    ttl_texts: tuple[str | None, str | None] = (None, None)
    mini_batch: bool = False
    multi: bool = False
    takes_back: bool = False
    query_hints: QueryHints | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class MultiJoin(Several):
    """Joins of ``sources`` from left to right. Per source: ``join_types`` (INNER or LEFT; unused for the first),
    ``conditions`` over all fields up to it, ``hints`` and ``ttl_texts``, the TTLs as the hint has them. ``takes_back``:
    rows are kept by keys whose changes are in order; without it by unique keys, as in Flink."""

    join_types: tuple[OuterJoinType, ...]
    conditions: tuple[Rex, ...]
    names: tuple[str, ...]
    hints: tuple[InputHint | None, ...]
    ttl_texts: tuple[str | None, ...]
    place: Place | None = field(default=None, compare=False, repr=False)
    takes_back: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        types = [
            t.as_nullable() if n and kind == "LEFT" else t
            for n, (kind, source) in enumerate(zip(self.join_types, self.sources, strict=True))
            for _, t in source.fields
        ]
        return tuple(zip(self.names, types, strict=True))

    @property
    def offsets(self) -> list[int]:
        """Where the fields of each source begin, then the number of all."""
        return [*accumulate((source.width for source in self.sources), initial=0)]


@dataclass(frozen=True)
class Correlate(Pair):
    """Each row of ``left`` with the rows of ``right``, which refers to that row as the subquery ``number``; LEFT pads a
    row that has none. It becomes a join before anything else looks at it. ``adjusted``: a count of no rows is 0 above.
    """

    number: int
    join_type: JoinType = "LEFT"
    adjusted: bool = False
    hints: tuple[InputHint | None, InputHint | None] = (None, None)
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        return Join(self.left, self.right, Constant(BOOLEAN.not_null(), True), self.join_type).fields


@dataclass(frozen=True)
class Aggregate(Single):
    """Groups by the fields ``group``; output is the group fields, then the calls. ``level`` says which half of a split
    aggregate it is."""

    group: tuple[int, ...]
    calls: tuple[AggCall, ...]
    hint: InputHint | None = None
    place: Place | None = field(default=None, compare=False, repr=False)
    level: Literal["", "PARTIAL", "FINAL"] = ""
    query_hints: QueryHints | None = field(default=None, compare=False, repr=False)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        names: list[str] = []
        base = [self.input.fields[g] for g in self.group]
        for name, _ in base:
            names.append(fresh_name(name, names))
        for i, c in enumerate(self.calls):
            name = c.name if c.name is not None else f"$f{len(self.group) + i}"
            names.append(fresh_name(name, names))
        types = [t for _, t in base] + [c.type for c in self.calls]
        return tuple(zip(names, types, strict=True))


@dataclass(frozen=True)
class Union(Several):
    """All rows of the inputs; without duplicates unless ``all``. ``row`` are its fields where they are not those that
    hold the rows of all inputs; ``last_place`` is where the last input is in the query."""

    all: bool = True
    row: tuple[Field, ...] | None = None
    last_place: Place | None = field(default=None, compare=False, repr=False)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        from stateplan.functions.typerules import least_restrictive

        if self.row is not None:
            return self.row
        out = []
        for column in zip(*(s.fields for s in self.sources), strict=True):
            common_type = least_restrictive([t for _, t in column])
            out.append((column[0][0], common_type or column[0][1]))
        return tuple(out)


@dataclass(frozen=True)
class SetOperation(Pair):
    """The rows of both inputs (INTERSECT), or of the left one that the right one does not have (EXCEPT): each once, or
    with ``all`` as often as it is in both, or more often in the left one."""

    operator: Literal["INTERSECT", "EXCEPT"]
    all: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        from stateplan.functions.typerules import least_restrictive

        out = []
        for (name, a), (_, b) in zip(self.left.fields, self.right.fields, strict=True):
            out.append((name, least_restrictive([a, b]) or a))
        return tuple(out)


@dataclass(frozen=True)
class Window(Single):
    """Rows with one window function's value appended."""

    function: str
    partition: tuple[int, ...]
    order: Order
    type: LogicalType
    name: str
    place: Place | None = field(default=None, compare=False, repr=False)
    hint: InputHint | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.input.fields, (self.name, self.type))


def with_rank(below: tuple[Field, ...], name: str | None) -> tuple[Field, ...]:
    """Fields with that of a rank number, under a name that is free; as they are where ``name`` is None."""
    if name is None:
        return below
    return (*below, (fresh_name(name, [n for n, _ in below]), BIGINT.not_null()))


@dataclass(frozen=True)
class Rank(Single):
    """The first rows of each partition: ``start`` to ``end``, from 1; or up to the value of the field ``end_index``.

    ``rank_name`` is the name that the field of the rank number asks for, None if it is not emitted. ``strategy`` is
    known once the changes of the input are. ``takes_back``: a single row that is replaced is retracted. Without it, a
    row that is first by another order than time is taken for one that stays, as in Flink.
    """

    partition: tuple[int, ...]
    order: Order
    start: int
    end: int
    rank_name: str | None = None
    place: Place | None = field(default=None, compare=False, repr=False)
    end_index: int | None = None
    strategy: RankStrategy | None = None
    takes_back: bool = False
    hint: InputHint | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        return with_rank(self.input.fields, self.rank_name)

    @property
    def is_deduplication(self) -> bool:
        """Whether it keeps one row of each partition, without its number (``RankUtil.isDeduplication``)."""
        return self.end_index is None and self.start == self.end == 1 and self.rank_name is None

    @property
    def is_by_time(self) -> bool:
        """Whether a time attribute alone is its order."""
        return len(self.order) == 1 and self.input.fields[self.order[0][0]][1].kind is not None

    @property
    def is_corrected(self) -> bool:
        """Whether it retracts first rows that Flink leaves."""
        return self.is_deduplication and self.takes_back and not self.keeps_last and not self.is_by_time

    @property
    def keeps_last(self) -> bool:
        """Whether a later row replaces the one that is kept (``RankUtil.keepLastDeduplicateRow``)."""
        return len(self.order) == 1 and not self.order[0][1]


@dataclass(frozen=True)
class Sort(Single):
    """Rows in an order, less the first ``offset``, and at most ``fetch`` of them. Without an order, any rows."""

    order: Order
    offset: int = 0
    fetch: int | None = None
    place: Place | None = field(default=None, compare=False, repr=False)
    hint: InputHint | None = None


@dataclass(frozen=True)
class Limit(Sort):
    """Rows that come first, as they come."""


@dataclass(frozen=True)
class SortLimit(Sort):
    """The first rows of an order, as far as they are known."""

    strategy: RankStrategy | None = None


@dataclass(frozen=True)
class TemporalSort(Sort):
    """Rows by a time attribute."""


@dataclass(frozen=True)
class FullSort(Sort):
    """All rows in order, when the input has ended."""


@dataclass(frozen=True)
class Exchange(Single):
    """Rows spread by hash of ``keys``; all to one task when there are none."""

    keys: tuple[int, ...]


@dataclass(frozen=True)
class Expand(Single):
    """Every row once per projection of ``projects``; ``id_field`` is the field with the number of the projection."""

    projects: tuple[tuple[Rex, ...], ...]
    names: tuple[str, ...]
    types: tuple[LogicalType, ...]
    id_field: int

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(zip(self.names, self.types, strict=True))


@dataclass(frozen=True)
class MiniBatchAssigner(Single):
    """Marks the borders of mini-batches, ``interval`` ms long; by event time where an operator behind waits for it."""

    interval: int
    rowtime: bool = False


@dataclass(frozen=True)
class DropUpdateBefore(Single):
    """Updates without their old rows."""


@dataclass(frozen=True)
class ChangelogFunction(Single):
    """``FROM_CHANGELOG`` or ``TO_CHANGELOG``.

    ``op`` is the column of operation codes that the call names, ``mapping`` its map of codes; None for the defaults.
    """

    name: str
    op: str | None
    mapping: Rex | None
    row: tuple[Field, ...]
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.row


@dataclass(frozen=True)
class ChangelogNormalize(Single):
    """Upserts, or changes that may come twice, as a changelog by ``key``, of the rows that meet ``condition``.

    ``is_required`` says that nothing but this makes the changes right, even where whole old rows are not requested.
    ``takes_back``: rows that a table below deletes are retracted from MIN, MAX and top-N, too.
    """

    key: tuple[int, ...]
    condition: Rex | None = None
    is_required: bool = False
    takes_back: bool = False


@dataclass(frozen=True)
class Sink(Single):
    """Writing a table. ``targets`` are the positions of the INSERT's column list, None if it has none.

    ``partition`` are the columns of PARTITION (..) with the texts of their values; ``metadata`` are key and type of the
    metadata columns that are written, which are the last fields. ``conflict`` is the word after ON CONFLICT DO.
    ``upsert_key`` is the key of the changes where the input's own metadata does not say it. ``materialize`` says that
    it keeps the rows of each primary key in state.
    """

    table: CatalogTable
    targets: tuple[int, ...] | None = None
    conflict: ConflictBehavior | None = None
    place: Place | None = field(default=None, compare=False, repr=False)
    partition: tuple[tuple[str, str], ...] = ()
    overwrite: bool = False
    metadata: tuple[tuple[str, LogicalType], ...] = ()
    upsert_key: tuple[int, ...] | None = None
    materialize: bool = False


def field_names(rel: Rel) -> list[str]:
    return [n for n, _ in rel.fields]


def rel_type(rel: Rel) -> LogicalType:
    """The row type of the relation."""
    return row_type(list(rel.fields))


def refs_to(rel: Rel, indexes: Iterable[int] | None = None) -> list[Rex]:
    """Input references to the given (or all) fields."""
    fields = rel.fields
    return [InputRef(fields[i][1], i) for i in (range(len(fields)) if indexes is None else indexes)]


def identity(rel: Rel) -> Project:
    """The projection of all fields as they are."""
    return some_fields(rel, range(rel.width))


def some_fields(rel: Rel, indexes: Sequence[int]) -> Project:
    """The projection of the given fields as they are."""
    names = field_names(rel)
    return Project(rel, tuple(refs_to(rel, indexes)), tuple(names[i] for i in indexes))


def is_identity(exprs: Sequence[Rex], rel: Rel) -> bool:
    """Whether ``exprs`` are all fields of ``rel``, in order."""
    return len(exprs) == rel.width and all(isinstance(e, InputRef) and e.index == i for i, e in enumerate(exprs))


def unique_names(names: Sequence[str], *, by_position: bool = False) -> list[str]:
    """``names`` with repeated ones numbered: a, a0, a1 (Calcite's ``SqlValidatorUtil.uniquify``).

    Args:
        by_position: numbers begin at the count of the names before, as in Calcite's ``RelBuilder.project``.
    """
    names_in_use: set[str] = set()
    out: list[str] = []
    originals = list(names)
    for name in originals:
        candidate, n = name, 0
        while candidate in names_in_use:
            candidate = f"{name}{max(n, len(names_in_use)) if by_position else n}"
            n += 1
        names_in_use.add(candidate)
        out.append(candidate)
    return out


def replace_inputs(rel: Rel, inputs: Sequence[Rel]) -> Rel:
    """``rel`` over other inputs; itself when they are the same objects."""
    if len(inputs) == len(rel.inputs) and all(a is b for a, b in zip(inputs, rel.inputs, strict=True)):
        return rel
    if isinstance(rel, Single):
        return replace(rel, input=inputs[0])
    if isinstance(rel, Pair):
        return replace(rel, left=inputs[0], right=inputs[1])
    if isinstance(rel, Several):
        return replace(rel, sources=tuple(inputs))
    return rel


def transform_up(rel: Rel, change: Callable[[Rel], object]) -> Rel:
    """``rel`` rebuilt from its leaves, ``change`` applied to every node after its inputs."""
    rebuilt = replace_inputs(rel, [transform_up(i, change) for i in rel.inputs])
    result = change(rebuilt)
    return result if isinstance(result, Rel) else rebuilt


def with_expressions(rel: Rel, change: Callable[[Rex], Rex]) -> Rel | None:
    """``rel`` with the expressions of a projection, or the condition of a filter or join, changed; None if none is."""
    if isinstance(rel, Project):
        exprs = tuple(map(change, rel.exprs))
        return None if exprs == rel.exprs else replace(rel, exprs=exprs)
    if not isinstance(rel, (Filter, Join)):
        return None
    condition = change(rel.condition)
    return None if condition == rel.condition else replace(rel, condition=condition)


def walk(rel: Rel) -> Iterator[Rel]:
    """``rel`` and all below, top first."""
    yield rel
    for i in rel.inputs:
        yield from walk(i)
