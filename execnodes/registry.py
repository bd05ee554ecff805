"""The table of exec nodes: (name, version) to class, and reading a node from its JSON.

A node file declares its class with :func:`exec_node`; the files of ``stateplan.execnodes.nodes`` are found by
themselves. Node types that Flink has and that do not run here yet load as
:class:`~execnodes.nodes.opaque.OpaqueNode`."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeVar

from stateplan.common.errors import Place, PlanError, nearest
from stateplan.execnodes.flink import FLINK_NODES, PREFIX
from stateplan.execnodes.model import value_text
from stateplan.execnodes.node_ttls import renamed_states
from stateplan.execnodes.nodes.base import entries_of, keeping_unknown
from stateplan.execnodes.validation import PlanWarning, escape, validate

if TYPE_CHECKING:
    from stateplan.execnodes.nodes.base import ExecNode


_N = TypeVar("_N", bound="ExecNode")
_NAME = re.compile(r"stream-exec-[a-z]+(-[a-z]+)*")
_TABLE: dict[tuple[str, int], type[ExecNode]] = {}


def exec_node(
    title: str, version: int = 1, *, inputs: int | EllipsisType | None = ..., states: tuple[str, ...] | None = None
) -> Callable[[type[_N]], type[_N]]:
    """Class decorator: puts a node into the table, as ``stream-exec-TITLE_VERSION``.

    Args:
        inputs: how many it has, None for one or more; by default as many as its base, or one.
        states: their names, in order of their index; by default those of its base.

    Raises:
        TypeError: for a title or version that is none, a class without docstring or a SQL example in it, or one whose
            (name, version) is taken. These are mistakes in the code, found when it is imported.
    """

    def add_to_table(cls: type[_N]) -> type[_N]:
        cls.NAME, cls.VERSION = PREFIX + title, version
        cls.INPUTS = cls.INPUTS if isinstance(inputs, EllipsisType) else inputs
        cls.STATE_NAMES = cls.STATE_NAMES if states is None else states
        if not _NAME.fullmatch(cls.NAME) or version < 1:
            raise TypeError(f"{cls.__name__} needs a title such as 'calc' and a version from 1")
        if ".. code-block:: sql" not in (cls.__dict__.get("__doc__") or ""):
            raise TypeError(f"{cls.__name__} needs a docstring with an example in SQL")
        other_class = _TABLE.get((cls.NAME, version))
        if other_class is not None:
            raise TypeError(f"{cls.__name__}: {cls.type_name()} is already {other_class.__name__}")
        _TABLE[cls.NAME, version] = cls
        return cls

    return add_to_table


@cache
def node_classes() -> Mapping[tuple[str, int], type[ExecNode]]:
    """All nodes that run here, by name and version, sorted."""
    import stateplan.execnodes.nodes as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_TABLE.items()))


def _class(name: str, version: int) -> type[ExecNode] | None:
    """The class of a node type, from the file that is called like it if there is one, else from any."""
    if (name, version) not in _TABLE and _NAME.fullmatch(name):
        module = f"stateplan.execnodes.nodes.{name.removeprefix(PREFIX).replace('-', '_')}"
        if importlib.util.find_spec(module) is not None:
            importlib.import_module(module)
    return _TABLE.get((name, version)) or node_classes().get((name, version))


def split_type(text: str) -> tuple[str, int]:
    """Name and version of a node's ``type``.

    Raises:
        PlanError: PLAN032, when the version is missing or not a number.
    """
    name, mark, version = text.rpartition("_")
    if not mark or not version.isdecimal() or not version.isascii() or len(version) > 6:
        versions = _versions(name or version)
        raise PlanError(
            "PLAN032",
            text=text,
            hint="write " + " or ".join(f"'{name or version}_{v}'" for v in versions)
            if versions
            else nearest(text, _type_names()),
        )
    return name, int(version)


def lookup(name: str, version: int) -> type[ExecNode] | None:
    """The class of a node type; None when Flink has that node but it does not run here yet.

    Raises:
        PlanError: PLAN033 (unknown version, with the known ones) or PLAN034 (unknown name, with the nearest).
    """
    node_class = _class(name, version)
    if node_class is not None:
        return node_class
    versions = _versions(name)
    if version in versions:
        return None
    if versions:
        raise PlanError("PLAN033", name=name, version=version, versions=" or ".join(map(str, versions)))
    hint = nearest(f"{name}_{version}", _type_names())
    if name.startswith("batch-exec-"):
        hint = "this is a plan of Flink's batch mode; compile the query in streaming mode"
    raise PlanError("PLAN034", name=name, version=version, prefix=PREFIX, hint=hint)


def node_class(type_name: str) -> type[ExecNode]:
    """The class that holds a node of this type: its own, or the one for nodes that do not run here yet.

    Raises:
        PlanError: PLAN032, PLAN033 or PLAN034.
    """
    from stateplan.execnodes.nodes.opaque import OpaqueNode

    return lookup(*split_type(type_name)) or OpaqueNode


def node_from_json(data: Any, pointer: str = "", strict_unknown: bool = True) -> tuple[ExecNode, list[PlanWarning]]:
    """A node from its JSON object.

    Args:
        data: the parsed JSON.
        pointer: JSON pointer of the node in the plan; places of errors and warnings start with it.
        strict_unknown: refuse unknown keys; else they are kept, written back, and returned as warnings. Names of
            states that Flink does not give, and TTLs without a unit, are warnings always.

    Raises:
        PlanError: with the JSON pointer as its place.
    """
    from stateplan.execnodes.nodes.opaque import OpaqueNode

    node, unknown_keys = validate(_class_of(data, pointer), data, pointer, strict_unknown)
    warnings = [key.warning for key in unknown_keys]
    if unknown_keys:
        node = keeping_unknown(node, ((key.path, key.value) for key in unknown_keys))
    if isinstance(node, OpaqueNode):
        flink_keys = FLINK_NODES[node.name].fields
        warnings += [
            PlanWarning(f"{pointer}/{escape(key)}", f"unknown key '{key}'", nearest(key, flink_keys))
            for key in node.fields
            if key not in flink_keys
        ]
        if warnings and strict_unknown:
            raise PlanError(
                "PLAN045.of_unknown_node",
                problem=warnings[0].message,
                known=", ".join(flink_keys),
                place=Place(pointer=warnings[0].pointer),
                hint=warnings[0].hint,
            )
    for position, entry, name in renamed_states(node):
        message = f"state {entry.index} of node {node.id} ({node.title}) is called '{entry.name}'"
        warnings.append(PlanWarning(f"{pointer}/state/{position}/name", message, f"expected: '{name}'"))
    return node, warnings + (_ttls_without_unit(data["state"], pointer) if entries_of(node) else [])


def _ttls_without_unit(entries: Sequence[Mapping[str, Any]], pointer: str) -> list[PlanWarning]:
    """Warnings about numbers as TTLs: Flink reads milliseconds, and their writer may have meant seconds."""
    warnings = []
    for position, entry in enumerate(entries):
        number = str(entry["ttl"]).strip()
        if number.isascii() and number.isdecimal() and int(number[:40]):
            hint = f'write "{number} ms", or "{number} s" for seconds'
            warnings.append(
                PlanWarning(
                    f"{pointer}/state/{position}/ttl", f"the TTL {number} has no unit, so it is milliseconds", hint
                )
            )
    return warnings


def _class_of(data: Any, pointer: str) -> type[ExecNode]:
    if not isinstance(data, dict):
        raise PlanError("PLAN031", what=f"is {value_text(data)}", place=Place(pointer=pointer), expected="an object")
    type_name = data.get("type")
    if not isinstance(type_name, str):
        problem = 'has no "type"' if "type" not in data else f"has the type {value_text(type_name)}"
        raise PlanError(
            "PLAN031",
            what=problem,
            prefix=PREFIX,
            place=Place(pointer=pointer),
            hint=None if "type" in data else nearest("type", data),
        )
    try:
        return node_class(type_name)
    except PlanError as error:
        error.place = Place(pointer=f"{pointer}/type")
        raise


def _versions(name: str) -> list[int]:
    flink = FLINK_NODES.get(name)
    own = [v for n, v in node_classes() if n == name]
    return sorted({*own, *(flink.versions if flink else ())})


def _type_names() -> list[str]:
    own = [f"{name}_{version}" for name, version in node_classes()]
    return own + [f"{node.name}_{version}" for node in FLINK_NODES.values() for version in node.versions]
