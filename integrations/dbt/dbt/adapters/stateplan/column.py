"""A column of a table or view, with its SQL type as one text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dbt.adapters.base.column import Column

TYPE_NAMES = {
    "TEXT": "STRING",
    "INTEGER": "INT",
    "FLOAT": "DOUBLE",
    "NUMERIC": "DECIMAL(28, 6)",
    "TIMESTAMP": "TIMESTAMP(6)",
}
"""By dbt's name for a type, its name in SQL."""


@dataclass
class StateplanColumn(Column):
    """A column. ``dtype`` is the whole type, such as ``DECIMAL(10, 2)``."""

    TYPE_LABELS: ClassVar[dict[str, str]] = TYPE_NAMES

    @property
    def quoted(self) -> str:
        return quote(self.column)

    @property
    def data_type(self) -> str:
        return self.dtype

    def is_string(self) -> bool:
        return self.dtype.upper().startswith(("STRING", "VARCHAR", "CHAR"))

    def is_number(self) -> bool:
        return self.is_integer() or self.is_float() or self.is_numeric()

    def is_integer(self) -> bool:
        return self.dtype.upper().startswith(("TINYINT", "SMALLINT", "INT", "BIGINT")) and not self._is_interval

    def is_float(self) -> bool:
        return self.dtype.upper().startswith(("FLOAT", "DOUBLE"))

    def is_numeric(self) -> bool:
        return self.dtype.upper().startswith("DECIMAL")

    @property
    def _is_interval(self) -> bool:
        return self.dtype.upper().startswith("INTERVAL")

    def string_size(self) -> int:
        return 2**31 - 1

    def can_expand_to(self, other_column: Column) -> bool:
        """A type is never changed in place."""
        return False


def quote(name: str) -> str:
    """A name in backquotes."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def literal(text: str) -> str:
    """A text in single quotes."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
