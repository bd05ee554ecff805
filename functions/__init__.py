"""The functions of Flink SQL: names, operand types, type rules, and the row expressions that their calls become.

A row of :mod:`.table` (scalar functions) or :mod:`.aggregates` has all that the planner knows of a function, and needs
no polars. :mod:`.builder` makes calls, :mod:`.casting` casts, :mod:`.literals` constants typed as Flink types them, and
:mod:`.typerules` has the types that operands have in common. :mod:`.render` has how functions run, by their names in
plans.
"""

from stateplan.functions import (  # noqa: F401  the rows of the table
    arithmetic,
    collection,
    comparison,
    conditional,
    json,
    mathematical,
    periods,
    temporal,
    text,
    unsupported,
)
