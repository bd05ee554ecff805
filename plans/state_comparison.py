"""Whether an operator can continue from the state of its counterpart in another plan, and how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from stateplan.common.ttl import format_ttl
from stateplan.execnodes.node_text import agg_text, field_names
from stateplan.execnodes.nodes.base import ExecNode, field_types
from stateplan.execnodes.nodes.deduplicate import Deduplicate
from stateplan.execnodes.nodes.group_aggregate import GroupAggregate
from stateplan.execnodes.nodes.interval_join import IntervalJoin
from stateplan.execnodes.nodes.join import Join
from stateplan.execnodes.nodes.multi_join import MultiJoin
from stateplan.execnodes.nodes.over_aggregate import OverAggregate
from stateplan.execnodes.nodes.phased_aggregates import GlobalGroupAggregate
from stateplan.execnodes.nodes.rank import Rank
from stateplan.execnodes.nodes.temporal_join import TemporalJoin
from stateplan.execnodes.nodes.window_aggregates import GroupWindowAggregate, WindowAggregate, WindowedAggregate
from stateplan.execnodes.nodes.window_join import WindowJoin
from stateplan.execnodes.specs import AggCall
from stateplan.functions.rex import Rex
from stateplan.functions.rex_text import rex_text
from stateplan.plans.backfill import upstream
from stateplan.plans.derivation import (
    CallSource,
    Form,
    GroupCalls,
    JoinSide,
    Outcome,
    StateMove,
    StoredFields,
    call_source,
    filters_over,
    is_simple,
    keeps_numbers,
    kept_rows,
    left_out,
    merges_exactly,
)
from stateplan.plans.frame_state import Frames, compare_frames
from stateplan.plans.keyed_state import KeyedInput, compare_keyed, is_keyed, lookup_key
from stateplan.plans.plan_side import PlanSide
from stateplan.plans.timed_joins import TimedJoin, compare_timed
from stateplan.plans.value_tables import Grouped, call_from_values, has_values, table_sources, uncountable_calls
from stateplan.plans.windowed_state import WindowGroups, compare_windows


class StateComparison:
    """Compares what operators keep.

    Args:
        old, new: the plans.
    """

    def __init__(self, old: PlanSide, new: PlanSide) -> None:
        self.old, self.new = old, new

    def compare(self, old: ExecNode, new: ExecNode) -> Outcome | None:
        """What becomes of the state of an operator that means the same, or follows from what the old one has kept; None
        where neither can be told."""
        outcome = self._compare(old, new)
        if outcome is None or outcome[0] == "reset" or not (isinstance(new, Rank) or any(self.new.ttls(new))):
            return outcome
        phases = self._phases(self.old, old), self._phases(self.new, new)
        if any(phases[1].get(state, is_global) != is_global for state, is_global in phases[0].items()):
            return "reset", ["an aggregate in front of it refreshes rows otherwise in one phase and in two"], None
        return outcome

    @staticmethod
    def _phases(side: PlanSide, node: ExecNode) -> dict[str, bool]:
        """The aggregates with a TTL in front of a node, and whether each is in two phases: then it says nothing of rows
        that stay as they are."""
        return {
            side.lineages[i].state: isinstance(side.document.graph.node(i), GlobalGroupAggregate)
            for i in upstream(side.graph, node) - {node.id}
            if isinstance(side.graph.node(i), GroupAggregate) and any(side.ttls(side.graph.node(i)))
        }

    def _compare(self, old: ExecNode, new: ExecNode) -> Outcome | None:
        """As :meth:`compare`, if all rows arrive as before."""
        was, now = self.old.lineages[old.id], self.new.lineages[new.id]
        if isinstance(new, GroupAggregate) and isinstance(old, GroupAggregate):
            return self.aggregates(old, new) if was.state == now.state or self._same_source(old, new) else None
        if isinstance(new, OverAggregate) and isinstance(old, OverAggregate):
            frames = self._frames(self.old, old), self._frames(self.new, new)
            return compare_frames(*frames, self.fields(old, new))
        if isinstance(new, _TIMED_JOINS) and isinstance(old, type(new)) and was.state != now.state:
            return compare_timed(
                self._timed_join(self.old, old), self._timed_join(self.new, new), self.fields(old, new)
            )
        outcome = self.fields(old, new) if was.state == now.state else None
        names = [s.document.graph.node(n.id).name for s, n in ((self.old, old), (self.new, new))]
        other_phases = isinstance(new, WindowAggregate) and names[0] != names[1]
        if other_phases or outcome is None or outcome[0] == "reset":
            windows = self._windows(self.old, old), self._windows(self.new, new)
            if windows[0] is not None and windows[1] is not None:
                outcome = compare_windows(windows[0], windows[1]) or outcome
            elif isinstance(new, _WINDOWS) and isinstance(old, _WINDOWS) and not other_phases:
                outcome = self.window_calls(old, new) or outcome
        if other_phases and outcome is not None and outcome[0] == "derive":
            return (
                "derive",
                [*outcome[1], "its slices are taken over by the same aggregate in other phases"],
                outcome[2],
            )
        if other_phases:
            return "reset", ["single values, and windows of other kinds, keep their phases"], None
        if isinstance(new, Join) and isinstance(old, Join) and (outcome is None or outcome[0] == "reset"):
            return self.joins(old, new) or outcome
        if is_keyed(new) and new.name == old.name and was.state != now.state:
            return self.keyed_rows(old, new)
        return outcome

    def window_calls(
        self, old: WindowAggregate | GroupWindowAggregate, new: WindowAggregate | GroupWindowAggregate
    ) -> Outcome | None:
        """An aggregate of the same windows with other calls; None where its windows or rows are others."""
        was, now = self.old.lineages[old.id], self.new.lineages[new.id]
        inputs = self.old.inputs(old)[0].fields, self.new.inputs(new)[0].fields
        if was.groups != now.groups or any(inputs[1][key] not in inputs[0] for key in new.grouping):
            return None
        if not all(is_simple(c, bool(n.need_retraction)) for n in (old, new) for c in n.agg_calls):
            return None
        sides = zip((self.old, self.new), (old, new), (was, now), strict=True)
        groups = [
            GroupCalls.of(
                n.agg_calls, bool(n.need_retraction), side.graph.input_types(n)[0], side.inputs(n)[0], meaning.calls
            )
            for side, n, meaning in sides
        ]
        sources = [call_source(c, form, groups[0]) for c, form in zip(groups[1].calls, groups[1].forms, strict=True)]
        texts = [agg_text(c, self.new.names(new)) for c in new.agg_calls]
        fresh = [text for text, source in zip(texts, sources, strict=True) if source is None or source.converts]
        if fresh:
            return "reset", [f"{', '.join(fresh)} would not have seen the earlier rows"], None
        old_places = _places(*inputs, zip(old.grouping, new.grouping, strict=False))
        places = [old_places.get(i) for i in range(len(inputs[1]))]
        own_columns = range(len(inputs[0]), len(inputs[0]) + len(new.grouping) + 1)  # behind the row: key, and time
        move = StateMove(((*places, *own_columns),), tuple(s for s in sources if s is not None))
        return "rewrite", ["its calls follow from what is kept"], move

    @staticmethod
    def _windows(side: PlanSide, node: ExecNode) -> WindowGroups | None:
        """A node as an aggregate of windows; None for another one."""
        reader = WindowGroups.reader(side.graph, node) if isinstance(node, WindowedAggregate) else None
        if reader is None:
            return None
        rows, ttl, watermark = (
            side.inputs(reader)[0],
            max(side.ttls(node), default=0),
            side.past.watermarks.get(node.id),
        )
        return WindowGroups.of(side.graph, node, rows, ttl, watermark)

    def keyed_rows(self, old: ExecNode, new: ExecNode) -> Outcome | None:
        """An operator whose rows have a key, of rows that the old one has kept; None where they are others."""
        fields = self.fields(old, new)
        move = fields[2] or StateMove((tuple(range(len(self.new.inputs(new)[0].fields))),))
        outcome = compare_keyed(self._keyed_input(self.old, old), self._keyed_input(self.new, new), move)
        if outcome is None or outcome[0] == "reset":
            return outcome
        verdict, reasons, move_by_key = outcome
        if move_by_key is None or fields[0] == "reset":
            return fields
        return verdict, [*reasons, *fields[1]], move_by_key

    @staticmethod
    def _keyed_input(side: PlanSide, node: ExecNode) -> KeyedInput:
        """What an operator whose rows have a key reads."""
        ids = upstream(side.graph, node) - {node.id}
        has_ttl = any(ttl for i in ids for ttl in side.ttls(side.graph.node(i)))
        row, rows = side.graph.input_types(node)[0], side.inputs(node)[0]
        meaning, ttl = side.lineages[node.id], max(side.ttls(node), default=0)
        return KeyedInput(node, meaning, rows, field_types(row), side.names(node), ttl, has_ttl)

    @staticmethod
    def _sides(side: PlanSide, node: Join | MultiJoin) -> list[JoinSide]:
        """The inputs of a join."""
        rows, types = side.inputs(node), [field_types(row) for row in side.graph.input_types(node)]
        dropped_keys = [_dropped_keys(node, i) for i in range(len(rows))]
        return [JoinSide(*parts, node.id, i) for i, parts in enumerate(zip(rows, types, dropped_keys, strict=True))]

    def joins(self, old: Join, new: Join) -> Outcome | None:
        """A join of rows that another join has kept; None where it has not."""
        old_sides, new_sides = self._sides(self.old, old), self._sides(self.new, new)
        moves = [kept_rows(sides, new_sides) for sides in (old_sides, old_sides[::-1])]
        move, reason = next((each for each in moves if each[0] is not None), moves[0])
        reason = next((reason for _, reason in moves if reason is not None), None) if move is None else None
        if move is None and reason is None:
            return None
        if move is not None:
            types = self.old.graph.input_types(old)
            removed_names = [
                [types[j].fields[i].name for i, h in enumerate(old_sides[j].rows.fields) if h not in side.rows.fields]
                for j, side in zip(move.inputs, new_sides, strict=True)
            ]
            reason = self._equal_rows(new, removed_names)
        ttl = max(self.old.ttls(old), default=0)
        counts_matches = [node.join_spec.join_type != "INNER" for node in (old, new)]
        if any(counts_matches) and ttl:
            reason = f"rows that have expired after {format_ttl(ttl)} may have matched"
        elif counts_matches[0] and any(self.new.ttls(new)):
            reason = "matches have refreshed the rows that get a TTL now"
        if reason is not None or move is None:
            return "reset", [reason or ""], None
        return "derive", ["the rows that it has kept pass through the new join"], replace(move, nodes=())

    @cached_property
    def _stored_sides(self) -> list[JoinSide]:
        """The inputs of all old joins of which no row has expired."""
        nodes = (node for node in self.old.graph.nodes if isinstance(node, (Join, MultiJoin)))
        return [side for node in nodes if not any(self.old.ttls(node)) for side in self._sides(self.old, node)]

    def kept_input(self, new: ExecNode, number: int, emits: bool) -> StateMove | None:
        """How the rows of an input come from those that an old join has kept; None where they do not.

        Args:
            new: the operator.
            number: the number of the input.
            emits: whether its output is needed. An outer join emits rows whose key is NULL, and does not keep them.
        """
        if isinstance(new, (Join, MultiJoin)):
            side = self._sides(self.new, new)[number]
            if emits and isinstance(new, Join) and new.join_spec.join_type in _OUTER[number]:
                side = replace(side, dropped_keys=())
        elif isinstance(new, GroupAggregate):
            side = JoinSide(self.new.inputs(new)[0], field_types(self.new.graph.input_types(new)[0]), (), new.id, 0)
        else:
            return None
        return kept_rows(self._stored_sides, [side])[0]

    def joins_of_several(self, new: Join | MultiJoin) -> Outcome | None:
        """A join of rows that several old joins have kept, or one with other inputs; None where they have not."""
        move, _ = kept_rows(self._stored_sides, self._sides(self.new, new))
        if move is None or any(self.new.ttls(new)):
            return None
        names = " and ".join(str(self.old.operator(self.old.graph.node(i))) for i in sorted(set(move.nodes)))
        return "derive", [f"the rows that {names} kept pass through it"], move

    def _equal_rows(self, new: Join, removed_names: Sequence[Sequence[str]]) -> str | None:
        """Why rows of a join have other ages now that fields are gone; None where they have not.

        Args:
            new: the join.
            removed_names: per side, the names of these fields.
        """
        keys = new.left_upsert_keys, new.right_upsert_keys
        for side, (names, has_key, ttl) in enumerate(zip(removed_names, keys, self.new.ttls(new), strict=True)):
            if names and not has_key and ttl and self.new.deletes_rows(new, side):
                return f"{', '.join(names)} was removed, and a deletion refreshes equal rows"
        return None

    def _same_source(self, old: GroupAggregate, new: GroupAggregate) -> bool:
        """Whether the groups of an aggregate can be made of those of another one: of the same rows, by keys that follow
        from its keys, with further conditions on its keys alone."""
        was, now = self.old.lineages[old.id], self.new.lineages[new.id]
        is_stored = self._key_fields(old, new) is not None and self._filters(old, new) is not None
        return was.groups == now.groups and is_stored

    def _key_fields(self, old: GroupAggregate, new: GroupAggregate) -> tuple[dict[int, int], dict[int, Rex]] | None:
        """Where the keys of an aggregate are among those of the old one, and what computes the others from them."""
        inputs = self.old.inputs(old)[0], self.new.inputs(new)[0]
        types = field_types(self.old.graph.input_types(old)[0])
        old_fields = StoredFields.of(*inputs, old.grouping, types)
        return old_fields.fields_of((k, inputs[1].fields[k]) for k in new.grouping)

    def _filters(self, old: GroupAggregate, new: GroupAggregate) -> tuple[Rex, ...] | None:
        """The conditions that groups have to meet now; None where state lacks what they read."""
        types = field_types(self.old.graph.input_types(old)[0])
        return filters_over(self.old.inputs(old)[0], self.new.inputs(new)[0], old.grouping, types)

    def _keys(self, old: GroupAggregate, new: GroupAggregate) -> list[list[str]]:
        """The hashes of the values of the keys of both."""
        return [
            [rows.meanings.values(rows.fields[k]) for k in node.grouping]
            for rows, node in ((self.old.inputs(old)[0], old), (self.new.inputs(new)[0], new))
        ]

    def aggregates(self, old: GroupAggregate, new: GroupAggregate) -> Outcome:
        """An aggregate over the same rows, or over some of them."""
        was, now = self.old.lineages[old.id].calls, self.new.lineages[new.id].calls
        names = self.old.names(old), self.new.names(new)
        grouped = self._grouped(self.old, old), self._grouped(self.new, new)
        simple = not has_values(old) and not has_values(new)
        sources = self._call_sources(old, new, grouped)
        fresh = [agg_text(c, names[1]) for c, s in zip(new.agg_calls, sources, strict=True) if s is None]
        if fresh:
            return "reset", [f"{', '.join(fresh)} would not have seen the earlier rows"], None
        arguments = [[(c.arg_list, c.filter_arg) for c in n.agg_calls] for n in (old, new)]
        key_fields = self._key_fields(old, new)
        assert key_fields is not None  # else the aggregates would not be compared
        places, key_exprs = key_fields
        same_groups = self.old.lineages[old.id].state == self.new.lineages[new.id].state and not key_exprs
        other_phases = grouped[0].state_name != grouped[1].state_name
        same_calls = was == now and old.grouping == new.grouping and (simple or arguments[0] == arguments[1])
        if same_groups and same_calls and not other_phases:
            return "identical", [], None
        fields = tuple(places.get(i) for i in range(len(self.new.inputs(new)[0].fields)))
        move = StateMove((fields,), tuple(s for s in sources if s is not None), exprs=(key_exprs,) if key_exprs else ())
        others = [agg_text(c, names[1]) for c in new.agg_calls if not keeps_numbers(c)]
        has_tables = not simple or other_phases
        if (others and other_phases) or (has_tables and not all(g.is_readable for g in grouped)):
            return "reset", [f"the state of {(others or ['user-defined functions'])[0]} cannot be rewritten"], None
        if other_phases and not simple and any(self.old.ttls(old)):
            return "reset", ["single values expire otherwise in one phase and in two"], None
        has_other_types = any(s.converts and s.values is None for s in move.calls)
        if other_phases and (key_exprs or has_other_types):
            return "reset", ["groups that get other phases keep their types"], None
        if has_tables:
            tables = table_sources(grouped[0], grouped[1], move, self._expires(old, new))
            if tables is None:
                return "reset", ["single values (DISTINCT, MIN or MAX over updates) were not kept"], None
            move = replace(move, form="values", tables=tables)
        if not same_groups:
            return self._groups(old, new, grouped[1], move)
        removed_calls = [agg_text(c, names[0]) for c, h in zip(old.agg_calls, was, strict=True) if h not in now]
        derived_calls = [agg_text(c, names[1]) for c, h in zip(new.agg_calls, now, strict=True) if h not in was]
        reasons = [f"{', '.join(removed_calls)} is no longer kept"] if removed_calls else []
        reasons += [f"{', '.join(derived_calls)} follows from what is kept"] if derived_calls else []
        if other_phases:
            reasons.append("its groups are taken over by the same aggregate in other phases")
        if simple and any(source.converts for source in move.calls):
            return "derive", reasons, replace(move, form="groups")
        return "derive" if has_tables else "rewrite", reasons or ["its columns are reordered"], move

    def _call_sources(
        self, old: GroupAggregate, new: GroupAggregate, grouped: tuple[Grouped, Grouped]
    ) -> list[CallSource | None]:
        """Where each call finds what it keeps; None for one that would begin empty."""
        parts = zip((self.old, self.new), (old, new), grouped, strict=True)
        calls = [
            GroupCalls.of(n.agg_calls, n.need_retraction, g.row, g.rows, side.lineages[n.id].calls)
            for side, n, g in parts
        ]
        sources = [call_source(c, form, calls[0]) for c, form in zip(calls[1].calls, calls[1].forms, strict=True)]
        has_all = None not in sources or not has_values(old) or not all(g.is_readable for g in grouped)
        if has_all or self._expires(old, new):
            return sources
        return [s or call_from_values(grouped[1], i, grouped[0]) for i, s in enumerate(sources)]

    @staticmethod
    def _grouped(side: PlanSide, node: GroupAggregate) -> Grouped:
        """An aggregate with what it reads."""
        return Grouped(node, side.graph.input_types(node)[0], side.inputs(node)[0], side.state_name(node))

    def _expires(self, old: ExecNode, new: ExecNode) -> bool:
        """Whether state of an operator, or of one in front of it, expires: then retractions may find nothing."""
        return any(
            ttl
            for side, node in ((self.old, old), (self.new, new))
            for i in upstream(side.graph, node)
            for ttl in side.ttls(side.graph.node(i))
        )

    @staticmethod
    def _frames(side: PlanSide, node: OverAggregate) -> Frames:
        """An operator of OVER with what it reads."""
        names = (*side.names(node), *(rex_text(c, ()) for c in node.over_spec.constants))
        return Frames(node, side.lineages[node.id], side.inputs(node)[0], names, any(side.ttls(node)))

    @staticmethod
    def _timed_join(side: PlanSide, node: IntervalJoin | TemporalJoin | WindowJoin) -> TimedJoin:
        """A join of rows that wait, with what it reads."""
        rows = side.graph.input_types(node)
        types, names = [field_types(row) for row in rows], [field_names(row) for row in rows]
        return TimedJoin(node, side.lineages[node.id], side.inputs(node), types, names, any(side.ttls(node)))

    def shared_calls(self, old: ExecNode, new: ExecNode) -> tuple[tuple[int, int], ...]:
        """The numbers of calls of two aggregates, in the new and the old one, that keep the same if both have read the
        same rows."""
        if not isinstance(new, GroupAggregate) or not isinstance(old, GroupAggregate):
            return ()
        was, now = self.old.lineages[old.id], self.new.lineages[new.id]
        keys = self._keys(old, new)
        same_names = self.old.state_name(old) == self.new.state_name(new)
        if (
            was.state != now.state
            or keys[0] != keys[1]
            or not same_names
            or any((*self.old.ttls(old), *self.new.ttls(new)))
        ):
            return ()
        return tuple(
            (number, was.calls.index(meaning))
            for number, (meaning, (call, retracts)) in enumerate(zip(now.calls, _calls(new), strict=True))
            if meaning in was.calls and is_simple(call, retracts) and merges_exactly(call)
        )

    def _groups(self, old: GroupAggregate, new: GroupAggregate, grouped: Grouped, move: StateMove) -> Outcome:
        """An aggregate by other keys, or of some of the groups."""
        keys, filters = self._keys(old, new), self._filters(old, new)
        assert filters is not None  # else the aggregates would not be compared
        merges = set(keys[0]) != set(keys[1])
        inexact = [agg_text(c, self.new.names(new)) for c in new.agg_calls if merges and not merges_exactly(c)]
        ttl = self.old.ttls(old)[0] if merges else 0
        if ttl:
            reason = f"groups that have expired after {format_ttl(ttl)} are missing in larger groups"
            return "reset", [reason], None
        if merges and any(self.new.ttls(new)) and new.need_retraction:
            return "reset", ["groups that were deleted have refreshed larger groups, which get a TTL now"], None
        if merges and move.tables and self.old.state_name(old) != self.new.state_name(new):
            return "reset", ["groups cannot be merged and get other phases at once"], None
        merges_values = merges and len(move.tables) > 1
        if merges_values and self._expires(old, new):
            return "reset", ["single values of groups (DISTINCT, MIN or MAX over updates) may have expired"], None
        if merges_values:
            inexact += [agg_text(c, self.new.names(new)) for c in uncountable_calls(grouped)]
        if inexact:
            return "reset", [f"{', '.join(inexact)} cannot be merged exactly from other groups"], None
        reasons = ["its groups are merged into larger ones"] if merges else []
        reasons += ["its keys are reordered"] if not merges and keys[0] != keys[1] else []
        reasons += ["its keys have other types"] if keys[0] == keys[1] and any(move.exprs) else []
        reasons += left_out(filters, self.old.names(old), "groups")
        form: Form = "merged values" if merges_values else "values" if move.tables and not merges else "groups"
        return "derive", reasons, replace(move, form=form, filters=(filters,))

    def fields(self, old: ExecNode, new: ExecNode) -> Outcome:
        """An operator that stores fields of its input, of the same rows as before."""
        old_inputs, new_inputs = self.old.inputs(old), self.new.inputs(new)
        moves: list[tuple[int | None, ...]] = []
        exprs: list[Mapping[int, Rex]] = []
        removed_names: list[list[str]] = []
        types = self.old.graph.input_types(old), self.new.graph.input_types(new)
        keys = _only_keys(new)
        for side, (b, a) in enumerate(zip(old_inputs, new_inputs, strict=True)):
            places = _places(b.fields, a.fields, zip(_lookup_keys(old, side), _lookup_keys(new, side), strict=False))
            needed_fields = range(len(a.fields)) if keys is None else keys
            old_fields = StoredFields.of(b, a, range(len(b.fields)), field_types(types[0][side]))
            rexes = {i: old_fields.rex(a.fields[i]) for i in needed_fields if a.fields[i] not in b.fields}
            missing_names = [types[1][side].fields[i].name for i, rex in rexes.items() if rex is None]
            if missing_names:
                return "reset", [f"earlier rows in state lack {', '.join(missing_names)}"], None
            exprs.append({i: rex for i, rex in rexes.items() if rex is not None})
            moves.append(
                tuple(places[i] if i in needed_fields and i not in rexes else None for i in range(len(a.fields)))
            )
            some = enumerate(b.fields) if keys is None else ()
            removed_names.append([types[0][side].fields[i].name for i, h in some if h not in a.fields])
        lost_fields = [name for names in removed_names for name in names]
        if isinstance(new, Join) and isinstance(old, Join) and not _have_same_identity(old, new, moves):
            return "reset", ["its rows are identified by other fields"], None
        follows = [types[1][side].fields[i].name for side, some in enumerate(exprs) for i in some]
        if not lost_fields and not follows and all(j is None or i == j for move in moves for i, j in enumerate(move)):
            return "identical", [], None
        if not new.STORES_FIELDS or any(not t.fields for t in types[1]):
            return "reset", [f"the fields of its rows moved, and state of {new.title} cannot be rewritten"], None
        has_other_keys = any(i in exprs[side] for side, keys in enumerate(_fixed_keys(new)) for i in keys)
        if follows and (isinstance(new, Join) or has_other_keys):
            return "reset", [f"{', '.join(follows)} is another value"], None
        if isinstance(new, Join) and lost_fields and _counts_equal_rows(new):
            return (
                "reset",
                [f"{', '.join(lost_fields)} was removed, and equal rows are kept as one row with a count"],
                None,
            )
        if isinstance(new, Join) and (reason := self._equal_rows(new, removed_names)) is not None:
            return "reset", [reason], None
        lost_fields = [name for name in lost_fields if name not in follows]
        reasons = [f"{', '.join(lost_fields)} is no longer kept"] if lost_fields else []
        reasons += [f"{', '.join(follows)} follows from what is kept"] if follows else []
        move = StateMove(tuple(moves), exprs=tuple(exprs) if follows else ())
        if follows:
            return "derive", reasons, move if _fixed_keys(new) else replace(move, form="keys")
        return "rewrite", reasons or ["its columns are reordered"], move


_OUTER = ("LEFT", "FULL", "ANTI"), ("RIGHT", "FULL")
"""Per input the types of joins that emit its rows without a match."""

_TIMED_JOINS = IntervalJoin, TemporalJoin, WindowJoin

_WINDOWS = WindowAggregate, GroupWindowAggregate


def _only_keys(node: ExecNode) -> Sequence[int] | None:
    """The fields that are stored, of an operator that stores no others than its key's; None for all."""
    if isinstance(node, Deduplicate) and not node.keep_last_row and not node.is_rowtime:
        return node.unique_keys
    return None


def _fixed_keys(node: ExecNode) -> Sequence[Sequence[int]]:
    """Per input the key, of an operator whose rows are numbered within their key group; empty for others."""
    if isinstance(node, OverAggregate):
        return (node.over_spec.partition.fields,)
    spec = node.interval_join_spec.join_spec if isinstance(node, IntervalJoin) else None
    spec = node.join_spec if isinstance(node, (TemporalJoin, WindowJoin)) else spec
    return () if spec is None else (spec.left_keys, spec.right_keys)


def _lookup_keys(node: ExecNode, side: int) -> Sequence[int]:
    """The fields of an input by which rows of state are found."""
    if isinstance(node, Join):
        return (node.join_spec.left_keys, node.join_spec.right_keys)[side]
    if is_keyed(node):
        return lookup_key(node)
    fixed_keys = _fixed_keys(node)
    return fixed_keys[side] if fixed_keys else ()


def _have_same_identity(old: Join, new: Join, moves: Sequence[Sequence[int | None]]) -> bool:
    """Whether the fields that identify the rows of each side are the same; ``moves`` are the places of the new ones."""
    for side, move in enumerate(moves):
        was, now = _identity(old, side), _identity(new, side)
        if was and now and was != {move[i] for i in now}:
            return False
    return True


def _identity(node: Join, side: int) -> set[int]:
    """The fields that identify a row of a side; none if equal rows are distinguished by number."""
    keys, unique_keys = _lookup_keys(node, side), (node.left_upsert_keys, node.right_upsert_keys)[side]
    is_within = any(set(keys).issuperset(unique_key) for unique_key in unique_keys)
    return set() if not unique_keys else {*keys, *(() if is_within else min(unique_keys, key=len))}


def _places(old: Sequence[str], new: Sequence[str], keys: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Where the new fields are among the old ones, if they are there. Several fields can have the same values: then a
    key is an old key, and others are at best at the same place. ``keys`` are pairs of an old and a new one."""
    places = {now: was for was, now in keys if old[was] == new[now]}
    for i, values in enumerate(new):
        if i not in places and values in old:
            used_places = set(places.values())
            candidates = (place for place, other in enumerate(old) if other == values)
            places[i] = min(candidates, key=lambda place: (place in used_places, place != i))
    return places


def _dropped_keys(node: Join | MultiJoin, number: int) -> tuple[int, ...]:
    """The fields of an input that have no NULL in the rows that a join keeps."""
    if isinstance(node, Join):
        spec = node.join_spec
        keys = (spec.left_keys, spec.right_keys)[number]
        return tuple(key for key, drops in zip(keys, spec.filter_nulls, strict=True) if drops)
    if number == 0 and set(node.join_types[1:]) == {"LEFT"}:
        return ()
    return tuple(node.input_properties[number].required_distribution.keys)


def _calls(node: GroupAggregate) -> Iterator[tuple[AggCall, bool]]:
    return zip(node.agg_calls, node.agg_call_need_retractions, strict=True)


def _counts_equal_rows(node: Join) -> bool:
    """Whether a side of an outer join has no unique key: equal rows are kept once, with their number."""
    outer = node.join_spec.join_type
    left = outer in ("LEFT", "FULL", "SEMI", "ANTI") and not node.left_upsert_keys
    return left or (outer in ("RIGHT", "FULL") and not node.right_upsert_keys)
