"""Facts about a whole plan, kept on its first sink node under the key ``stateplan``.

Flink ignores a key it does not know inside a node and refuses one at the top of the plan, so this is where
the SQL text, its hash and the hashes of the tables' schemas can travel in a plan that still runs on both
engines. Every node may also carry its ``uid`` there, and what ``plan lint`` shall not say about it (``suppress``).

Error codes: PLAN080 to PLAN083.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from stateplan.common.errors import Place, PlanError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import parse_ttl
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.shadows import SHADOW, SIDES
from stateplan.execnodes.side_outputs import ERRORS, LATE, TABLES, is_late
from stateplan.execnodes.side_outputs import KEY as SIDE_OUTPUT
from stateplan.plans.jsontext import join_pointer

FORMAT_VERSION = 1
"""Version of our additions to the plan. A plan with a later one is refused."""

KEY = "stateplan"
SUPPRESS = "suppress"
"""The node key of findings of ``plan lint`` that somebody has accepted: rule code -> reason."""

_SINK = "stream-exec-sink_"
_NODE_KEYS = ("uid", "compiledTtl", SUPPRESS, TABLES)
_ORIGINS = ("hint", "function", "option", "default")
_FACT_KEYS = ("formatVersion", "sql", "sqlHash", "schemaHashes")

_SQL_TOKEN = re.compile(
    r"""(?P<blank>\s+ | --[^\n]* | /\*(?!\+).*?\*/)
      | '(?:[^']|'')*' | `(?:[^`]|``)*` | "(?:[^"]|"")*"
      | /\*\+ | \*/ | <> | <= | >= | != | \|\| | => | \w+ | .""",
    re.X | re.S,
)


@dataclass(frozen=True)
class PlanFacts:
    """What a plan says about where it came from.

    Attributes:
        sql: the statement that was compiled, as written; None if it is not known.
        sql_hash: :func:`sql_hash` of it.
        schema_hashes: :func:`schema_hash` of every table of the plan, by identifier.
        format_version: see :data:`FORMAT_VERSION`.
    """

    sql: str | None = None
    sql_hash: str | None = None
    schema_hashes: Mapping[str, str] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    @classmethod
    def of(cls, sql: str | None, schema_hashes: Mapping[str, str] | None = None) -> PlanFacts:
        """The facts of a plan compiled from ``sql``."""
        return cls(sql, None if sql is None else sql_hash(sql), dict(schema_hashes or {}))

    def to_json(self) -> dict[str, Any]:
        """The JSON form; what is not known is omitted."""
        fields: dict[str, Any] = {"formatVersion": self.format_version}
        if self.sql is not None:
            fields["sql"] = self.sql
        if self.sql_hash is not None:
            fields["sqlHash"] = self.sql_hash
        if self.schema_hashes:
            fields["schemaHashes"] = dict(sorted(self.schema_hashes.items()))
        return fields


def normalize_sql(sql: str) -> str:
    """``sql`` for comparing: without comments and closing semicolons, tokens one blank apart.

    Literals, quoted names and hints (``/*+ ... */``) are kept; so is upper and lower case.
    """
    tokens = [m.group() for m in _SQL_TOKEN.finditer(sql) if m.lastgroup != "blank"]
    while tokens and tokens[-1] == ";":
        tokens.pop()
    return " ".join(tokens)


def sql_hash(sql: str) -> str:
    """Hash of the normalised text, 16 hexadecimal digits."""
    return _hash(normalize_sql(sql))


def same_sql(one: str, other: str) -> bool:
    """Whether two texts differ at most in blanks, comments and closing semicolons."""
    return normalize_sql(one) == normalize_sql(other)


def schema_hash(schema: Any) -> str:
    """Hash of a table's columns, key and watermarks, 16 hexadecimal digits; without comments and key names.

    Args:
        schema: the JSON of a plan's ``resolvedTable.schema``.
    """
    columns = [{k: v for k, v in column.items() if k != "comment"} for column in schema.get("columns") or ()]
    key = schema.get("primaryKey") or {}
    return _hash(
        json.dumps(
            [columns, key.get("columns"), schema.get("watermarkSpecs") or []],
            sort_keys=True,
            ensure_ascii=False,
        )
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _tables(node: Any) -> list[dict[str, Any]]:
    specs = (node.get("scanTableSource"), node.get("dynamicTableSink"))
    return [spec["table"] for spec in specs if isinstance(spec, dict) and isinstance(spec.get("table"), dict)]


def schema_hashes(graph: ExecGraph) -> dict[str, str]:
    """Schema hash by identifier of every source and sink table whose schema the plan holds."""
    hashes = {}
    for node in graph.nodes:
        for table in _tables(node.to_json()):
            schema = (table.get("resolvedTable") or {}).get("schema")
            if schema is not None:
                hashes[table["identifier"]] = schema_hash(schema)
    return hashes


def is_ours(data: Any) -> bool:
    """Whether the parsed JSON of a plan was written by stateplan: a sink node has our key.

    A suppression alone does not count: it is also written into plans of Flink.
    """
    nodes = data.get("nodes") if isinstance(data, dict) else None
    return isinstance(nodes, list) and any(
        isinstance(n, dict) and KEY in n and _is_sink(n.get("type")) and not _only_suppresses(n[KEY]) for n in nodes
    )


def _only_suppresses(extra: object) -> bool:
    return isinstance(extra, dict) and set(extra) == {SUPPRESS}


def _is_sink(type_name: object) -> bool:
    return isinstance(type_name, str) and type_name.startswith(_SINK)


def attach(graph: ExecGraph, facts: PlanFacts) -> ExecGraph:
    """``graph`` with the facts on its first sink, in place of any other it had; uids stay.

    Raises:
        PlanError: PLAN083, for a graph without a sink.
    """
    sinks = sorted(graph.sinks, key=graph.position)
    if not sinks:
        raise PlanError("PLAN083")
    changed_sinks = []
    for position, sink in enumerate(sinks):
        other_keys = {k: v for k, v in (sink.stateplan or {}).items() if k not in _FACT_KEYS}
        new_keys = other_keys | facts.to_json() if position == 0 else other_keys
        changed_sinks.append(sink.replace(stateplan=new_keys or None))
    return graph.replace(changed_sinks)


def facts_of(graph: ExecGraph, strict: bool = True) -> PlanFacts | None:
    """The facts of a plan, validated; None if it has none.

    Args:
        graph: the plan.
        strict: refuse unknown keys in our additions.

    Raises:
        PlanError: PLAN080 (a later format), PLAN081 (wrong type of value) or PLAN082 (unknown key), with the
            JSON pointer as place.
    """
    facts: PlanFacts | None = None
    for node in graph.nodes:
        extra = node.stateplan
        if extra is None:
            continue
        at = f"{graph.pointer(node)}/{KEY}"
        known_keys = (*_NODE_KEYS, *_FACT_KEYS, SIDE_OUTPUT, SHADOW) if _is_sink(node.type) else _NODE_KEYS
        unknown_key = next((k for k in extra if k not in known_keys), None)
        if unknown_key is not None and strict:
            raise PlanError(
                "PLAN082",
                unknown=unknown_key,
                known=known_keys,
                place=Place(pointer=at + join_pointer([unknown_key])),
                hint=nearest(unknown_key, known_keys),
            )
        if "uid" in extra:
            _text(extra["uid"], f"{at}/uid")
        if "compiledTtl" in extra:
            _check_compiled_ttls(extra["compiledTtl"], f"{at}/compiledTtl")
        _texts(extra.get(SUPPRESS, {}), f"{at}/{SUPPRESS}")
        tables = extra.get(TABLES, [])
        if not isinstance(tables, list) or not all(name is None or isinstance(name, str) for name in tables):
            raise PlanError(
                "PLAN081", form="text", dumps=json.dumps(tables)[:60], place=Place(pointer=f"{at}/{TABLES}")
            )
        kind = extra.get(SIDE_OUTPUT, LATE)
        if not isinstance(kind, str) or not (is_late(kind) or kind.startswith(ERRORS)):
            raise PlanError(
                "PLAN081",
                form="text",
                dumps=json.dumps(extra[SIDE_OUTPUT])[:60],
                place=Place(pointer=f"{at}/{SIDE_OUTPUT}"),
            )
        if extra.get(SHADOW, SIDES[0]) not in SIDES:
            raise PlanError(
                "PLAN081", form="text", dumps=json.dumps(extra[SHADOW])[:60], place=Place(pointer=f"{at}/{SHADOW}")
            )
        if _is_sink(node.type) and facts is None and any(k in extra for k in _FACT_KEYS):
            facts = _read(extra, at)
    return facts


def _text(value: Any, pointer: str) -> str:
    if not isinstance(value, str):
        raise PlanError("PLAN081", form="text", dumps=json.dumps(value)[:60], place=Place(pointer=pointer))
    return value


def _check_compiled_ttls(value: Any, pointer: str) -> None:
    """Whether ``value`` is a list with the TTL of each state when the plan was compiled, and its origin."""
    entries = value if isinstance(value, list) else [None]
    for position, entry in enumerate(entries):
        fits = isinstance(entry, dict) and set(entry) == {"ttl", "from"} and entry["from"] in _ORIGINS
        if not fits:
            raise PlanError(
                "PLAN081",
                form="list of TTLs",
                dumps=json.dumps(entry if isinstance(value, list) else value)[:60],
                origins=", ".join(_ORIGINS),
                place=Place(pointer=f"{pointer}/{position}" if isinstance(value, list) else pointer),
            )
        try:
            parse_ttl(_text(entry["ttl"], f"{pointer}/{position}/ttl"))
        except PlanError as error:
            error.place = Place(pointer=f"{pointer}/{position}/ttl")
            raise


def _texts(value: Any, pointer: str) -> dict[str, str]:
    """``value``, an object of texts."""
    if not isinstance(value, dict):
        raise PlanError("PLAN081", form="object", dumps=json.dumps(value)[:60], place=Place(pointer=pointer))
    return {key: _text(text, pointer + join_pointer([key])) for key, text in value.items()}


def _read(extra: Mapping[str, Any], at: str) -> PlanFacts:
    version = extra.get("formatVersion")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        problem = "is missing" if version is None else f"is {json.dumps(version)[:60]}"
        raise PlanError(
            "PLAN081.format_version",
            what=problem,
            place=Place(pointer=at if version is None else f"{at}/formatVersion"),
            expected=str(FORMAT_VERSION),
        )
    if version > FORMAT_VERSION:
        raise PlanError(
            "PLAN080",
            version=str(version)[:20],
            format_version=FORMAT_VERSION,
            place=Place(pointer=f"{at}/formatVersion"),
        )
    hashes = _texts(extra.get("schemaHashes", {}), f"{at}/schemaHashes")
    sql, digest = (None if extra.get(k) is None else _text(extra[k], f"{at}/{k}") for k in ("sql", "sqlHash"))
    return PlanFacts(sql, digest, hashes, version)
