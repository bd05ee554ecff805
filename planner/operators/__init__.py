"""The definitions of all relational operators, a module for each family: see :class:`planner.operators.base.Operator`.

Importing this package fills the table of definitions.
"""

from stateplan.planner.operators import (  # noqa: F401  the table is filled by importing them
    aggregates,
    changelog,
    joins,
    match,
    process_tables,
    ranking,
    rows,
    tables,
    windows,
)
from stateplan.planner.operators.base import describe, describe_physical, operator_of

__all__ = ["describe", "describe_physical", "operator_of"]
