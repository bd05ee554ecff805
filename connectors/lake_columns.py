"""Columns that the table of a lake can have: one rule for all formats of tables, which differ in types and names."""

from __future__ import annotations

from collections.abc import Callable

from stateplan.common.errors import CatalogError, Place
from stateplan.common.types import LogicalType
from stateplan.connectors.formats.base import Fields


def check_lake_columns(
    fields: Fields,
    owner: str,
    check_type: Callable[[LogicalType], object],
    check_names: Callable[[str, LogicalType], None] | None = None,
    place: Place | None = None,
) -> None:
    """Checks that a table can have these columns.

    Args:
        fields: name and type of the columns.
        owner: the kind of table, with its article, for messages.
        check_type: raises ValueError, with the reason, for a type that such a table does not have.
        check_names: raises CatalogError for a name that it cannot have; gets a column and its type, whose fields have
            names too. None where all names are possible.
        place: where the columns are written.

    Raises:
        CatalogError: CAT102, a type or a name that such a table cannot have, or two names that differ by case only.
    """
    names: dict[str, str] = {}
    for name, data_type in fields:
        if check_names is not None:
            check_names(name, data_type)
        twin = names.setdefault(name.lower(), name)
        if twin != name:
            raise CatalogError("CAT102.names_by_case", owner=owner, name=name, twin=twin, place=place)
        try:
            check_type(data_type)
        except ValueError as error:
            reason = str(error)
            raise CatalogError(
                "CAT102.reason", column=name, type=data_type, reason=reason, owner=owner, place=place
            ) from None
