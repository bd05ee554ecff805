"""How the rows of a table are laid out: hidden partitions and the order in files, as texts of options.

    bucket(16, id), days(at), truncate(4, name), region
    region ASC NULLS LAST, at DESC

Source: the transforms of Iceberg's specification, with the names of Iceberg's Spark DDL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import OptionError, nearest
from stateplan.common.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder

PARTITIONING, ORDERING = "partitioning", "sort-order"
"""The options."""

_TIMES = {"year": "year", "years": "year", "month": "month", "months": "month", "day": "day", "days": "day"}
_TIMES |= {"hour": "hour", "hours": "hour"}
_COLUMN = r"(?:`(?P<quoted>[^`]+)`|(?P<plain>[\w.]+))"
_TERM = re.compile(
    rf"\s*(?:(?P<transform>\w+)\(\s*(?:(?P<number>\d+)\s*,\s*)?(?=[`\w]))?{_COLUMN}\s*(?P<close>\))?"
    r"(?P<order>\s+(?:ASC|DESC))?(?P<nulls>\s+NULLS\s+(?:FIRST|LAST))?\s*(?:,|\Z)",
    re.IGNORECASE | re.ASCII,
)
_EXPECTED = {
    PARTITIONING: "columns and transforms, such as 'days(at), bucket(16, id), truncate(4, name), region'",
    ORDERING: "columns and transforms, such as 'region, at DESC NULLS LAST'",
}


@dataclass(frozen=True)
class Term:
    """A column, or a transform of one.

    Attributes:
        column: its name.
        transform: ``identity``, ``year``, ``month``, ``day``, ``hour``, ``bucket[n]`` or ``truncate[n]``, as metadata
            of Iceberg writes it.
        descending: whether files are sorted from the greatest value on.
        nulls_last: whether NULLs come last; None for the default of the direction.
    """

    column: str
    transform: str = "identity"
    descending: bool = False
    nulls_last: bool | None = None

    @property
    def text(self) -> str:
        """As an option writes it."""
        name = self.column if re.fullmatch(r"[\w.]+", self.column, re.ASCII) else f"`{self.column}`"
        kind, _, number = self.transform.rstrip("]").partition("[")
        if number:
            return f"{kind}({number}, {name})"
        return name if kind == "identity" else f"{kind}s({name})"

    @property
    def field_name(self) -> str:
        """The name of a partition field, as Iceberg's own writers choose it."""
        kind = self.transform.partition("[")[0]
        return self.column if kind == "identity" else f"{self.column}_{'trunc' if kind == 'truncate' else kind}"


def terms_of(text: str, key: str, columns: Sequence[str]) -> tuple[Term, ...]:
    """The terms of an option.

    Args:
        text: the value of the option.
        key: the option.
        columns: the names of the columns that there are.

    Raises:
        OptionError: OPT174, it cannot be read, or names no column.
    """
    terms: list[Term] = []
    at = 0
    while at < len(text):
        match = _TERM.match(text, at)
        if match is None or bool(match["transform"]) != bool(match["close"]):
            raise OptionError("OPT174", key=key, text=text[at:].strip(), expected=_EXPECTED[key])
        if key == PARTITIONING and (match["order"] or match["nulls"]):
            raise OptionError("OPT174", key=key, text=match[0].strip(" ,"), expected=_EXPECTED[key])
        terms.append(_term(match, key, columns))
        at = match.end()
    return tuple(terms)


def _term(match: re.Match[str], key: str, columns: Sequence[str]) -> Term:
    column = match["quoted"] or match["plain"]
    if column not in columns:
        hint = nearest(column, columns)
        raise OptionError("OPT174.column", key=key, column=column, columns=list(columns), hint=hint)
    word, number = (match["transform"] or "identity").lower(), match["number"]
    if word in ("bucket", "truncate") and number and int(number) > 0:
        transform = f"{word}[{int(number)}]"
    elif number is None and (word in _TIMES or word == "identity"):
        transform = _TIMES.get(word, word)
    else:
        raise OptionError("OPT174", key=key, text=match[0].strip(" ,"), expected=_EXPECTED[key])
    nulls = match["nulls"]
    return Term(
        column,
        transform,
        (match["order"] or "").strip().upper() == "DESC",
        None if nulls is None else nulls.split()[-1].upper() == "LAST",
    )


def partitioning_of(keys: Sequence[str], text: str | None, columns: Sequence[str]) -> tuple[Term, ...]:
    """The partition terms of a declaration: those of PARTITIONED BY, and those of the option. Raises OptionError
    OPT174."""
    return (*(Term(key) for key in keys), *terms_of(text or "", PARTITIONING, columns))


def library_transform(text: str) -> Any:
    """The transform of the library."""
    from pyiceberg.transforms import parse_transform

    return parse_transform(text)


def check_terms(terms: Sequence[Term], schema: Schema, key: str) -> None:
    """Raises OptionError OPT174, a transform does not suit the type of its column."""
    for term in terms:
        source = schema.find_field(term.column).field_type
        if not source.is_primitive or not library_transform(term.transform).can_transform(source):
            raise OptionError("OPT174.type", key=key, term=term.text, type=source)


def spec_of(terms: Sequence[Term], schema: Schema) -> PartitionSpec:
    """The partition spec of a new table. Raises OptionError OPT174."""
    from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec

    check_terms(terms, schema, PARTITIONING)
    return PartitionSpec(
        *(
            PartitionField(
                schema.find_field(term.column).field_id,
                PARTITION_FIELD_ID_START + i,
                library_transform(term.transform),
                term.field_name,
            )
            for i, term in enumerate(terms)
        )
    )


def order_of(terms: Sequence[Term], schema: Schema) -> SortOrder:
    """The sort order of a new table. Raises OptionError OPT174."""
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder

    check_terms(terms, schema, ORDERING)
    if not terms:
        return UNSORTED_SORT_ORDER
    fields = []
    for term in terms:
        nulls_last = term.descending if term.nulls_last is None else term.nulls_last
        fields.append(
            SortField(
                schema.find_field(term.column).field_id,
                library_transform(term.transform),
                SortDirection.DESC if term.descending else SortDirection.ASC,
                NullOrder.NULLS_LAST if nulls_last else NullOrder.NULLS_FIRST,
            )
        )
    return SortOrder(*fields)


def partition_terms(schema: Schema, spec: PartitionSpec) -> tuple[Term, ...]:
    """The terms of a table's partition spec. Fields that an older format has removed are no terms."""
    return tuple(
        Term(str(schema.find_column_name(field.source_id)), str(field.transform))
        for field in spec.fields
        if str(field.transform) != "void"
    )


def sort_terms(schema: Schema, order: SortOrder) -> tuple[Term, ...]:
    """The terms of a table's sort order."""
    return tuple(
        Term(
            str(schema.find_column_name(field.source_id)),
            str(field.transform),
            str(field.direction.name) == "DESC",
            str(field.null_order.name) == "NULLS_LAST",
        )
        for field in order.fields
    )


def order_text(terms: Sequence[Term]) -> str:
    """Sort terms as an option writes them."""
    return ", ".join(
        term.text
        + (" DESC" if term.descending else "")
        + ("" if term.nulls_last in (None, term.descending) else f" NULLS {'LAST' if term.nulls_last else 'FIRST'}")
        for term in terms
    )
