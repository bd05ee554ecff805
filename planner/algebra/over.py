"""The operator of OVER windows."""

from __future__ import annotations

from dataclasses import field

from stateplan.common.errors import Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.functions.rex import Literal
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.over_frames import Frame
from stateplan.planner.algebra.relations import AggCall, Field, Order, Single


@dataclass(frozen=True)
class OverAggregate(Single):
    """Rows with the values of aggregates over a frame of their partition appended.

    Arguments of ``calls`` behind the fields of the input are ``constants``, in which the offset of a bound of the frame
    is too. Each call has a name. Its field has a number behind it where the input has a field of that name, once the
    operator is ``physical``; until then two fields may have one name. ``input_names`` are as in :class:`Calc`; here the
    fields are named so, too. ``takes_back``: what is above expects that a row changes the values of those behind it.
    Flink's MIN, MAX and top-N do not, and keep rows that are gone.
    """

    partition: tuple[int, ...]
    order: Order
    frame: Frame
    calls: tuple[AggCall, ...]
    constants: tuple[Literal, ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)
    hint: InputHint | None = None
    input_names: tuple[str, ...] | None = field(default=None, compare=False)
    takes_back: bool = False
    physical: bool = field(default=False, compare=False)

    @property
    def by_time(self) -> bool:
        """Whether a time attribute orders the rows."""
        return len(self.order) == 1 and self.input.fields[self.order[0][0]][1].kind is not None

    @property
    def fields(self) -> tuple[Field, ...]:
        names = self.input_names or [n for n, _ in self.input.fields]
        out: list[Field] = [(n, t) for n, (_, t) in zip(names, self.input.fields, strict=True)]
        if not self.physical:
            return (*out, *((call.name or "", call.type) for call in self.calls))
        names_in_use = set(names)
        for call in self.calls:
            name, suffix = call.name or "", 0
            while name in names_in_use:
                name, suffix = f"{call.name}_{suffix}", suffix + 1
            names_in_use.add(name)
            out.append((name, call.type))
        return tuple(out)
