"""Nodes of Flink that do not run here yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import ConfigDict, ModelWrapValidatorHandler, PrivateAttr, model_validator

from stateplan.common.changelog import ChangelogMode
from stateplan.common.types import LogicalType
from stateplan.execnodes.flink import FLINK_NODES
from stateplan.execnodes.model import to_json
from stateplan.execnodes.nodes.base import ExecNode, StatefulNode, StateList, kept_keys
from stateplan.execnodes.validation import escape


class OpaqueNode(StatefulNode):
    """A node that Flink has and that can be shown, edited and compared here, but not run.

    Its own fields are kept as JSON, in the order they were read; its state entries are checked as those
    of any other node."""

    model_config = ConfigDict(extra="allow")

    state: StateList = ()

    _keys: tuple[str, ...] = PrivateAttr(default=())

    @model_validator(mode="wrap")
    @classmethod
    def _remember_order(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        node = handler(data)
        if isinstance(data, dict):
            node._keys = tuple(data)  # noqa: SLF001 - of the same class
        return node

    @property
    def fields(self) -> dict[str, Any]:
        """The node's own fields as JSON."""
        return dict(self.model_extra or {})

    @property
    def input_count(self) -> int | None:
        return FLINK_NODES[self.name].inputs

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        return None

    def to_json(self) -> dict[str, Any]:
        """The node with its keys in the order they were read."""
        values = vars(self)
        common = {
            key: to_json(values[name])
            for name, key, _, default in self.layout()
            if key in self._keys or values[name] != default
        }
        fields = {
            **self.fields,
            **common,
            **({"state": [s.to_json() for s in self.state]} if self.state else {}),
        }
        return {key: fields[key] for key in dict.fromkeys((*self._keys, *fields)) if key in fields}

    def meaning(self) -> dict[str, Any]:
        return {key: value for key, value in self.fields.items() if key != "generateUpdateBefore"}

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        return f"{FLINK_NODES[self.name].about} (not supported yet)"


def unknown_keys(node: ExecNode) -> tuple[str, ...]:
    """Pointers, relative to a node, of keys that it does not have in Flink 2.3; they are kept."""
    if not isinstance(node, OpaqueNode):
        return kept_keys(node)
    flink_keys = FLINK_NODES[node.name].fields
    return (*kept_keys(node), *(f"/{escape(key)}" for key in node.fields if key not in flink_keys))
