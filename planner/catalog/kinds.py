"""The types of catalogs that CREATE CATALOG knows, and how each is opened.

Those of sessions and files are in :data:`OWN`. Those that connectors bring are found by
:func:`connectors.registry.find_catalog_type`.

Codes: OPT004, OPT101, OPT105.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stateplan.common.errors import OptionError, Place, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, OptionType
from stateplan.connectors.catalogs import CatalogType, catalog_values
from stateplan.connectors.registry import catalog_types, find_catalog_type
from stateplan.planner.catalog.catalogs import IN_MEMORY, Catalog, MemoryCatalog
from stateplan.planner.catalog.connector_catalog import ConnectedCatalog
from stateplan.planner.catalog.file_catalog import FILE, StoredCatalog
from stateplan.planner.catalog.manager import CatalogDescriptor, CatalogManager

_DATABASE = "The database that is current after USE CATALOG."


@dataclass(frozen=True)
class OwnType:
    """A type of catalog that is not a connector's.

    Attributes:
        name: the value of ``type``.
        options: besides ``type``.
        paths: keys of options that are paths or URLs.
        open: makes one, of its name, the values of its options and the session.
    """

    name: str
    options: tuple[Option, ...]
    paths: tuple[str, ...]
    open: Callable[[str, Mapping[str, Any], CatalogManager], Catalog]


def _in_memory(name: str, values: Mapping[str, Any], session: CatalogManager) -> Catalog:
    return MemoryCatalog(name, values["default-database"])


def _stored_catalog(name: str, values: Mapping[str, Any], session: CatalogManager) -> Catalog:
    return StoredCatalog(name, values["path"], values["default-database"], session)


OWN: dict[str, OwnType] = {
    kind.name: kind
    for kind in (
        OwnType(
            IN_MEMORY,
            (Option("default-database", OptionType.STRING, _DATABASE, default="default"),),
            (),
            _in_memory,
        ),
        OwnType(
            FILE,
            (
                Option("path", OptionType.STRING, "The folder of its files, as a path or URL.", is_required=True),
                Option("default-database", OptionType.STRING, _DATABASE, default="default"),
            ),
            ("path",),
            _stored_catalog,
        ),
    )
}
"""Type to what it is."""


def type_names() -> list[str]:
    """All types of catalogs that can be used."""
    return [*OWN, *(kind.name for kind in catalog_types())]


def find_type(options: Mapping[str, str], place: Place | None = None) -> OwnType | CatalogType:
    """The type that the options of CREATE CATALOG name.

    Raises:
        OptionError: OPT004, there is no option ``type``, or no such type; OPT109 or OPT110, one of another package that
            cannot be used.
    """
    name = options.get("type")
    catalog_type = None if name is None else OWN.get(name) or find_catalog_type(name, place)
    if catalog_type is None:
        names = type_names()
        problem = "the catalog has no option 'type'" if name is None else f"unknown type of catalog '{name}'"
        hint = None if name is None else nearest(name, names)
        raise OptionError("OPT004", problem=problem, names=names, place=place, hint=hint)
    return catalog_type


def check_options(
    options: Mapping[str, str], place: Place | None = None, places: Mapping[str, Place] | None = None
) -> tuple[OwnType | CatalogType, dict[str, Any]]:
    """The type of a catalog, and the values of its options with the defaults of the others.

    Args:
        options: the options of CREATE CATALOG, with ``type``.
        place: the place of the statement.
        places: the places of its options, by key.

    Raises:
        OptionError: OPT004, the type is unknown, or has no such option, or needs another one; OPT105, a value that
            cannot be read.
    """
    places = places or {}
    kind = find_type(options, places.get("type", place))
    own = {key: text for key, text in options.items() if key != "type"}
    return kind, catalog_values(kind.name, kind.options, own, place, places)


def open_catalog(name: str, descriptor: CatalogDescriptor, session: CatalogManager) -> Catalog:
    """The catalog that a descriptor defines. It does not connect to a server yet.

    Raises:
        OptionError: as :func:`check_options`.
        StateplanError: whatever keeps it from being opened.
    """
    kind, values = check_options(descriptor.options)
    if isinstance(kind, OwnType):
        return kind.open(name, values, session)
    own = {key: text for key, text in descriptor.options.items() if key != "type"}
    return ConnectedCatalog(name, kind.open(name, own))
