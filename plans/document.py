"""A plan as a document: its text as somebody wrote it, and the exec graph that the text means.

Reading keeps the text, so that loading and writing changes no byte, and editing a TTL changes only that TTL.
New plans get the layout of Flink's own. Every error names file, line and column.

Error codes of edits: PLAN070 to PLAN073, PLAN106.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Literal, TypeAlias

from stateplan.common.errors import Place, PlanError, StateplanError, nearest
from stateplan.common.files import safe_url
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import NEVER, format_ttl, parse_ttl
from stateplan.execnodes.fingerprint import assign_uids, uids
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_ttls import ttl_home
from stateplan.execnodes.nodes.base import STATE_TTL, ExecNode
from stateplan.plans import jackson, plan_metadata, storage
from stateplan.plans.jsontext import SourceMap, decode, loads
from stateplan.plans.plan_metadata import PlanFacts
from stateplan.plans.text_splices import Splice, apply_splices, option_splice, state_splice, ttl_splice

TtlGiven: TypeAlias = str | timedelta | Literal[0]
"""A TTL in Python code: text in Flink's duration grammar or ``never``, a timedelta, or 0 for never."""

_ON_KEY = frozenset({"PLAN045", "PLAN082"})
"""Errors about a key; of others the value is underlined."""


@dataclass(frozen=True)
class PlacedWarning:
    """Something odd in a plan that does not stop it from being used, and where."""

    message: str
    place: Place
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.message} ({self.place})" + (f"; {self.hint}" if self.hint else "")


class PlanDocument:
    """A plan file.

    Use :meth:`load`, :meth:`parse` or :meth:`from_graph`.

    Attributes:
        graph: the exec graph, validated.
        text: the JSON text, without a byte order mark.
        source: the places of keys and values in it.
        file: path or URL it came from or was written to, if any.
        written_by: ``stateplan`` when a sink carries our facts, else ``Flink``.
        facts: what the plan says about its origin; None when Flink wrote it.
    """

    def __init__(self, text: str, file: str | None = None, bom: bool = False) -> None:
        self.text = text
        self.file = file
        self._bom = bom
        self._read()

    def _read(self) -> None:
        self.source = SourceMap(self.text, self.file and safe_url(self.file))
        data = loads(self.text, self.source.file)
        self.written_by: Literal["stateplan", "Flink"] = "stateplan" if plan_metadata.is_ours(data) else "Flink"
        ours = self.written_by == "stateplan"
        try:
            self.graph = ExecGraph.from_json(data, strict_unknown=ours)
            facts = plan_metadata.facts_of(self.graph, strict=ours)
            self.facts: PlanFacts | None = facts if ours else None
        except StateplanError as error:
            raise self._with_place(error) from None
        except RecursionError:
            raise PlanError("PLAN015", what="a part of the plan", place=self.source.place("/nodes")) from None

    @classmethod
    def parse(cls, text: str, file: str | None = None) -> PlanDocument:
        """A document from its text.

        Args:
            text: JSON; a byte order mark is kept apart and written back.
            file: its name, for messages.

        Raises:
            PlanError: when it is not a valid plan.
        """
        bom = text.startswith("\ufeff")
        return cls(text[1:] if bom else text, file, bom)

    @classmethod
    def load(cls, url: str) -> PlanDocument:
        """The plan at a path or URL (see :mod:`plans.storage`).

        Raises:
            PlanError: when it cannot be read or is not a valid plan.
        """
        return cls.from_bytes(storage.read_bytes(url), url)

    @classmethod
    def from_bytes(cls, data: bytes, file: str | None = None) -> PlanDocument:
        """A document from the bytes of a file; ``file`` is its name, for messages.

        Raises:
            PlanError: when it is not a valid plan.
        """
        text, bom = decode(data, file and safe_url(file))
        return cls(text, file, bom)

    @property
    def recorded_sql(self) -> str | None:
        """The statement that the plan was compiled from; None if it does not say."""
        return self.facts.sql if self.facts else None

    @classmethod
    def from_graph(cls, graph: ExecGraph, facts: PlanFacts | None = None) -> PlanDocument:
        """A new plan in Flink's layout, with a uid in every node and ``facts`` on its first sink.

        Args:
            graph: the compiled query.
            facts: where it came from; schema hashes it lacks are added from the tables in the graph.

        Raises:
            PlanError: when the graph is not a complete plan.
        """
        own_facts = facts or PlanFacts()
        hashes = {**plan_metadata.schema_hashes(graph), **own_facts.schema_hashes}
        all_facts = PlanFacts(own_facts.sql, own_facts.sql_hash, hashes, own_facts.format_version)
        return cls(jackson.dumps(plan_metadata.attach(assign_uids(graph), all_facts).to_json()))

    def _with_place(self, error: StateplanError) -> StateplanError:
        """``error`` with file, line and column beside its JSON pointer."""
        pointer = error.place.pointer if error.place else None
        place = self.source.place(pointer or "", error.code in _ON_KEY)
        return type(error).with_text(error.code, error.message, place=place, expected=error.expected, hint=error.hint)

    @contextlib.contextmanager
    def placing(self) -> Iterator[None]:
        """Within, an error that has a JSON pointer into this plan gets file, line and column."""
        try:
            yield
        except StateplanError as error:
            if error.place is None or error.place.line is not None or error.place.pointer is None:
                raise
            raise self._with_place(error) from error.__cause__

    def place(self, pointer: str, on_key: bool = False) -> Place:
        """File, line and column of a JSON pointer into this document; of the key when ``on_key``."""
        return self.source.place(pointer, on_key)

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return (b"\xef\xbb\xbf" if self._bom else b"") + self.text.encode("utf-8")

    @cached_property
    def warnings(self) -> tuple[PlacedWarning, ...]:
        """What is odd: keys that Flink 2.3 does not know, SQL text that does not fit its recorded hash."""
        placed_warnings = [
            PlacedWarning(w.message, self.place(w.pointer, on_key=True), w.hint) for w in self.graph.warnings
        ]
        if self.facts and self.facts.sql is not None and self.facts.sql_hash != plan_metadata.sql_hash(self.facts.sql):
            holder = next(n for n in self.graph.nodes if n.stateplan and "sql" in n.stateplan)
            placed_warnings.append(
                PlacedWarning(
                    "the recorded SQL was edited; it does not match its hash",
                    self.place(f"{self.graph.pointer(holder)}/stateplan/sql"),
                )
            )
        return tuple(sorted(placed_warnings, key=lambda warning: (warning.place.line or 0, warning.place.column or 0)))

    @cached_property
    def uids(self) -> Mapping[int, str]:
        """Node id to uid, computed from what the operators mean, whatever uid the file records."""
        return uids(self.graph)

    def write(self, url: str, overwrite: bool = False, if_not_exists: bool = False) -> bool:
        """Writes the text, whole or not at all.

        Args:
            url: path or URL.
            overwrite: replace an existing file (Flink's ``table.plan.force-recompile``).
            if_not_exists: leave an existing file alone.

        Returns:
            Whether it was written.

        Raises:
            PlanError: PLAN002 when the file exists and neither is set, else as :func:`storage.write_bytes`.
        """
        if if_not_exists and storage.exists(url):
            return False
        try:
            storage.write_bytes(url, self.data, overwrite and not if_not_exists)
        except PlanError as error:
            if if_not_exists and error.code == "PLAN002":
                return False
            raise
        if self.file is None:
            self.file = url
            self.source.file = safe_url(url)
        return True

    def set_ttl(
        self, node_id: int, index: int | str, ttl: str | int, session: Mapping[str, str] | None = None
    ) -> PlanDocument:
        """Changes the TTL of one state; see :meth:`set_ttls`."""
        return self.set_ttls([(node_id, index, ttl)], session)

    def set_ttls(
        self, edits: Iterable[tuple[int, int | str, str | int]], session: Mapping[str, str] | None = None
    ) -> PlanDocument:
        """Changes the TTLs of states in the text, all of them or none; every other byte stays.

        Where a plan says the same TTL in other words, it is left as it is. A node whose state is not in the plan yet
        gets one entry per state: those named with their new TTL, the others with the one they have now.

        Args:
            edits: id of the node, index or name of the state, and its TTL: text in Flink's duration grammar, ``never``,
                or milliseconds with 0 for never.
            session: the session's options, for states that neither the plan nor the node gives a TTL.

        Returns:
            This document.

        Raises:
            PlanError: PLAN070 (no such node), PLAN071 (it has no state with a TTL), PLAN072 (less than a
                millisecond), PLAN073 (no such state), PLAN106 (two TTLs for one state), PLAN05x (not a TTL).
        """
        return self.rewrite(self.ttl_splices(edits, session))

    def rewrite(self, splices: Sequence[Splice]) -> PlanDocument:
        """This document, changed.

        Raises:
            PlanError: when the new text is not a valid plan; the document is as it was then.
        """
        if splices:
            new = self.with_splices(splices)
            self.text, self.source, self.written_by = new.text, new.source, new.written_by
            self.graph, self.facts = new.graph, new.facts
            for cached_name in ("uids", "warnings"):
                with contextlib.suppress(AttributeError):
                    delattr(self, cached_name)
        return self

    def with_text(self, text: str) -> PlanDocument:
        """Another text for the same file; this document stays as it is."""
        return PlanDocument(text, self.file, self._bom)

    def with_splices(self, splices: Iterable[Splice]) -> PlanDocument:
        """The document with changes in its text; this one stays as it is."""
        return self.with_text(apply_splices(self.text, splices))

    def ttl_splices(
        self, edits: Iterable[tuple[int, int | str, str | int]], session: Mapping[str, str] | None = None
    ) -> tuple[Splice, ...]:
        """What :meth:`set_ttls` changes in the text. Raises as it does."""
        ttls_by_node: dict[int, dict[int, int]] = {}
        nodes: dict[int, ExecNode] = {}
        for node_id, index, ttl in edits:
            node = nodes[node_id] = self._stateful(node_id)
            slot, ms = _slot(node, index), edited_ttl(ttl)
            earlier = ttls_by_node.setdefault(node_id, {}).setdefault(slot, ms)
            if earlier != ms:
                raise PlanError(
                    "PLAN106", states=node.state_names[slot], node=node, ttls=(ttl_text(earlier), ttl_text(ms))
                )
        splices: list[Splice] = []
        for node_id, slots in ttls_by_node.items():
            node = nodes[node_id]
            pointer = self.graph.pointer(node)
            if ttl_home(node) == "configuration":
                ms = next(iter(slots.values()))
                if STATE_TTL not in (node.configuration or {}) or node.ttls() != (ms,):
                    splices.append(option_splice(self.source, pointer, node, STATE_TTL, format_ttl(ms)))
            elif node.states:
                changed_ttls = {slot: ms for slot, ms in slots.items() if node.states[slot].ttl != ms}
                splices += [ttl_splice(self.source, pointer, slot, ms) for slot, ms in changed_ttls.items()]
            else:
                ttls = [slots.get(slot, now) for slot, now in enumerate(node.ttls(session))]
                splices.append(state_splice(self.source, pointer, node, ttls))
        return tuple(splices)

    def _stateful(self, node_id: int) -> ExecNode:
        slots = {n.id: f"{n.id} ({n.title}: {', '.join(n.state_names)})" for n in self.graph.nodes if n.state_names}
        names = "one of " + "; ".join(slots.values()) if slots else "a plan with state; no operator of this one has any"
        node = next((n for n in self.graph.nodes if n.id == node_id), None)
        if node is None:
            raise PlanError("PLAN070", node_id=node_id, place=Place(file=self.source.file), expected=names)
        if not node.state_names:
            raise PlanError(
                "PLAN071",
                node_id=node_id,
                title=node.title,
                place=self.place(self.graph.pointer(node) + "/type"),
                expected=names,
            )
        return node


def _slot(node: ExecNode, index: int | str) -> int:
    names = node.state_names
    if isinstance(index, str) and index in names:
        return names.index(index)
    if isinstance(index, str) and index.isdecimal() and index.isascii() and len(index) < 10:
        index = int(index)
    if isinstance(index, int) and 0 <= index < len(names):
        return index
    raise PlanError(
        "PLAN073",
        id=node.id,
        title=node.title,
        index=index,
        enumerate=", ".join((f"{i} ({name})" for i, name in enumerate(names))),
        hint=nearest(index, names) if isinstance(index, str) else None,
    )


def edited_ttl(ttl: str | int) -> int:
    """Milliseconds of a TTL that somebody asks for: as in a plan, or ``never``.

    Raises:
        PlanError: PLAN072, for less than a millisecond, which Flink takes for never; PLAN05x, when it is not a TTL.
    """
    if isinstance(ttl, str) and ttl.strip().lower() == "never":
        return NEVER
    ms = parse_ttl(ttl)
    if ms == NEVER and isinstance(ttl, str) and any(c in "123456789" for c in ttl):
        raise PlanError("PLAN072", ttl=ttl.strip())
    return ms


def given_ttl(ttl: TtlGiven) -> int:
    """Milliseconds of a TTL in Python code.

    Raises:
        PlanError: PLAN050, for a number without a unit; as :func:`edited_ttl`.
    """
    if isinstance(ttl, timedelta):
        return edited_ttl(f"{ttl // timedelta(microseconds=1)} µs")
    if isinstance(ttl, int) and not isinstance(ttl, bool) and ttl != NEVER:
        raise PlanError("PLAN050.unit", number=ttl)
    return edited_ttl(ttl)


def ttl_text(ms: int) -> str:
    """``1 h``, or ``never``."""
    return "never" if ms == NEVER else format_ttl(ms)
