"""What relations of the algebra share: fields, inputs, calls of aggregate functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from stateplan.common.errors import Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.functions.rex import Rex


@dataclass(frozen=True)
class InputHint:
    """What hints say of an input of an operator.

    Attributes:
        ttl: the TTL of the state that keeps its rows, ms; None if they do not say.
        late: the table that its late rows go to, as it is written; None if they do not say.
        text: the TTL as it is written.
    """

    ttl: int | None = None
    late: str | None = None
    text: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class QueryHints:
    """The hints of a SELECT as they are written, which Flink's logical plan shows at its joins and aggregates.

    Attributes:
        ttls: the TTLs of STATE_TTL, by name.
        multi: the tables of MULTI_JOIN.
        path: where the operator is, from the top of the SELECT: which input of which.
    """

    ttls: tuple[tuple[str, str], ...] = ()
    multi: tuple[str, ...] = ()
    path: tuple[int, ...] = ()


@dataclass(frozen=True)
class Rel:
    """A relational expression."""

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return ()

    @property
    def fields(self) -> tuple[Field, ...]:
        """Name and type of every field of its rows."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        return len(self.fields)

    @property
    def written_at(self) -> Place | None:
        """Where it is written; None for one that was made, or that is written nowhere by itself."""
        place: Place | None = vars(self).get("place")
        return place


@dataclass(frozen=True)
class Pair(Rel):
    """A relational expression over two."""

    left: Rel
    right: Rel

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Single(Rel):
    input: Rel

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.input,)

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.input.fields


@dataclass(frozen=True)
class Several(Rel):
    """A relational expression over any number of ``sources``."""

    sources: tuple[Rel, ...]

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return self.sources


@dataclass(frozen=True)
class AggCall:
    """One aggregate function call; ``name`` is None until the output field gets one."""

    function: str
    args: tuple[int, ...]
    type: LogicalType
    name: str | None = None
    distinct: bool = False
    filter: int = -1
    internal_name: str = ""
    syntax: str | None = None
    system_name: str | None = None
    catalog_name: str | None = None
    ignore_nulls: bool = False

    @property
    def is_user_defined(self) -> bool:
        return self.system_name is not None or self.catalog_name is not None


Field: TypeAlias = tuple[str, LogicalType]


@dataclass(frozen=True)
class ProjectAbility:
    """The source reads only some fields: positions of physical columns, and metadata keys.

    ``output_fields`` is the row after it; ``projects`` is False where only metadata is requested, and all columns are
    read. ``is_union`` says that it unites the projections of several scans: the metadata columns then count as
    projected ones.
    """

    physical: tuple[int, ...]
    metadata: tuple[str, ...]
    output_fields: tuple[Field, ...]
    projects: bool = True
    is_union: bool = False


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


@dataclass(frozen=True)
class WatermarkAbility:
    """The source makes the watermarks itself: ``watermark``, over the fields ``names`` that it produced when it got it.

    ``output_fields`` is the row after it, and ``rowtime`` the column of the table that it is for. ``idle_timeout`` is
    that of the session in ms, -1 for none; ``options`` are the table's ``scan.watermark.*``, without that prefix.
    """

    watermark: Rex
    names: tuple[str, ...]
    output_fields: tuple[Field, ...]
    rowtime: str
    idle_timeout: int = -1
    options: tuple[tuple[str, str], ...] = ()


Ability: TypeAlias = ProjectAbility | FilterAbility | PartitionAbility | LimitAbility | WatermarkAbility


@dataclass(frozen=True)
class RankStrategy:
    """How rows are ranked: ``AppendFast`` (nothing is retracted), ``UpdateFast`` (updates by ``keys``, which only move
    rows up) or ``Retract``."""

    name: Literal["AppendFast", "UpdateFast", "Retract"]
    keys: tuple[int, ...] = ()

    def __str__(self) -> str:
        keys = f"[{','.join(map(str, self.keys))}]" if self.name == "UpdateFast" else ""
        return f"{self.name}Strategy{keys}"


def fresh_name(name: str, names_in_use: Sequence[str], between: str = "_") -> str:
    """``name``, with a number behind it if the name is in use: ``a``, ``a_0``, ``a_1``."""
    candidate, n = name, 0
    while candidate in names_in_use:
        candidate = f"{name}{between}{n}"
        n += 1
    return candidate
