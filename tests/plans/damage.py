"""Plans damaged at random: one mutator for all tests, driven by a ``random.Random`` (hypothesis can be one).

A draft goes through three stages. As a *value* (parsed JSON) it loses, gains and exchanges parts; as *text* it is laid
out anew and its tokens are damaged; as *bytes* it is cut, encoded otherwise and spoilt. Each damage is one function of
one of the three tables below, so that a new kind is one function more.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from stateplan.plans.jackson import dumps
from tests.conftest import ROOT, shared_folder
from tests.plans import damage_values as bad
from tests.plans.damage_text import BYTES, TEXTS


@dataclass(frozen=True)
class Original:
    """A plan that is valid, by the name of its file."""

    name: str
    text: str


@dataclass(frozen=True)
class Damaged:
    """A plan after damage, with what was done to it."""

    original: Original
    steps: tuple[str, ...]
    data: bytes

    def __str__(self) -> str:
        return f"{self.original.name}: " + ", ".join(self.steps)


_FOLDERS = ("frozen/*/*.json", "plans/data/*/plan.json", "planner/own_plans/*/plan.json", "e2e/cases/*/plan.json")


@cache
def originals() -> tuple[Original, ...]:
    """Plans of Flink and of our planner: those of the tests, and those of the reference material where there is any."""
    found = [path for pattern in _FOLDERS for path in sorted((ROOT / "tests").glob(pattern))]
    shared = shared_folder()
    if shared is not None:
        found += [*sorted(shared.glob("cases/*/plan.json")), *sorted(shared.glob("plans/*/*.json"))]
    return tuple(Original(_name(path), path.read_bytes().decode()) for path in found)


def _name(path: Path) -> str:
    return "/".join(path.parts[-3:])


_MARK = "@@{}@@"

_DEPTHS = (5, 120, 199, 201, 400, 501, bad.HUGE)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    out: list[tuple[Any, Any]] = []
    stack = [value]
    while stack:
        current = stack.pop()
        keys = current if isinstance(current, dict) else range(len(current)) if isinstance(current, list) else ()
        for key in keys:
            out.append((current, key))
            stack.append(current[key])
    return out


def _place(value: Any, rng: Random, wanted: Callable[[Any, Any], bool] | None = None) -> tuple[Any, Any] | None:
    """One (container, key) of those ``wanted`` by key and value; None when there is none."""
    found = _places(value)
    if wanted is not None:
        found = [(container, key) for container, key in found if wanted(key, container[key])]
    return rng.choice(found) if found else None


def _show(key: Any) -> str:
    return repr(key)[:40]


def _remove(plan: Any, rng: Random) -> str | None:
    place = _place(plan, rng)
    if place is None:
        return None
    del place[0][place[1]]
    return f"removed {_show(place[1])}"


def _rename(plan: Any, rng: Random) -> str | None:
    place = _place(plan, rng, lambda key, _: isinstance(key, str))
    if place is None:
        return None
    owner, key = place
    new = rng.choice((f"{key}s", key[:-1], key.upper(), f" {key}", *bad.NAMES))
    order = list(owner)
    owner[new] = owner.pop(key)
    for later in order[order.index(key) + 1 :]:
        if later != new:
            owner[later] = owner.pop(later)
    return f"renamed {_show(key)} to {_show(new)}"


def _replace(plan: Any, rng: Random) -> str | None:
    place = _place(plan, rng)
    if place is None:
        return None
    value = place[0][place[1]] = copy.deepcopy(rng.choice(bad.ANY))
    return f"set {_show(place[1])} to {_show(value)}"


def _copied(plan: Any, rng: Random) -> str | None:
    """A value gets the place of another, of this plan or of a plan of another."""
    target = _place(plan, rng)
    other = plan if rng.random() < 0.6 else json.loads(rng.choice(originals()).text)
    source = _place(other, rng)
    if target is None or source is None:
        return None
    target[0][target[1]] = copy.deepcopy(source[0][source[1]])
    return f"put {_show(source[1])} at {_show(target[1])}"


def _added(plan: Any, rng: Random) -> str | None:
    """An object gets a key, often one that another object of some plan has."""
    place = _place(plan, rng, lambda _, value: isinstance(value, dict))
    other = json.loads(rng.choice(originals()).text)
    source = _place(other, rng, lambda key, _: isinstance(key, str))
    if place is None or source is None:
        return None
    key, value = source[1], copy.deepcopy(source[0][source[1]])
    if rng.random() < 0.3:
        key = rng.choice(bad.NAMES)
    place[0][place[1]][key] = value
    return f"gave {_show(place[1])} the key {_show(key)}"


def _wrapped(plan: Any, rng: Random) -> str | None:
    place = _place(plan, rng)
    if place is None:
        return None
    value = place[0][place[1]]
    place[0][place[1]] = rng.choice(([value], {"x": value}, [value, value], [[value]], str(value)[:200]))
    return f"wrapped {_show(place[1])}"


def _entries(plan: Any, rng: Random) -> str | None:
    """Entries of a list, or members of an object, are doubled, exchanged, reversed or dropped."""
    place = _place(plan, rng, lambda _, value: isinstance(value, list) and len(value) > 0)
    if place is None:
        return None
    entries = place[0][place[1]]
    what = rng.choice(("doubled", "swapped", "reversed", "emptied", "many"))
    one, two = rng.randrange(len(entries)), rng.randrange(len(entries))
    if what == "doubled":
        entries.insert(two, copy.deepcopy(entries[one]))
    elif what == "swapped":
        entries[one], entries[two] = entries[two], entries[one]
    elif what == "reversed":
        entries.reverse()
    elif what == "emptied":
        entries.clear()
    else:
        entries.extend([entries[one]] * rng.choice((10, 300)))
    return f"{what} entries of {_show(place[1])}"


def _number(plan: Any, rng: Random) -> str | None:
    place = _place(plan, rng, lambda _, value: isinstance(value, int) and not isinstance(value, bool))
    if place is None:
        return None
    now = place[0][place[1]]
    new = rng.choice(
        (now + 1, now - 1, -now - 1, now * 1000, 2**31 - 1, 2**31, -(2**31), 2**63, 1e3, now + 0.5, str(now))
    )
    place[0][place[1]] = new
    return f"set {_show(place[1])} from {now} to {new!r}"


def _huge(plan: Any, rng: Random) -> str | None:
    place = _place(plan, rng)
    if place is None:
        return None
    what = rng.choice(("digits", "fraction", "exponent", "text", "text of many lines", "key", "list", "object"))
    value: Any
    if what == "digits":
        value = _MARK.format("digits")
    elif what == "fraction":
        value = _MARK.format("fraction")
    elif what == "exponent":
        value = _MARK.format("exponent")
    elif what == "text":
        value = rng.choice(("x", "\u00e9", "\\", "ROW<", "(", "`a` INT, ")) * rng.choice((bad.HUGE, 300_000))
    elif what == "text of many lines":
        value = "a b\n" * 100_000
    elif what == "key":
        value = {"k" * 200_000: 1}
    elif what == "list":
        value = [0] * 20_000
    else:
        value = {f"key{i}": i for i in range(5_000)}
    place[0][place[1]] = value
    return f"huge {what} at {_show(place[1])}"


def _deep(plan: Any, rng: Random) -> str | None:
    place = _place(plan, rng)
    if place is None:
        return None
    kind, depth = rng.randrange(len(bad.DEEP)), rng.choice(_DEPTHS)
    place[0][place[1]] = _MARK.format(f"deep:{kind}:{depth}")
    return f"{depth} levels of {bad.DEEP[kind][0]} at {_show(place[1])}"


_TYPE_TEXT = re.compile(r"\s*(ROW<|[A-Z_]{3,}(\(\d+(, \d+)?\))?( NOT NULL)?$)")


def _type(plan: Any, rng: Random) -> str | None:
    place = _place(plan, rng, lambda key, value: isinstance(value, str) and bool(_TYPE_TEXT.match(value)))
    if place is None:
        return None
    now = place[0][place[1]]
    what = rng.randrange(5)
    numbers = [m.span() for m in re.finditer(r"\d+", now)]
    if what == 0 and numbers:
        start, end = rng.choice(numbers)
        new = now[:start] + rng.choice(("0", "-1", "39", "999999999999", "1.5", "x", "")) + now[end:]
    elif what == 1:
        at = rng.randrange(len(now))
        new = now[:at] + rng.choice(("<", ">", ",", "`", "'", " ", "NOT NULL", "(", ")", "", "x")) + now[at + 1 :]
    elif what == 2:
        new = now[: rng.randrange(len(now))]
    elif what == 3:
        new = re.sub(
            r"\b(INT|BIGINT|VARCHAR\(\d+\)|DOUBLE|TIMESTAMP(_LTZ)?\(\d\))", rng.choice(bad.TYPES[:30]), now, count=1
        )
    else:
        new = rng.choice(bad.TYPES)
    place[0][place[1]] = new
    return f"type {_show(now)} to {_show(new)}"


def _ttl(plan: Any, rng: Random) -> str | None:
    place = _place(plan, rng, lambda key, _: key in ("ttl", "table.exec.state.ttl", "size", "slide", "index", "state"))
    if place is None:
        return None
    new = rng.choice((*bad.DURATIONS, 3_600_000, -5, 10**25, 1.5, None, True, []))
    place[0][place[1]] = new
    return f"{place[1]} to {_show(new)}"


def _nodes(plan: Any) -> list[Any] | None:
    nodes = plan.get("nodes") if isinstance(plan, dict) else None
    return nodes if isinstance(nodes, list) and nodes and all(isinstance(n, dict) for n in nodes) else None


def _edges(plan: Any) -> list[Any] | None:
    edges = plan.get("edges") if isinstance(plan, dict) else None
    return edges if isinstance(edges, list) and edges and all(isinstance(e, dict) for e in edges) else None


def _edge(plan: Any, rng: Random) -> str | None:
    edges = _edges(plan)
    if edges is None:
        return None
    edge = rng.choice(edges)
    what = rng.choice(("self", "reversed", "nowhere", "double", "removed", "moved", "back", "shuffle", "key"))
    if what == "self":
        edge["target"] = edge.get("source")
    elif what == "reversed":
        edge["source"], edge["target"] = edge.get("target"), edge.get("source")
    elif what == "nowhere":
        edge[rng.choice(("source", "target"))] = rng.choice((0, -1, 999, 10**20, None, "1", 1.0, True))
    elif what == "double":
        edges.insert(rng.randrange(len(edges)), copy.deepcopy(edge))
    elif what == "removed":
        edges.remove(edge)
    elif what == "moved":
        edge[rng.choice(("source", "target"))] = rng.choice(edges).get(rng.choice(("source", "target")))
    elif what == "back":
        edges.append({**edge, "source": edge.get("target"), "target": edge.get("source")})
    elif what == "shuffle":
        edge[rng.choice(("shuffle", "shuffleMode"))] = rng.choice(
            ({"type": "HASH"}, {"type": 1}, "BATCH", None, {}, [])
        )
    else:
        edge[rng.choice(bad.NAMES)] = edge.pop(rng.choice(list(edge)))
    return f"edge {what}"


def _node(plan: Any, rng: Random) -> str | None:
    nodes = _nodes(plan)
    if nodes is None:
        return None
    node, other = rng.choice(nodes), rng.choice(nodes)
    what = rng.choice(
        ("removed", "twice", "copied", "ids", "order", "type", "version", "fields", "negative", "swapped")
    )
    if what == "removed":
        nodes.remove(node)
    elif what == "twice":
        nodes.insert(rng.randrange(len(nodes)), copy.deepcopy(node))
    elif what == "copied":
        nodes.append({**copy.deepcopy(node), "id": rng.choice((77, 0, 10**12))})
    elif what == "ids":
        node["id"], other["id"] = other.get("id"), node.get("id")
    elif what == "order":
        rng.shuffle(nodes)
    elif what == "type":
        foreign = _nodes(json.loads(rng.choice(originals()).text)) or nodes
        node["type"] = rng.choice(foreign).get("type")
    elif what == "version":
        node["type"] = re.sub(r"\d+$", rng.choice(("0", "2", "3", "99", "-1", "", "٢", "1.0")), str(node.get("type")))
    elif what == "fields":
        foreign = _nodes(json.loads(rng.choice(originals()).text)) or nodes
        node |= {k: v for k, v in rng.choice(foreign).items() if k not in ("id", "type")}
    elif what == "negative":
        node["id"] = rng.choice((-1, -(10**20), 0, 10**20, 2**31))
    else:
        node["outputType"], other["outputType"] = other.get("outputType"), node.get("outputType")
    return f"node {what}"


def _many(plan: Any, rng: Random) -> str | None:
    """The plan many times over in one file, with ids of their own."""
    nodes, edges = _nodes(plan), _edges(plan)
    if nodes is None or edges is None:
        return None
    times = rng.choice((20, 60)) if len(nodes) < 10 else 10
    own, ways = copy.deepcopy(nodes), copy.deepcopy(edges)
    for count in range(1, times):
        step = 1000 * count
        nodes += [{**copy.deepcopy(n), "id": _plus(n.get("id"), step)} for n in own]
        edges += [{**e, "source": _plus(e.get("source"), step), "target": _plus(e.get("target"), step)} for e in ways]
    return f"the plan {times} times"


def _diamonds(plan: Any, rng: Random) -> str | None:
    edges = _edges(plan)
    return None if edges is None else diamonds(plan, rng.choice(edges), rng.choice((3, 12, 40)))


def diamonds(plan: Any, edge: Any, count: int) -> str | None:
    """Puts unions on an edge, each of the one before it twice: as many ways through the plan as they have subsets."""
    nodes, edges = _nodes(plan), _edges(plan)
    if nodes is None or edges is None:
        return None
    source = next((n for n in nodes if n.get("id") == edge.get("source")), None)
    if source is None:
        return None
    either = {"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}
    ids = [70_000 + i for i in range(count)]
    for number, before in zip(ids, [edge["source"], *ids], strict=False):
        union = {"id": number, "type": "stream-exec-union_1", "inputProperties": [either, either]}
        nodes.append({**union, "outputType": copy.deepcopy(source.get("outputType")), "description": "Union"})
        edges += [{**edge, "source": before, "target": number}] * 2
    edge["source"] = ids[-1]
    return f"{count} diamonds"


def _plus(number: Any, step: int) -> Any:
    return number + step if isinstance(number, int) and not isinstance(number, bool) else number


def _rex(plan: Any, rng: Random) -> str | None:
    place = _place(plan, rng, lambda _, value: isinstance(value, dict) and "kind" in value)
    if place is None:
        return None
    rex = place[0][place[1]]
    operands = rex.get("operands")
    if isinstance(operands, list) and rng.random() < 0.7:
        what = rng.choice(("none", "one less", "one more", "many", "name", "other"))
        if what == "none":
            rex["operands"] = []
        elif what == "one less":
            rex["operands"] = operands[:-1]
        elif what == "one more":
            rex["operands"] = [*operands, copy.deepcopy(rng.choice(operands))] if operands else [{"kind": "LITERAL"}]
        elif what == "many":
            rex["operands"] = operands * 50
        elif what == "name":
            names = (
                "$=$1",
                "$CASE$1",
                "$AND$1",
                "$CAST$1",
                "$NOT$1",
                "$LIKE$1",
                "$SUBSTRING$1",
                "$nosuch$1",
                "",
                "$=$2",
                "x",
            )
            rex.pop("systemName", None)
            rex["internalName"] = rng.choice(names)
        else:
            key = rng.choice(("systemName", "catalogName", "syntax", "sqlKind", "class"))
            rex[key] = rng.choice(("x", "`a`.`b`.`f`", "SPECIAL", 1, None))
        return f"call with {what}"
    key = rng.choice(list(rex))
    values = (
        0,
        1,
        5,
        -1,
        10**20,
        "x",
        None,
        "CALL",
        "INPUT_REF",
        "LITERAL",
        "SEARCH",
        "INT",
        "BOOLEAN",
        [],
        {},
        True,
        1.5,
    )
    rex[key] = rng.choice(values)
    return f"expression's {key}"


def _facts(plan: Any, rng: Random) -> str | None:
    nodes = _nodes(plan)
    if nodes is None:
        return None
    sinks = [n for n in nodes if str(n.get("type")).startswith("stream-exec-sink_")]
    node = rng.choice(sinks if sinks and rng.random() < 0.7 else nodes)
    what = rng.choice(("sql", "facts", "hash"))
    if what == "sql":
        facts = {"formatVersion": 1, "sql": rng.choice(bad.SQL), "sqlHash": "0"}
    elif what == "hash":
        facts = {"formatVersion": 1, "schemaHashes": {"`a`.`b`.`c`": "0"}}
    else:
        facts = copy.deepcopy(rng.choice(bad.FACTS))
    now = node.get("stateplan")
    node["stateplan"] = {**now, **facts} if isinstance(now, dict) and isinstance(facts, dict) else facts
    return f"facts: {what}"


def _option(plan: Any, rng: Random) -> str | None:
    place = _place(plan, rng, lambda key, value: key in ("options", "configuration") and isinstance(value, dict))
    if place is None:
        return None
    options = place[0][place[1]]
    keys = [*options, "connector", "format", "path", "table.exec.state.ttl", "table.exec.mini-batch.size", "nosuch"]
    key = rng.choice(keys)
    options[key] = rng.choice(
        ("", "x", "datagen", "print", "kafka", "json", "csv", "-1", "1 h", "true", 5, True, None, {}, "\x00")
    )
    return f"option {_show(key)}"


VALUES: tuple[Callable[[Any, Random], str | None], ...] = (
    _remove, _remove, _rename, _replace, _replace, _replace, _copied, _added, _wrapped, _entries, _number,
    _number, _huge,
    _deep, _type, _type, _ttl, _ttl, _edge, _edge, _node, _node, _many, _diamonds, _rex, _rex, _facts, _facts, _option,
)  # fmt: skip


def _marks(text: str, rng: Random) -> str:
    """Puts what no parser can hold as a value in the place of its mark."""

    def put(match: re.Match[str]) -> str:
        what, *rest = match[1].split(":")
        if what == "deep":
            opening, closing = bad.DEEP[int(rest[0])]
            depth = int(rest[1])
            if opening.startswith('"'):
                return '"' + opening[1:] * depth + "INT" + closing[:-1] * depth + '"'
            return opening * depth + "0" + closing * depth
        digits = "123456789" * (bad.HUGE // 9)
        return {"digits": digits, "fraction": f"0.{digits}", "exponent": rng.choice(("1e400", f"1E{digits}"))}[what]

    return re.sub('"@@([a-z0-9:]+)@@"', put, text)


def _laid_out(plan: Any, rng: Random) -> str:
    layout = rng.randrange(5)
    if layout == 0:
        return json.dumps(plan)
    if layout == 1:
        return json.dumps(plan, indent=4, ensure_ascii=False)
    return dumps(plan)


def damaged(rng: Random, plans: Sequence[Original] | None = None) -> Damaged:
    """A plan with one to three damages; most are damaged as values, so that they get past the parser."""
    original = rng.choice(plans or originals())
    stages = [rng.choice((0, 0, 0, 0, 1, 2)) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    return Damaged(original, *_apply(original.text, stages, rng))


def damaged_value(rng: Random) -> Any:
    """The JSON of a plan with one to three damages that leave it JSON."""
    plan = json.loads(rng.choice(originals()).text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(VALUES)(plan, rng)
    return plan


def _apply(text: str, stages: list[int], rng: Random) -> tuple[tuple[str, ...], bytes]:
    steps: list[str | None] = []
    if 0 in stages:
        plan = json.loads(text)
        steps += [rng.choice(VALUES)(plan, rng) for _ in range(stages.count(0))]
        text = _marks(_laid_out(plan, rng), rng)
    for _ in range(stages.count(1)):
        text, step = rng.choice(TEXTS)(text, rng) or (text, None)
        steps.append(step)
    data = text.encode("utf-8", "surrogatepass")
    for _ in range(stages.count(2)):
        data, step = rng.choice(BYTES)(data, rng)
        steps.append(step)
    return tuple(step for step in steps if step), data
