"""What all exec nodes share: identity, configuration, inputs, state, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

from pydantic import Field, PrivateAttr, model_validator

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode, RowKind, union_mode
from stateplan.common.errors import PlanError, nearest
from stateplan.common.readable import amount
from stateplan.common.ttl import NEVER, parse_ttl
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import FieldRef, marked_refs
from stateplan.execnodes.model import (
    ALWAYS,
    NULL_IS_EMPTY,
    Index,
    JsonObject,
    OptionText,
    PlanModel,
    RowTypeField,
    Text,
    custom_error,
    meaning_of,
)
from stateplan.execnodes.specs import InputProperty, StateMetadata
from stateplan.execnodes.validation import escape
from stateplan.functions.rex import InputRef, Rex

STATE_TTL = "table.exec.state.ttl"
"""The option that gives the TTL of states a plan says nothing about."""

TIMED_STATE_TTL = "table.exec.time-bound-state.ttl"
"""The same for the states of :class:`TimeBoundNode`."""

TTL_OPTIONS = (STATE_TTL, TIMED_STATE_TTL)

StateList = Annotated[tuple[StateMetadata, ...], NULL_IS_EMPTY]

_HEAD = ("id", "type", "configuration")
_TAIL = ("input_properties", "output_type", "description", "stateplan")


class CompiledTtl(NamedTuple):
    """What the compiler wrote as the TTL of a state: milliseconds, and where it had that from."""

    ttl: int
    origin: Literal["hint", "function", "option", "default"]


def field_types(row: LogicalType) -> tuple[LogicalType, ...]:
    """The types of a ROW's fields."""
    return tuple(f.type for f in row.fields)


def projected_types(projection: Iterable[Rex], row: LogicalType) -> tuple[LogicalType, ...]:
    """The types of a projection of ``row``: of the fields that it passes on, and of what it computes."""
    return tuple(row.fields[r.index].type if isinstance(r, InputRef) else r.type for r in projection)


N = TypeVar("N", bound="ExecNode")


class ExecNode(PlanModel):
    """An operator of a plan. Subclasses add the fields of their type, in Flink's order.

    Attributes:
        id: unique in the plan; edges refer to it.
        type: ``NAME_VERSION``.
        configuration: options frozen when the plan was compiled; they win over the session's.
        input_properties: one per input.
        output_type: ROW of the node's output.
        description: free text for people.
        stateplan: our additions, such as ``uid``; Flink ignores them.
    """

    NAME: ClassVar[str] = ""
    VERSION: ClassVar[int] = 1
    STATE_NAMES: ClassVar[tuple[str, ...]] = ()
    """Names of the states, in order of their index."""
    INPUTS: ClassVar[int | None] = 1
    """Number of inputs; None for one or more."""
    ORDERED_INPUTS: ClassVar[bool] = True
    """Whether exchanging the inputs changes what the operator means."""
    WRITTEN_LAST: ClassVar[tuple[str, ...]] = ()
    """Attributes that Flink writes behind those that all nodes have."""
    KEEPS_FIELDS: ClassVar[bool] = False
    """Whether its rows have the fields of its first input."""
    PASSES_ROWS: ClassVar[bool] = False
    """Whether its rows begin with the fields of its first input, and it reads only fields that it refers to."""
    STORES_FIELDS: ClassVar[bool] = False
    """Whether its state has a column for each field of its inputs. Such state is kept when the fields move."""
    KEEPS_STATE: ClassVar[bool] = False
    """Whether nodes of this type keep state, with or without a TTL."""
    EMITS: ClassVar[ChangelogMode | None] = None
    """The kinds of changes that nodes of this type emit, whatever they get; None if it depends."""
    TAKES: ClassVar[ChangelogMode | None] = None
    """The kinds of changes that the inputs of nodes of this type can only have; None if it depends."""

    NAMED_STATES: ClassVar[bool] = False
    """Whether people chose the names of its states."""

    NEEDS_UPDATE_BEFORE: ClassVar[bool | None] = None
    """Whether inputs have to send the old rows of updates, whoever reads the node; None if its readers decide."""

    FORWARDS_ROWS: ClassVar[bool] = False
    """Whether it emits exactly the rows and changes that its inputs send."""
    HOLDS_LAST_ROW: ClassVar[bool] = False
    """Whether it keeps the last row of each key, to retract it when the next one arrives."""
    COUNTS_ROWS: ClassVar[bool] = False
    """Whether its results include each row until an input retracts it."""
    RESTARTS: ClassVar[bool] = False
    """Whether the results of a key start again after its state has expired."""
    DROPS_LATE_ROWS: ClassVar[bool] = False
    """Whether it drops late rows, if it works by event time."""
    CLOSES_WINDOWS: ClassVar[bool] = False
    """Whether it emits the rows of a window when the window ends."""
    EMITS_IN_ORDER: ClassVar[bool] = False
    """Whether its rows are in the order of event time, so that none of them is late downstream."""
    FOLLOWS_HINTS: ClassVar[bool] = False
    """Whether its states, which no hint can name, never expire where a hint says so of the states next to it."""

    id: Index
    type: Text = ""
    configuration: dict[str, OptionText] | None = None
    input_properties: Annotated[tuple[InputProperty, ...], NULL_IS_EMPTY] = ()
    output_type: RowTypeField
    description: Annotated[Text, ALWAYS] = ""
    stateplan: JsonObject | None = Field(default=None)

    _unknown_keys: tuple[tuple[tuple[str | int, ...], Any], ...] = PrivateAttr(default=())
    _modes: tuple[ChangelogMode | None, ...] = PrivateAttr(default=())
    _out_of_order: frozenset[int] = PrivateAttr(default=frozenset())

    @classmethod
    def type_name(cls) -> str:
        """``NAME_VERSION``, the value of ``type`` in the plan."""
        return f"{cls.NAME}_{cls.VERSION}"

    @classmethod
    def layout(cls) -> tuple[tuple[str, str, bool, Any], ...]:
        """As :meth:`PlanModel.layout`, the fields of the type between the common ones."""
        layout = cls.__dict__.get("_layout")
        if layout is None:
            fields = {entry[0]: entry for entry in super().layout()}
            own = [name for name in fields if name not in (*_HEAD, *_TAIL, *cls.WRITTEN_LAST)]
            if issubclass(cls, TimeBoundNode):  # its base has it, so it would come first
                own.sort(key=lambda name: name == "state")
            layout = tuple(fields[name] for name in (*_HEAD, *own, *_TAIL[:-1], *cls.WRITTEN_LAST, _TAIL[-1]))
            cls._layout = layout
        return layout

    @model_validator(mode="wrap")
    @classmethod
    def _of_its_type(cls, data: Any, validate: Callable[[Any], Self]) -> Self:
        """A node without a type has that of its class, and no node has another one."""
        if isinstance(data, dict) and cls.NAME and "type" not in data:
            data = {**data, "type": cls.type_name()}
        node = validate(data)
        if node.NAME and node.type != node.type_name():
            raise custom_error(PlanError("PLAN042", type=node.type, expected=node.type_name()), "/type")
        return node

    def to_json(self) -> dict[str, Any]:
        """The node as Flink 2.3 writes it, our additions last, unknown keys that were kept put back."""
        fields = super().to_json()
        for path, value in self._unknown_keys:
            target: Any = fields
            for step in path[:-1]:
                inside = isinstance(step, int) and isinstance(target, list) and step < len(target)
                target = target[step] if inside or (isinstance(target, dict) and step in target) else None
            if isinstance(target, dict):
                target[path[-1]] = value
        return fields

    def replace(self, **changes: Any) -> Self:
        """This node with other values for the given attributes; they are not validated again."""
        return self.model_copy(update=changes)

    @property
    def name(self) -> str:
        """The type without its version."""
        return self.type.rpartition("_")[0]

    @property
    def input_count(self) -> int | None:
        """How many inputs the node has; None for one or more."""
        return self.INPUTS

    @property
    def title(self) -> str:
        """The name in people's words: ``stream-exec-group-aggregate`` is ``group-aggregate``."""
        return self.name.removeprefix("stream-exec-") or self.type

    @property
    def label(self) -> str:
        """The node among others: ``join[5]``."""
        return f"{self.title}[{self.id}]"

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states this node keeps, in order of their index; empty for a node without TTL."""
        return self.STATE_NAMES

    @property
    def keeps_state(self) -> bool:
        """Whether this node may keep state, with or without a TTL."""
        return self.KEEPS_STATE

    @property
    def states(self) -> tuple[StateMetadata, ...]:
        """The plan's state entries by index; empty when the plan has none."""
        return ()

    def input_of_state(self, index: int) -> int:
        """The input whose rows a state keeps."""
        return index if len(self.input_properties) > 1 else 0

    @property
    def ttl_option(self) -> str:
        """The option that gives the TTL of states that the plan does not."""
        return STATE_TTL

    def ttls(self, session: Mapping[str, str] | None = None) -> tuple[int, ...]:
        """TTL of each state in milliseconds: the plan's, else the node's configuration's, else ``session``'s.

        Raises:
            PlanError: PLAN05x, when an option that decides is not a duration.
        """
        if self.states or not self.state_names:
            return tuple(entry.ttl for entry in self.states)
        for options in (self.configuration, session):
            if options and self.ttl_option in options:
                return (parse_ttl(options[self.ttl_option]),) * len(self.state_names)
        return (NEVER,) * len(self.state_names)

    def field_refs(self) -> Iterator[FieldRef]:
        """The input fields this node refers to, with the pointer of each reference relative to the node."""
        for position, prop in enumerate(self.input_properties):
            for k, key in enumerate(prop.required_distribution.keys):
                yield FieldRef(f"/inputProperties/{position}/requiredDistribution/keys/{k}", key, position)
        yield from marked_refs(self)

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType | None] | None:
        """The types of the output fields, given the ROW types of the inputs; None for those that are not known.

        A field of an input that is passed on has the very object that is its type there. Nullability, length and
        precision may differ from those of ``output_type``.
        """
        return field_types(inputs[0]) if self.KEEPS_FIELDS else None

    def changelog_mode(self, inputs: Sequence[ChangelogMode | None], update_before: bool) -> ChangelogMode | None:
        """The kinds of changes it emits; None if that cannot be determined. Most nodes pass on the kinds they get.

        Source: Flink's ``FlinkChangelogModeInferenceProgram``.

        Args:
            inputs: the kinds of changes that each input emits.
            update_before: whether those who read this node need the old rows of updates.
        """
        return union_mode(inputs) if self.EMITS is None else self.EMITS

    def needs_update_before(self, position: int, update_before: bool) -> bool:
        """Whether the input at ``position`` has to send the old rows of updates, where ``update_before`` says whether
        this node has to."""
        return update_before if self.NEEDS_UPDATE_BEFORE is None else self.NEEDS_UPDATE_BEFORE

    def takes(self, position: int) -> ChangelogMode | None:
        """The kinds of changes that the input at ``position`` can only have, where the node itself says so."""
        return self.TAKES

    def meaning(self) -> dict[str, Any]:
        """What the operator computes, for the fingerprint: its fields without states and cosmetic ones."""
        own, cosmetic = own_values(self), self.cosmetic_keys()
        own.pop("state", None)
        values = {
            key: meaning_of(own[name])
            for name, key, _, default in self.layout()
            if name in own and own[name] != default
        }
        return {key: value for key, value in {**self.absent_means(), **values}.items() if key not in cosmetic}

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        """What the operator does, in words, with the field names of ``inputs``, its inputs' ROWs."""
        raise NotImplementedError


def entries_of(node: ExecNode) -> tuple[StateMetadata, ...]:
    """The plan's state entries of a node, as they are written; nothing if the plan has none."""
    return node.entries if isinstance(node, StatefulNode) else ()


def own_fields(kind: type[ExecNode]) -> tuple[str, ...]:
    """Attributes that only this type of node has."""
    return tuple(name for name in kind.model_fields if name not in _HEAD and name not in _TAIL)


def own_values(node: ExecNode) -> dict[str, Any]:
    """The same of a node, with their values."""
    values = vars(node)
    return {name: values[name] for name in own_fields(type(node))}


def keeping_unknown(node: N, unknown_keys: Iterable[tuple[tuple[str | int, ...], Any]]) -> N:
    """A node with (path, value) pairs of unknown keys that :meth:`ExecNode.to_json` puts back."""
    copy = node.model_copy()
    copy._unknown_keys = tuple(unknown_keys)  # noqa: SLF001 - of this module
    return copy


def kept_keys(node: ExecNode) -> tuple[str, ...]:
    """Pointers, relative to a node, of keys that :func:`keeping_unknown` kept."""
    paths = (path for path, _ in node._unknown_keys)  # noqa: SLF001 - of this module
    return tuple("".join(f"/{escape(step)}" for step in path) for path in paths)


def with_input_modes(node: N, modes: Iterable[ChangelogMode | None], out_of_order: frozenset[int] = frozenset()) -> N:
    """A node that knows the kinds of changes that each input emits; None for one of which they cannot be determined.
    Of the inputs ``out_of_order`` a row may arrive before the one of its key that it replaces."""
    copy = node.model_copy()
    copy._modes = tuple(modes)  # noqa: SLF001 - of this module
    copy._out_of_order = out_of_order  # noqa: SLF001 - of this module
    return copy


def out_of_order(node: ExecNode) -> frozenset[int]:
    """The inputs of which a row may arrive before the one of its key that it replaces."""
    return node._out_of_order  # noqa: SLF001 - of this module


def upserts(node: ExecNode, position: int) -> bool:
    """Whether the input at ``position`` is known to update rows without sending their old rows."""
    modes = node._modes  # noqa: SLF001 - of this module
    mode = modes[position] if modes else None
    return mode is not None and RowKind.UPDATE_AFTER in mode and RowKind.UPDATE_BEFORE not in mode


def passes_changes(kind: type[ExecNode]) -> bool:
    """Whether nodes of this type emit the kinds of changes that they get."""
    return kind.EMITS is None and kind.changelog_mode is ExecNode.changelog_mode


def not_supported(node: ExecNode, feature: str) -> PlanError:
    """The error for something this version of stateplan cannot run: ``feature``, in words."""
    return PlanError("PLAN035", what=feature, id=node.id, description=node.description or node.type)


class StatefulNode(ExecNode):
    """A node that keeps state with a TTL per entry of ``state``."""

    KEEPS_STATE: ClassVar[bool] = True

    @property
    def entries(self) -> tuple[StateMetadata, ...]:
        """The plan's state entries, as they are written."""
        entries: tuple[StateMetadata, ...] = vars(self).get("state", ())
        return entries

    @property
    def states(self) -> tuple[StateMetadata, ...]:
        """The plan's state entries by index; empty when the plan has none."""
        return tuple(sorted(self.entries, key=lambda entry: entry.index))

    @model_validator(mode="after")
    def _state_is_complete(self) -> Self:
        entries, names = self.entries, self.state_names
        if entries and names:
            check_states(entries, names, self.title)
        if self.configuration and self.ttl_option in self.configuration:
            try:
                parse_ttl(self.configuration[self.ttl_option])
            except PlanError as error:
                raise custom_error(error, f"/configuration/{self.ttl_option}") from None
        return self


class TimeBoundNode(StatefulNode):
    """A node that drops its state by itself, once event time or the clock has passed it.

    Flink's plans have no ``state`` for such a node. One that is written here gives its states a TTL beside that, for
    input that falls idle; Flink passes over it. ``table.exec.state.ttl`` does not apply, as in Flink.
    """

    state: StateList = ()

    @property
    def ttl_option(self) -> str:
        """The option that gives the TTL of states that the plan does not."""
        return TIMED_STATE_TTL

    def retention(self, index: int) -> int:
        """How long a row of the state ``index`` is kept before time drops it, ms; 0 if the plan does not say."""
        return 0

    @model_validator(mode="after")
    def _ages_by_writes(self) -> Self:
        for position, entry in enumerate(self.state):
            if not entry.ttl_config(entry.ttl).is_plain:
                raise custom_error(PlanError("PLAN192", title=self.title, name=entry.name), f"/state/{position}")
        return self


class InsertOnlyNode(TimeBoundNode):
    """A time-bound node that takes insertions alone and emits insertions alone."""

    EMITS: ClassVar[ChangelogMode | None] = INSERT_ONLY
    TAKES: ClassVar[ChangelogMode | None] = INSERT_ONLY


def _own_index(name: str, names: Sequence[str]) -> str | None:
    if name in names:
        return f"'{name}' has the index {names.index(name)}"
    return nearest(name, names)


def check_states(entries: Sequence[StateMetadata], names: Sequence[str], title: str) -> None:
    """Whether there is one entry per state, with indexes 0, 1, ... in any order.

    Raises:
        PydanticCustomError: PLAN061 (number of entries), PLAN062 (an index twice), PLAN063 (index too large), PLAN057
            (the name of one state and the index of another).
    """
    slots = ", ".join(f"{i} {name}" for i, name in enumerate(names))
    expected = f"{amount(len(names), 'entry', 'entries')} for {title}: {slots}"
    if len(entries) != len(names):
        raise custom_error(
            PlanError("PLAN061", title=title, entries=entries, expected=expected),
            "/state",
        )
    position_of_index: dict[int, int] = {}
    for position, entry in enumerate(entries):
        if entry.index in position_of_index:
            raise custom_error(
                PlanError("PLAN062", title=title, index=entry.index, expected=expected),
                f"/state/{position}/index",
            )
        if entry.index >= len(names):
            raise custom_error(
                PlanError(
                    "PLAN063", title=title, index=entry.index, expected=expected, hint=_own_index(entry.name, names)
                ),
                f"/state/{position}/index",
            )
        if entry.name != names[entry.index] and entry.name in names:
            raise custom_error(
                PlanError(
                    "PLAN057",
                    title=title,
                    name=entry.name,
                    index=entry.index,
                    own=names.index(entry.name),
                    meant=names[entry.index],
                ),
                f"/state/{position}/index",
            )
        position_of_index[entry.index] = position
