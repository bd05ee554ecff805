"""Connectors and formats of other packages: found by entry points, and refused with a code when they do not fit."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import CatalogError, OptionError
from stateplan.common.options import Option, OptionType, Role
from stateplan.common.types import INT
from stateplan.connectors import registry
from stateplan.connectors.formats.base import Format
from stateplan.connectors.protocol import Connector
from tests.support.rooms import ROOMS

ROOT = Path(__file__).resolve().parents[2]
Declare = Callable[..., None]


class Bucket(Connector):
    name = "bucket"
    options = (Option("where", OptionType.STRING, "Where it is.", is_required=True),)
    roles = (Role.SOURCE,)
    formatted = True
    reserved = {"@seq": "the place in the bucket"}  # noqa: RUF012


class Sheet(Format):
    name = "sheet"
    sink_changes = None
    options = (Option("tab", OptionType.INTEGER, "Which tab.", default=1),)


class Breaks:
    name = "breaks"

    def __init__(self) -> None:
        raise ValueError("no bucket\nat all")


@pytest.fixture
def declare(monkeypatch: pytest.MonkeyPatch) -> Iterator[Declare]:
    """Declares names in a group, each with the object in this module that has it."""
    points: list[EntryPoint] = []

    def add(group: str, **names: str) -> None:
        points.extend(EntryPoint(name, f"{__name__}:{value}", f"stateplan.{group}") for name, value in names.items())

    monkeypatch.setattr(registry, "_entry_points", lambda group: tuple(p for p in points if p.group == group))
    before = dict(registry.CONNECTORS), dict(registry.FORMATS)
    yield add
    for table, kept in zip((registry.CONNECTORS, registry.FORMATS), before, strict=True):
        for name in set(table) - set(kept):
            del table[name]


def refused(options: dict[str, str], role: str = "source") -> str:
    with pytest.raises((OptionError, CatalogError)) as error:
        registry.validate_table(options, role)
    return str(error.value)


def test_a_connector_and_a_format_of_other_packages(declare: Declare) -> None:
    declare("connectors", bucket="Bucket")
    declare("formats", sheet="Sheet")
    table = {"connector": "bucket", "where": "there", "format": "sheet", "sheet.tab": "2"}
    assert registry.validate_table(table, "source", None, [("a", INT)]) == ()
    with pytest.raises(CatalogError, match="a bucket table has a column '@seq'"):
        registry.validate_table(table, "source", None, [("@seq", INT)])
    assert "cannot be written to" in refused(table, "sink")
    assert "[OPT105]" in refused(table | {"sheet.tab": "two"})
    assert "'bucket'" in refused({"connector": "buket"})
    assert "'sheet'" in refused({"connector": "filesystem", "path": "/x", "format": "shet"})
    files = {"connector": "filesystem", "path": "/x", "format": "sheet"}
    assert registry.validate_table(files, "source") == ()
    assert "the connector 'filesystem' has no format 'sheet'" in refused(files, "sink")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("Nowhere", "AttributeError: "),
        ("Breaks", "ValueError: no bucket"),
        ("INT", "is no stateplan.connectors.protocol.Connector"),
        ("Bucket", "calls itself 'bucket'"),
    ],
)
def test_one_that_cannot_be_loaded(declare: Declare, value: str, reason: str) -> None:
    declare("connectors", broken=value)
    text = refused({"connector": "broken"})
    assert text.startswith("[OPT109] the connector 'broken' of another package cannot be loaded: ") and reason in text
    assert registry.known_connector({"connector": "broken"}) is None
    assert "broken" not in [c.name for c in registry.connectors()]


def test_two_of_one_name(declare: Declare) -> None:
    declare("connectors", bucket="Bucket")
    declare("connectors", bucket="Other")
    assert refused({"connector": "bucket"}).startswith("[OPT110] the connector 'bucket' is in ")


def test_names_of_stateplan_stay_its_own(declare: Declare) -> None:
    declare("connectors", filesystem="Bucket")
    assert registry.validate_table({"connector": "filesystem", "path": "/x", "format": "json"}, "source") == ()
    (said,) = registry.clashing_names()
    assert said.startswith("the connector 'filesystem' of another package is not used")


def test_no_module_but_its_own_names_a_connector() -> None:
    """Its own are the file that declares it, or all files of its package; and the registry has a table of names."""
    declared = {name: Path(str(sys.modules[type(c).__module__].__file__)) for name, c in registry.CONNECTORS.items()}
    own = {name: (p if p.parent.name == "connectors" else p.parent).resolve() for name, p in declared.items()}
    wrong = []
    for path in (p for layer in ROOMS for p in (ROOT / layer).rglob("*.py")):
        if path == ROOT / "connectors" / "registry.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
            if name in own and not path.resolve().is_relative_to(own[name]):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("table", [registry.CONNECTORS, registry.FORMATS, registry.CATALOGS, registry.INTERNAL])
def test_the_tables_of_the_registry_have_the_names_of_their_classes(table: Mapping[str, Any]) -> None:
    assert {name: value.name for name, value in table.items()} == {name: name for name in table}
