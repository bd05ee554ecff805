"""MATCH_RECOGNIZE: patterns in the rows of a partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import ALWAYS, Flag, PlanModel, RexField, Text
from stateplan.execnodes.node_text import joined_names, names_text
from stateplan.execnodes.nodes.base import InsertOnlyNode, Stateful, field_types
from stateplan.execnodes.ranking import PartitionSpec, SortSpec, order_text
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.rex import Call, Literal, Rex
from stateplan.execnodes.types import LogicalType

if TYPE_CHECKING:
    from stateplan.execnodes.runtime.kernels.common.automaton import Skip, Variable


class MatchSpec(PlanModel):
    """What is matched: the pattern, conditions by variable, measures by name, and where the next match begins.

    ``interval`` is how long a match lasts at most, ``all_rows`` and ``subsets`` are of SQL that Flink does not run.
    """

    pattern: RexField
    pattern_definitions: Annotated[dict[Text, RexField], Ref()]
    measures: Annotated[dict[Text, RexField], Ref()]
    after: RexField
    subsets: dict[Text, tuple[Text, ...]]
    all_rows: Flag
    partition: Annotated[PartitionSpec, Ref()]
    order_by: Annotated[SortSpec, Ref()]
    interval: Annotated[RexField | None, ALWAYS] = None


@exec_node("match", states=("matchState",))
class Match(InsertOnlyNode):
    """Emits one row for each match of a pattern in the rows of a partition, which are put in the order of time.

    A match that has begun is kept until it ends, or WITHIN is over, or its TTL ends.

    .. code-block:: sql

        INSERT INTO falls SELECT * FROM prices MATCH_RECOGNIZE (
          PARTITION BY product ORDER BY told_at
          MEASURES FIRST(DOWN.price) AS top, LAST(DOWN.price) AS bottom
          AFTER MATCH SKIP PAST LAST ROW PATTERN (DOWN{2,} UP)
          DEFINE DOWN AS DOWN.price < LAST(DOWN.price, 1) OR LAST(DOWN.price, 1) IS NULL,
                 UP AS UP.price > LAST(DOWN.price)) AS m
    """

    match_spec: Annotated[MatchSpec, Ref()]

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType | None] | None:
        row, keys = field_types(inputs[0]), self.match_spec.partition.fields
        measures = self.match_spec.measures
        named = self.output_type.fields[len(keys) :]
        return (*(row[k] for k in keys), *(measures[f.name].type if f.name in measures else None for f in named))

    def retention(self, index: int) -> int:
        return self._within(self.match_spec.interval)

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateful:
        from stateplan.execnodes.runtime.kernels.common.automaton import Automaton, malformed
        from stateplan.execnodes.runtime.kernels.common.match_expressions import Condition, Measures, unsupported
        from stateplan.execnodes.runtime.kernels.match import MatchKernel
        from stateplan.execnodes.zone import local_time_zone

        spec, keys = self.match_spec, self.match_spec.partition.fields
        if spec.all_rows:
            raise self.not_supported("ALL ROWS PER MATCH")
        if spec.subsets:
            raise self.not_supported("SUBSET in MATCH_RECOGNIZE")
        variables = tuple(self._variables(spec.pattern))
        problem = malformed(variables)
        if problem is not None:
            raise self.not_supported(problem)
        names = tuple(v.name for v in variables)
        measures = [spec.measures.get(f.name) for f in self.output_type.fields[len(keys) :]]
        for rex in (*spec.pattern_definitions.values(), *measures):
            what = "a column that is no measure" if rex is None else unsupported(rex, names)
            if what is not None:
                raise self.not_supported(what)
        zone = local_time_zone(session)
        within = self._within(spec.interval)
        kind, target = self._after(spec.after, names)
        given = spec.pattern_definitions
        conditions = tuple(Condition(given[n], n, names, inputs[0], zone) if n in given else None for n in names)
        return Stateful(
            MatchKernel(
                inputs[0],
                keys,
                Automaton(variables, kind, target, within),
                conditions,
                Measures(tuple(m for m in measures if m is not None), names, inputs[0], zone),
                spec.order_by,
                self._is_rowtime(inputs[0]),
            ),
            (keys,),
        )

    def _is_rowtime(self, row: LogicalType) -> bool:
        fields = self.match_spec.order_by.fields
        kind = row.fields[fields[0].index].type.kind if fields else None
        if kind is None or not fields[0].is_ascending:
            raise self.not_supported("MATCH_RECOGNIZE in another order than that of a time attribute")
        return kind == "ROWTIME"

    def _variables(self, rex: Rex) -> Iterator[Variable]:
        """The variables of a pattern, in order."""
        from stateplan.execnodes.runtime.kernels.common.automaton import Variable

        if isinstance(rex, Literal) and isinstance(rex.value, str):
            yield Variable(rex.value)
        elif isinstance(rex, Call) and rex.sql_kind == "PATTERN_CONCAT" and rex.operands:
            for part in rex.operands:
                yield from self._variables(part)
        elif isinstance(rex, Call) and rex.name == "PATTERN_QUANTIFIER" and len(rex.operands) == 4:
            name, *bounds = (o.value if isinstance(o, Literal) else None for o in rex.operands)
            low, high, reluctant = bounds
            if not isinstance(name, str) or not isinstance(low, int) or not isinstance(high, int):
                raise self.not_supported("a quantifier behind a group of a pattern")
            yield Variable(name, low, None if high == -1 else high, not reluctant)
        else:
            shown = rex.sql_kind or rex.name if isinstance(rex, Call) else type(rex).__name__
            raise self.not_supported(f"{shown} in a pattern")

    def _after(self, rex: Rex, names: Sequence[str]) -> tuple[Skip, int]:
        """Where the next match begins: how, and the position of the variable that it begins at."""
        if isinstance(rex, Literal) and rex.value in ("SKIP_TO_NEXT_ROW", "SKIP_PAST_LAST_ROW"):
            return ("NEXT" if rex.value == "SKIP_TO_NEXT_ROW" else "PAST"), -1
        if isinstance(rex, Call) and rex.name in ("SKIP TO FIRST", "SKIP TO LAST") and len(rex.operands) == 1:
            target = rex.operands[0]
            if isinstance(target, Literal) and target.value in names:
                return ("FIRST" if rex.name == "SKIP TO FIRST" else "LAST"), names.index(target.value)
        raise self.not_supported("this AFTER MATCH SKIP")

    def _within(self, rex: Rex | None) -> int:
        """How long a match lasts at most, ms; 0 for any time."""
        if rex is None:
            return 0
        text = str(rex.value) if isinstance(rex, Literal) and rex.type.root == "INTERVAL_DAY_TIME" else ""
        if not text.isdecimal():
            raise self.not_supported("WITHIN anything but an interval of days or smaller units")
        return int(text)

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        spec, names = self.match_spec, joined_names(inputs)
        keys = names_text(spec.partition.fields, names)
        of = f", of each {keys}" if keys else ""
        return (
            f"emits a row for each match of {_text(spec.pattern)} in the rows by {order_text(spec.order_by, names)}{of}"
        )


def _text(rex: Rex) -> str:
    """A pattern as SQL writes it."""
    if not isinstance(rex, Call):
        return str(rex.value) if isinstance(rex, Literal) else "?"
    if rex.name != "PATTERN_QUANTIFIER" or len(rex.operands) != 4:
        return " ".join(map(_text, rex.operands))
    low, high, reluctant = (o.value if isinstance(o, Literal) else None for o in rex.operands[1:])
    known: dict[Any, str] = {(0, -1): "*", (1, -1): "+", (0, 1): "?"}
    text = known.get((low, high)) or (f"{{{low}}}" if low == high else f"{{{low},{'' if high == -1 else high}}}")
    return f"{_text(rex.operands[0])}{text}{'?' if reluctant else ''}"
