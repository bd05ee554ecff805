"""Joins within windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from stateplan.execnodes.changelog import INSERT_ONLY, ChangelogMode
from stateplan.execnodes.nodes.base import ExecNode, FieldRef, field_types, rex_refs
from stateplan.execnodes.nodes.window_table_function import slicing_of
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.specs import JoinSpec
from stateplan.execnodes.support import field_names, joined_names, names_text, rex_text
from stateplan.execnodes.types import LogicalType
from stateplan.execnodes.windows import WindowAttached, Windowing, window_text
from stateplan.execnodes.zone import local_time_zone

if TYPE_CHECKING:
    from stateplan.execnodes.runtime.kernel import Stateful


@exec_node
class WindowJoin(ExecNode):
    """Joins rows that are in the same window, when the watermark has come to its end.

    .. code-block:: sql

        INSERT INTO both SELECT l.id, r.id
        FROM (SELECT * FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '5' MINUTE))) AS l
        JOIN (SELECT * FROM TABLE(TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '5' MINUTE))) AS r
        ON l.id = r.id AND l.window_start = r.window_start AND l.window_end = r.window_end
    """

    NAME: ClassVar[str] = "stream-exec-window-join"
    VERSION: ClassVar[int] = 1
    INPUTS: ClassVar[int | None] = 2
    KEEPS_STATE: ClassVar[bool] = True
    EMITS: ClassVar[ChangelogMode | None] = INSERT_ONLY
    TAKES: ClassVar[ChangelogMode | None] = INSERT_ONLY

    join_spec: JoinSpec
    left_windowing: Windowing
    right_windowing: Windowing

    def field_refs(self) -> Iterator[FieldRef]:
        yield from super().field_refs()
        spec = self.join_spec
        for side, (key, keys) in enumerate((("leftKeys", spec.left_keys), ("rightKeys", spec.right_keys))):
            yield from (FieldRef(f"/joinSpec/{key}/{k}", index, side) for k, index in enumerate(keys))
        if spec.non_equi_condition is not None:
            yield from rex_refs(spec.non_equi_condition, "/joinSpec/nonEquiCondition", None)
        for side, (key, windowing) in enumerate(
            (("leftWindowing", self.left_windowing), ("rightWindowing", self.right_windowing))
        ):
            if isinstance(windowing, WindowAttached):
                yield FieldRef(f"/{key}/windowStart", windowing.window_start, side)
                yield FieldRef(f"/{key}/windowEnd", windowing.window_end, side)

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        left, right = map(field_types, inputs)
        return left if self.join_spec.join_type in ("SEMI", "ANTI") else (*left, *right)

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateful:
        from stateplan.execnodes.runtime.kernel import Stateful
        from stateplan.execnodes.runtime.kernels.window_join import WindowJoinKernel

        spec, left, right = self.join_spec, self.left_windowing, self.right_windowing
        if not isinstance(left, WindowAttached) or not isinstance(right, WindowAttached):
            raise self.not_supported("a window join of rows that are in no windows yet")
        kernel = WindowJoinKernel(
            inputs[0],
            inputs[1],
            spec,
            (left.window_end, right.window_end),
            slicing_of(self, left, session),
            local_time_zone(session),
        )
        return Stateful(kernel, (spec.left_keys, spec.right_keys))

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        spec = self.join_spec
        left, right = (field_names(row) for row in inputs) if len(inputs) == 2 else ((), ())
        terms = [
            f"left.{names_text([a], left)} = right.{names_text([b], right)}"
            for a, b in zip(spec.left_keys, spec.right_keys, strict=True)
        ]
        if spec.non_equi_condition is not None:
            terms.append(rex_text(spec.non_equi_condition, joined_names(inputs)))
        outer = spec.join_type in ("LEFT", "RIGHT", "FULL")
        word = "joins" if spec.join_type == "INNER" else f"{spec.join_type.lower()} {'outer ' if outer else ''}joins"
        on = f" on {' and '.join(terms)}" if terms else ""
        return f"{word} left and right{on} within {window_text(self.left_windowing.window)}"
