"""The words of ``docs/style.md``: pages and help keep the worst idioms out.

A pattern of the list finds a phrase that has a plain replacement. It reads prose alone: no code, no keywords of SQL.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from scripts.pages import ROOT
from stateplan.cli.app import app
from stateplan.planner.dialect.grammar import STATEMENTS
from tests.support.rooms import ROOMS

HISTORY = {"CHANGELOG.md", "style.md"}
"""Pages that quote: what was written before, and the words to avoid."""

LATER = {"errors.md"}
"""Generated from texts of errors, which have a test of their own."""

INSTEAD = {
    r"\btells?\b|\btold\b": "says, prints, reports, distinguishes",
    r"\bstands? (?:in|for|before|behind|beside|between|under|above|there|still|side)\b|\bstood\b": "is in, means",
    r"\b(?:go|goes|going|went) on\b": "continues",
    r"\b(?:run|runs|ran) on(?=[.,;:]| when\b| until\b| without\b)": "keeps running",
    r"\banew\b": "again, from the beginning",
    r"\bthere (?:is|are|was) none\b": "name the thing that is missing",
    r"\bin hand\b(?!-)": "current, running",
    r"\bpass(?:es|ed) over\b": "ignores, omits",
    r"\b(?:leaves?|left) out\b": "omits",
    r"\bnoted\b|\bnotes? down\b": "records",
    r"\bso many\b": "this number of",
    r"\bto (?:its|their) ends?\b": "the watermark advances, the source ends",
    r"\bmended?\b": "fixed, corrected, removed",
    r"\b(?:is|are|was|were|been) given up\b": "counts as lost, times out",
    r"\bwhat (?:is|was|are|were) (?:found|known|kept|given|wanted|told|noted|made|left|there)\b": "name the thing",
    r"\b(?:asks?|asked) (?:again|anew|for it|it)\b": "queries, requests",
    r"\blets? \w+ be \w+(?:ed|en)\b": "name who does it",
    r"\bof (?:its|his|their|your|our|my) own is\b": "name the thing",
}
"""Each pattern, with what to write instead."""


def prose(markdown: str) -> str:
    """The sentences of a page: without code, links' targets, comments and images."""
    text = re.sub(r"^```.*?^```", "", markdown, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"`[^`]*`", "`", text)
    return re.sub(r"(?<=\])\([^)]*\)", "", text)


def sentences(text: str) -> Iterator[str]:
    """Paragraphs, items and cells, split where a sentence ends."""
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=[|#])|(?<!\\)\|", text):
        yield from re.split(r"(?<=[.!?])\s+", " ".join(block.split()))


def faults(text: str) -> list[str]:
    """Each phrase that has a replacement, with its sentence."""
    found = []
    for sentence in sentences(text):
        for pattern, instead in INSTEAD.items():
            match = re.search(pattern, sentence, re.I)
            if match:
                found.append(f"'{match[0]}' ({instead}): {sentence}")
        if len(re.findall(r":(?=\s)", sentence)) > 1:
            found.append(f"two colons (write two sentences): {sentence}")
        if re.match(r"What (?:\w+ ){1,8}(?:is|are|has|stays|counts)\b[^?]*\.$", sentence):
            found.append(f"'What ...' as a subject (name the thing): {sentence}")
    return found


def helps() -> Iterator[tuple[str, str]]:
    """The help of each command and option of the command line, and of each statement."""

    def walk(command: object, path: str) -> Iterator[tuple[str, str]]:
        yield path, getattr(command, "help", None) or ""
        for parameter in getattr(command, "params", ()):
            yield f"{path} {parameter.name}", getattr(parameter, "help", None) or ""
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, f"{path} {name}")

    yield from walk(get_command(app), "stateplan")
    for statement in STATEMENTS:
        yield statement.name, statement.effect


PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.name not in HISTORY | LATER], ids=lambda p: str(p.relative_to(ROOT))
)
def test_pages(page: Path) -> None:
    assert faults(prose(page.read_text(encoding="utf-8"))) == []


def test_help() -> None:
    texts = dict(helps())
    assert len([text for text in texts.values() if text]) > 100
    assert {name: faults(prose(text)) for name, text in texts.items() if faults(prose(text))} == {}


@pytest.mark.parametrize(
    "sentence",
    [
        "The table stands in the sink alone.",
        "A job goes on from its checkpoint.",
        "If there is none, the command ends.",
        "What the job remembers is in the checkpoint.",
        "| `x` | the number is noted |",
        "A budget: rows or bytes: the policy decides.",
    ],
)
def test_idioms_are_found(sentence: str) -> None:
    assert faults(prose(sentence))


@pytest.mark.parametrize(
    "sentence",
    [
        "The plan runs on Spark.",
        "`SELECT told FROM t`, and `goes on` in code.",
        "```sql\nSELECT a AS told FROM t WHERE b IS NOT DISTINCT FROM c;\n```",
        "What is a slot?",
        "A standalone cluster understands this.",
    ],
)
def test_code_and_plain_words_pass(sentence: str) -> None:
    assert faults(prose(sentence)) == []


_WORDS = """
found known kept given wanted told noted listed named taken made done written gone seen said asked held shown
chosen got sent built stated meant planned typed stored declared changed added removed missing resolved parsed
printed rendered rewritten renamed replaced merged collected counted matched moved passed placed quoted ordered
dropped filled fixed hidden keyed lost met needed opened paired picked pruned pushed reached refused rejected
required reused scanned selected shared shifted spelled tried used unused wrapped applied assigned allowed called
carried checked compared completed computed converted copied covered cleaned derived described drawn edited emitted
entered evaluated excluded executed explained extracted folded generated handed inferred inserted joined loaded
located marked measured migrated narrowed offered padded prepared produced promised raised recorded refreshed
registered related remembered repeated reported restored rounded signed skipped spliced spread started stopped
supplied touched trimmed truncated understood unnamed unmatched validated visited whole whose which what how where
there here then again instead together doubled inherited unknown running waiting reading ended
"""
PARTICIPLES = frozenset(_WORDS.split())
"""Participles and adverbs that name nothing by themselves."""

PROTOCOLS = {
    *(("session", name) for name in ("started", "ended")),
    *(("gateway", name) for name in ("started", "ended", "RUNNING")),
    *(("runtime", name) for name in ("asked", "dropped", "started", "RUNNING")),
}
"""Names of Flink, those in files that jobs write, and those of the times at which jobs started and ended."""


def names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each name that a module gives: of functions, classes, parameters, variables and attributes, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, node.lineno
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest, node.lineno
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname, node.lineno


def bare_names(source: str) -> list[tuple[int, str]]:
    """The names of a module that are a participle or an adverb alone, with their lines."""
    return [(line, name) for name, line in names(ast.parse(source)) if name.strip("_").lower() in PARTICIPLES]


@pytest.mark.parametrize("room", ROOMS)
def test_no_bare_participle_is_a_name(room: str) -> None:
    files = {str(path.relative_to(ROOT)): path for path in sorted((ROOT / room).rglob("*.py"))}
    assert files
    faulty = [file for file, path in files.items() if path.stem.strip("_") in PARTICIPLES]
    for file, path in files.items():
        for line, name in bare_names(path.read_text(encoding="utf-8")):
            if (room, name.strip("_")) not in PROTOCOLS:
                faulty.append(f"{file}:{line} {name}")
    assert not faulty, f"name the thing, as docs/style.md says: {faulty}"


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "def told(): ...",
        "class Kept: ...",
        "def f(*, given): ...",
        "self._known = 1",
        "for wanted in rows: ...",
        "import stateplan as taken",
        "match x:\n    case [*seen]: ...",
    ],
)
def test_bare_participles_are_found(source: str) -> None:
    assert len(bare_names(source)) == 1


@pytest.mark.parametrize("source", ["known_codes = 1", "node.found", "f(given=1)", "left, right = pair", "'told'"])
def test_other_names_pass(source: str) -> None:
    assert bare_names(source) == []
