"""How plans name the row around a query or a table function: ``$cor0``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Correlations:
    """The names of a session. Flink numbers them over all statements, those of views included, and takes a number for
    each reference to a row around.

    Attributes:
        count: of the references so far.
    """

    count: int = 0

    def referred(self, times: int = 1) -> str:
        """The name of a row that is referred to so often."""
        name = f"$cor{self.count}"
        self.count += times
        return name
