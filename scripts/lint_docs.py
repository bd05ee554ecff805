"""Writes the page of the rules of ``plan lint`` from their docstrings and the examples of their cases."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from typing import Any

import yaml

CASES = Path(__file__).resolve().parent.parent / "tests" / "plans" / "lint" / "cases"


def lint_rules() -> str:
    """A table of the rules, and a section for each."""
    from stateplan.plans.lint import all_rules

    rules = all_rules().values()
    head = "| rule | | severity | `--fix` | |\n| --- | --- | --- | --- | --- |\n"
    rows = [
        f"| [{r.CODE}](#{r.CODE.lower()}) | {r.NAME} | {r.SEVERITY.value} | {'yes' if r.FIXABLE else ''} "
        f"| {r.summary().rstrip('.')} |\n"
        for r in rules
    ]
    return head + "".join(rows) + "".join(_section(r) for r in rules)


def _section(rule: Any) -> str:
    _, *paragraphs = cleandoc(rule.__doc__).split("\n\n")
    lines = [f"\n### {rule.CODE}\n", f"`{rule.NAME}`, {rule.SEVERITY.value}: {rule.summary()}\n"]
    for paragraph in paragraphs:
        title, _, text = paragraph.partition(": ")
        lines.append(f"**{title}.** {text[0].upper()}{text[1:]}\n")
    cases = CASES / f"{rule.CODE}.yml"
    if not cases.exists():
        raise SystemExit(f"{rule.CODE} has no cases: write {cases}")
    data = yaml.safe_load(cases.read_text(encoding="utf-8"))
    lines.extend(_example(data))
    return "\n".join(lines)


def _example(data: Mapping[str, Any]) -> Iterator[str]:
    example = data["example"]
    sql = data["plans"][example["plan"]]["sql"].replace("${DIR}/", "")
    yield f"**Example.** {example['why']}\n"
    yield f"```sql\n{sql.strip()}\n```\n"
    options = data["plans"][example["plan"]].get("options")
    if options:
        yield f"Options: {_pairs(options)}.\n"
    for key, words in (("set", "TTLs in the plan"), ("session", "Options"), ("against", "Earlier TTLs")):
        if example.get(key):
            yield f"{words}: {_pairs(example[key])}.\n"
    if "used" in example:
        yield f"Uses in the checkpoint: {_uses(example['used'])}.\n"
    events = [(table, event) for table, events in (example.get("rows") or {}).items() for event in events]
    if "restart" in example:
        yield f"Restart: after {example['restart']}.\n"
    if events:
        shown = [f"| {_when(e)} | {table} | `{_row(e)}` |" for table, e in sorted(events, key=_moment)]
        yield "\n".join(["| after | table | row |", "| --- | --- | --- |", *shown]) + "\n"
    if "suppress" in example:
        ((operator, entries),) = example["suppress"].items()
        yield f"Suppressed at `{operator}`: `{json.dumps(entries)}`.\n"
    if "then" in example:
        yield f"TTLs after the edit: {_pairs(example['then'])}.\n"
    yield f"Result: {_rows(example['wrong'])}. {_how(data)}: {_rows(example['right'])}.\n"


def _uses(used: Mapping[str, Any]) -> str:
    states = [
        f"`{place}` " + ", ".join(f"{n:,} of rows {age} old" for age, n in counts.items())
        for place, counts in used["states"].items()
    ]
    return f"{'; '.join(states)}; observed for {used['in']}"


def _how(data: Mapping[str, Any]) -> str:
    repair = data["example"]["repair"]
    if repair == "fix":
        return "After `--fix`"
    if "unsuppress" in repair:
        return "Without the suppression and after `--fix`"
    if "plan" in repair:
        sql = data["plans"][repair["plan"]]["sql"]
        ttls = f" and {_pairs(repair['set'])}" if "set" in repair else ""
        return "With `" + " ".join(sql[sql.index("INSERT") :].split()).rstrip(";") + f"`{ttls}"
    return f"With {_pairs(repair)}"


def _moment(event: tuple[str, Mapping[str, Any]]) -> int:
    from stateplan.common.ttl import parse_ttl

    return parse_ttl(event[1]["at"])


def _when(event: Mapping[str, Any]) -> str:
    return f"{event['at']}, {event['times']} times every {event['every']}" if "times" in event else str(event["at"])


def _row(event: Mapping[str, Any]) -> str:
    return json.dumps({k: v for k, v in event.items() if k not in ("at", "times", "every")}, ensure_ascii=False)


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"`{key}` {value}" for key, value in values.items())


def _rows(rows: list[str]) -> str:
    return ", ".join(f"`{row}`" for row in rows) or "nothing"
