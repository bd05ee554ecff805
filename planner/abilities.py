"""What a scan has its source do: read some fields, rows or partitions only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from stateplan.execnodes.rex import Rex
from stateplan.execnodes.types import LogicalType

Field: TypeAlias = tuple[str, LogicalType]


@dataclass(frozen=True)
class ProjectAbility:
    """The source reads only some fields: positions of physical columns, and metadata keys.

    ``produced`` is the row after it; ``projects`` is False where only metadata is asked for, and all columns are read.
    ``merged`` says that it unites the projections of several scans: the metadata columns then count as projected ones.
    """

    physical: tuple[int, ...]
    metadata: tuple[str, ...]
    produced: tuple[Field, ...]
    projects: bool = True
    merged: bool = False


@dataclass(frozen=True)
class FilterAbility:
    """Predicates over the fields ``names``, which the source produced when it got them."""

    predicates: tuple[Rex, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class PartitionAbility:
    """The source reads only these partitions: per partition, its columns and their values as text, None for NULL."""

    partitions: tuple[tuple[tuple[str, str | None], ...], ...]


@dataclass(frozen=True)
class LimitAbility:
    """The source need not give more than ``limit`` rows."""

    limit: int


Ability: TypeAlias = ProjectAbility | FilterAbility | PartitionAbility | LimitAbility
