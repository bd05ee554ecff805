"""Names of correlation variables in plans: ``$cor0`` is the outer row that a subquery or a table function refers to."""

from __future__ import annotations

from stateplan.common.lazy_dataclass import dataclass


@dataclass
class Correlations:
    """The correlation names of a session. Flink numbers them across all statements, including those of views. Each
    reference to an outer row uses up a number.

    Attributes:
        count: the number of references so far.
    """

    count: int = 0

    def referred(self, times: int = 1) -> str:
        """The name of an outer row that is referred to ``times`` times."""
        name = f"$cor{self.count}"
        self.count += times
        return name
