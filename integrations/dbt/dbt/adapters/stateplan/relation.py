"""Names of tables and views: catalog, database and name, each in backquotes."""

from __future__ import annotations

from dataclasses import dataclass, field

from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.relation import Policy, RelationType


@dataclass
class QuotePolicy(Policy):
    """Every part of a name is quoted."""

    database: bool = True
    schema: bool = True
    identifier: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class StateplanRelation(BaseRelation):
    """A table or a view. A name has its case: ``Orders`` is not ``orders``."""

    quote_policy: Policy = field(default_factory=QuotePolicy)
    quote_character: str = "`"
    require_alias: bool = False
    renameable_relations: frozenset[RelationType] = frozenset({RelationType.Table, RelationType.View})
    replaceable_relations: frozenset[RelationType] = frozenset({RelationType.View})
