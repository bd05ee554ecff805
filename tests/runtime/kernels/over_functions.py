"""Functions of the rows in a frame, for the tests of OVER windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stateplan.common.types import BIGINT, INT, STRING, LogicalType, parse_type
from stateplan.execnodes.specs import AggCall

Value = Callable[[list[Any]], Any]


def there(values: list[Any]) -> list[Any]:
    return [v for v in values if v is not None]


@dataclass
class Function:
    """A function of the rows in a frame: its call, the field it reads, and its value from a list of that field."""

    name: str
    result: LogicalType
    argument: int | None
    value: Value
    distinct: bool = False
    more: tuple[int, ...] = ()

    @property
    def call(self) -> AggCall:
        arguments = () if self.argument is None else (self.argument, *self.more)
        return AggCall(
            name="x",
            internal_name=f"${self.name}$1",
            arg_list=arguments,
            distinct=self.distinct,
            type=self.result,
        )


ANY_FRAME = [
    Function("COUNT", BIGINT, None, len),
    Function("COUNT", BIGINT, 2, lambda vs: len(there(vs))),
    Function("COUNT", BIGINT, 2, lambda vs: len(set(there(vs))), distinct=True),
    Function("$SUM0", INT.not_null(), 2, lambda vs: sum(there(vs))),
    Function("$SUM0", INT.not_null(), 2, lambda vs: sum(set(there(vs))), distinct=True),
    Function("SUM", INT, 2, lambda vs: sum(there(vs)) if there(vs) else None),
    Function("MIN", INT, 2, lambda vs: min(there(vs), default=None)),
    Function("MAX", INT, 2, lambda vs: max(there(vs), default=None)),
    Function("MAX", STRING, 0, lambda vs: max(there(vs), default=None)),
    Function("FIRST_VALUE", INT, 2, lambda vs: next(iter(there(vs)), None)),
    Function("LAST_VALUE", INT, 2, lambda vs: next(iter(there(vs)[::-1]), None)),
    Function("ARRAY_AGG", parse_type("ARRAY<INT>"), 2, lambda vs: vs or None),
    Function("LISTAGG", STRING, 0, lambda vs: ",".join(there(vs)) or None),
]
