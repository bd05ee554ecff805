"""Pairs of queries, those of the page about plan diffs and more of them, their tables and their plans."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from scripts.pages import page_path
from stateplan.plans.document import PlanDocument
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_statement

PAGE = page_path("plan-diff").read_text(encoding="utf-8")
TABLES = next(block for block in re.findall(r"```sql\n(CREATE TABLE.*?)```", PAGE, re.S) if "'/orders'" in block)
ROW = re.compile(r"^\| ([^|]+) \| `([^|]+)` \| `([^|]+)` \| `([a-z-]+)` \| ([^|]+) \|$", re.M)
ROWS = {match[1]: match.groups()[1:] for match in ROW.finditer(PAGE)}

_MORE = (Path(__file__).parent / "changes.md").read_text(encoding="utf-8")
MORE_TABLES = re.findall(r"```sql\n(CREATE TABLE.*?)```", _MORE, re.S)[0]
MORE = {m[1]: m.groups()[1:] for m in re.finditer(r"^\| (.+) \| `(.+)` \| `(.+)` \| `(.+)` \|$", _MORE, re.M)}
"""More changes; before, after and verdict of each."""


def document(queries: str) -> PlanDocument:
    """The plan of the queries of a cell, each into a sink of its own; settings come first."""
    return document_in(TableEnvironment.create(), TABLES + MORE_TABLES, queries)


def document_in(environment: TableEnvironment, tables: str, queries: str) -> PlanDocument:
    for statement in re.split(r";\n", tables.strip().removesuffix(";")):
        environment.execute_sql(statement)
    inserts = []
    for text in (part.strip() for part in queries.split(";")):
        if text.upper().startswith("SET "):
            environment.execute_sql(text)
            continue
        environment.execute_sql(
            f"CREATE TABLE sink{len(inserts)} ({fields_of(environment, text)}) WITH ('connector' = 'print')"
        )
        inserts.append(f"INSERT INTO sink{len(inserts)} {text};")
    statement = f"STATEMENT SET BEGIN {' '.join(inserts)} END" if len(inserts) > 1 else inserts[0].removesuffix(";")
    return PlanDocument.parse(environment.compile_plan_sql(statement).as_json_string())


def fields_of(environment: TableEnvironment, query: str) -> str:
    read = read_statement(query)
    found = environment.session.compiler.schema(read.node, read.source)
    return ", ".join(f"`{name}` {replace(kind, nullable=True, kind=None).summary()}" for name, kind in found)
