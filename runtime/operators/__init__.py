"""The operators of nodes: importing this package registers them (see :func:`.base.operator_of`)."""

from stateplan.runtime.operators import (
    aggregates,
    joins,
    match,
    over,
    rows,
    sinks,
    stateless,
    table_functions,
    windows,
)
from stateplan.runtime.operators.base import Options, Rows, Stateful, Stateless, operator_of

__all__ = [
    "Options",
    "Rows",
    "Stateful",
    "Stateless",
    "aggregates",
    "joins",
    "match",
    "operator_of",
    "over",
    "rows",
    "sinks",
    "stateless",
    "table_functions",
    "windows",
]
