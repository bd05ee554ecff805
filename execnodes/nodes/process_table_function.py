"""Functions from tables to tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from stateplan.execnodes.changelog import ChangelogMode, RowKind, named
from stateplan.execnodes.model import ALWAYS, JsonObject, Text
from stateplan.execnodes.nodes.base import ExecNode, Stateless
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.types import LogicalType


@exec_node("process-table-function", inputs=None)
class ProcessTableFunction(ExecNode):
    """Calls a function that takes a table: ``FROM_CHANGELOG`` makes changes of rows, ``TO_CHANGELOG`` rows of changes.

    .. code-block:: sql

        INSERT INTO totals SELECT product, SUM(amount)
        FROM FROM_CHANGELOG(input => TABLE order_log, op => DESCRIPTOR(op)) GROUP BY product
    """

    WRITTEN_LAST: ClassVar[tuple[str, ...]] = ("uid", "function_call", "input_changelog_modes", "output_changelog_mode")
    NEEDS_UPDATE_BEFORE: ClassVar[bool | None] = True

    uid: Annotated[Text | None, ALWAYS] = None
    function_call: JsonObject
    input_changelog_modes: tuple[tuple[Text, ...], ...] = ()
    output_changelog_mode: tuple[Text, ...] = ()

    @property
    def function(self) -> str:
        """The function's name: the built-in one's without ``$`` and version, else the one in the catalog."""
        call = self.function_call
        name = str(call.get("internalName") or call.get("catalogName") or call.get("systemName") or "?")
        return name.removeprefix("$").rpartition("$")[0] if name.startswith("$") else name

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        return named(self.output_changelog_mode) or None

    def takes(self, position: int) -> ChangelogMode | None:
        modes = self.input_changelog_modes
        known = modes[position] if position < len(modes) else ()
        return named(known) or None

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateless:
        from stateplan.execnodes.runtime.kernels.changelog_functions import FromChangelogTransform, ToChangelogTransform

        names = [f.name for f in inputs[0].fields]
        codes = self._mapping() or {kind.name: kind.name for kind in RowKind}
        op = self._op()
        try:
            if self.function == "TO_CHANGELOG":
                texts = {kind: code for words, code in codes.items() for kind in row_kinds(words)}
                return Stateless((ToChangelogTransform(len(names), texts),))
            if self.function == "FROM_CHANGELOG" and op in names:
                kinds = {c.strip(): row_kinds(word)[0] for found, word in codes.items() for c in found.split(",")}
                return Stateless((FromChangelogTransform(names.index(op), len(names), kinds),))
        except KeyError as word:
            raise self.not_supported(f"the change operation {word}") from None
        raise self.not_supported(f"the function {self.function}")

    def _constants(self, argument: int) -> list[str]:
        """The constants in an argument; nothing for its default."""
        arguments = _operands(self.function_call)
        return [str(o.get("value")) for o in _operands(arguments[argument])] if argument < len(arguments) else []

    def _op(self) -> str:
        """The column of operation codes."""
        return next(iter(self._constants(1)), "op")

    def _mapping(self) -> dict[str, str]:
        """The argument ``op_mapping``; empty for its default."""
        values = self._constants(2)
        return dict(zip(values[::2], values[1::2], strict=False))

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        if self.function == "FROM_CHANGELOG":
            return f"makes changes of rows; column {self._op()} says which"
        if self.function == "TO_CHANGELOG":
            return f"makes rows of changes; column {self._op()} says which"
        return f"calls {self.function}"


def _operands(call: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = call.get("operands")
    return [o for o in found if isinstance(o, dict)] if isinstance(found, list) else []


def row_kinds(text: str) -> list[RowKind]:
    """The kinds that ``op_mapping`` names, such as ``INSERT, UPDATE_AFTER``. Raises KeyError for another word."""
    return [RowKind[word.strip()] for word in text.split(",")]
