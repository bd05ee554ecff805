"""Writes the generated parts and the pictures of the documentation: ``python -m scripts.docs``.

With ``--check`` it only compares.
A generated part is between ``<!-- generated: NAME -->`` and ``<!-- end -->``; NAME is a function below.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.lint_docs import lint_rules
from scripts.pages import ROOT, linked
from scripts.pictures import PICTURES

if TYPE_CHECKING:
    from stateplan.runtime.metrics.registry import Metric

_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.S)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in line) + " |\n" for line in lines)


# ---- figures ---------------------------------------------------------------------------------------------------


def figures() -> str:
    from stateplan.runtime.metrics.figures import FIGURES

    return _table(("figure", "meaning"), ((f"`{name}`", text) for name, text in FIGURES.items()))


def metrics() -> str:
    """The metrics that Prometheus and OTLP get."""
    from stateplan.runtime.metrics.registry import JOB_LABELS, METRICS, OPERATOR_LABELS, TASK_LABELS

    owners = {OPERATOR_LABELS: "operator", TASK_LABELS: "task", JOB_LABELS: "job"}

    def row(metric: Metric) -> tuple[str, ...]:
        labels = next(labels for labels in owners if metric.labels[: len(labels)] == labels)
        more = (f"`{label}`" for label in metric.labels[len(labels) :])
        return f"`{metric.name}`", metric.kind.value, ", ".join([owners[labels], *more]), metric.text.rstrip(".")

    return _table(("metric", "type", "of", "meaning"), map(row, METRICS))


# ---- errors ----------------------------------------------------------------------------------------------------


_VALUE = re.compile(r"(?<!\{)\{[\w.\[\]]*?(\w+)(?:\[\d\])?(?:![rs])?(?::(#)? ?([\w ]*)(?:\|([\w ]*))?[^}]*)?\}(?!\})")


def _shown(text: str) -> str:
    """A text of the catalogue for people: its values in angle brackets."""

    def value(found: re.Match[str]) -> str:
        name, counts, noun, plural = found.groups()
        if counts is None:
            return f"<{name.replace('_', ' ')}>"
        return f"<number> {plural or f'{noun}s'}" if noun else "<number>"

    return _VALUE.sub(value, text).replace("{{", "{").replace("}}", "}")


def errors() -> str:
    """Every error code: its title, cause, remedy and messages, under an anchor that stays when the title changes."""
    from stateplan.common.errors.catalogue import FAMILIES, family, shared_variants_of, variants_of

    out = []
    for prefix, title in FAMILIES.items():
        out.append(f"### {prefix}: {title}\n\n")
        for code, entry in sorted(family(prefix).items()):
            tables = [entry, *variants_of(entry).values(), *shared_variants_of(entry).values()]
            messages = dict.fromkeys(text for table in tables if "message" in table for text in _messages(table))
            out.append(f'#### <a id="{code.lower()}"></a>{code} {entry["title"]}\n')
            out.append(f"{entry['cause']} **Remedy:** {entry['remedy']}\n")
            out.append("".join(f"- {_code(message)}\n" for message in messages) + "\n")
    return "".join(out)


def _messages(table: Mapping[str, Any]) -> Iterable[str]:
    """The message of a table of the catalogue, and what it is about where the table says so."""
    message = table["message"]
    yield _shown(message)
    for part in ("expected", "hint"):
        if isinstance(table.get(part), dict):
            ((name, rows),) = table[part].items()
            yield from (_shown(message.replace(f"{{{name}}}", value)) for value in rows if value != "else")


def _code(text: str) -> str:
    """``text`` as code; it may have backquotes in it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def exit_codes() -> str:
    """What the process returns."""
    from stateplan.cli.exit_codes import ExitCode

    return _table(["code", "meaning"], [[str(c.value), c.meaning] for c in ExitCode])


# ---- tables of the code ----------------------------------------------------------------------------------------


def _option_rows(options: Iterable[object]) -> list[list[str]]:
    from stateplan.common.options import Option

    rows = []
    for option in options:
        assert isinstance(option, Option)
        default = "required" if option.is_required else "" if option.default is None else f"`{_default(option)}`"
        note = option.description
        if option.values:
            note += " One of " + ", ".join(f"`{v}`" for v in option.values) + "."
        if option.no_effect:
            note += f" No effect: {option.no_effect}."
        if option.only_default:
            note += f" Only the default is supported: {option.only_default}."
        rows.append([f"`{option.key}`", _type_text(option.type.value), default, option.role.value, note])
    return rows


def _type_text(declared: str) -> str:
    """A type, as code where it would be taken for a tag of HTML."""
    return f"`{declared}`" if "<" in declared else declared


def _default(option: Any) -> str:
    """The default of an Option as a user writes it."""
    from stateplan.common.settings import default_text

    return default_text(option) or ""


def _sections(things: Iterable[object], level: str) -> str:
    from stateplan.common.options import Role
    from stateplan.connectors.formats.base import Format
    from stateplan.connectors.protocol import Connector
    from stateplan.connectors.registry import formats_of

    out = []
    for thing in things:
        assert isinstance(thing, Connector | Format)
        out.append(f"{level} {thing.name}\n\n{thing.description}\n")
        if isinstance(thing, Connector):
            out.append(f"\nUsed as: {', '.join(r.value for r in thing.roles)}.")
            formats = dict.fromkeys([*formats_of(thing, Role.SOURCE), *formats_of(thing, Role.SINK)])
            if formats:
                out.append(f" Formats: {', '.join(f'`{f}`' for f in formats)}.")
            if thing.metadata:
                out.append(" Metadata: " + ", ".join(f"`{k}` {_type_text(t)}" for k, t in thing.metadata) + ".")
            out.append("\n")
        elif thing.metadata:
            out.append("\nMetadata: " + ", ".join(f"`value.{k}` {_type_text(t)}" for k, t in thing.metadata) + ".\n")
        if thing.options:
            head = ["option", "type", "default", "used by", "description"]
            out.append("\n" + _table(head, _option_rows(thing.options)))
        out.append("\n")
    return "".join(out).rstrip("\n") + "\n"


def connectors() -> str:
    """Connectors and their options."""
    from stateplan.connectors.registry import CONNECTORS

    return _sections(CONNECTORS.values(), "###")


def formats() -> str:
    """Formats and their options; in a table a key is written ``<format>.<key>``."""
    from stateplan.connectors.registry import FORMATS

    return _sections(FORMATS.values(), "###")


def catalogs() -> str:
    """Types of catalogs and their options."""
    from stateplan.connectors.registry import CATALOGS
    from stateplan.planner.catalog.kinds import OWN

    out = []
    for kind in (*OWN.values(), *CATALOGS.values()):
        rows = [[row[0], row[2], row[4]] for row in _option_rows(kind.options)]
        out.append(f"### {kind.name}\n\n" + _table(["option", "default", "description"], rows))
    return "\n".join(out)


def options() -> str:
    """Options of a session."""
    from stateplan.common.settings import OPTIONS

    return _table(
        ["option", "type", "default", "description"],
        [[row[0], row[1], row[2], row[4]] for row in _option_rows(OPTIONS.values())],
    )


def older_options() -> str:
    """Keys of older releases of Flink."""
    from stateplan.common.settings import DEPRECATED

    return _table(["older key", "sets"], [[f"`{old}`", f"`{new}`"] for old, new in DEPRECATED.items()])


def gateway_options() -> str:
    """Limits of a gateway."""
    from stateplan.gateway.service.limits import OPTIONS

    return _table(
        ["option", "type", "default", "description"],
        [[row[0], row[1], row[2], row[4]] for row in _option_rows(OPTIONS.values())],
    )


def plan_statements() -> str:
    """Statements on plan files."""
    return _statements(True)


def statements() -> str:
    """The other statements."""
    return _statements(False)


def _statements(plan: bool) -> str:
    from stateplan.planner.dialect.grammar import STATEMENTS

    out = []
    for statement in STATEMENTS:
        if statement.plan is plan:
            grammar, effect = "\n".join(statement.lines), statement.effect
            out.append(f"**{statement.name}** {effect}.\n\n```text\n{grammar}\n```\n")
    return "\n".join(out)


def review_comment() -> str:
    """The review of a change that loses state: what does not fold, and the drawing."""
    text = (ROOT / "tests" / "review" / "changes" / "another_key" / "comment.md").read_text("utf-8")
    drawing = re.search(r"^```mermaid\n.*?^```$", text, re.M | re.S)
    assert drawing is not None
    return f"```markdown\n{text.partition('<details>')[0].rstrip()}\n```\n\n{drawing[0]}\n"


def tweaks() -> str:
    """Tweaks of Spark."""
    from stateplan.runtime.spark.tweaks import TWEAKS

    rows = [[f"`{name}`", t.default, t.tweaked, t.gain] for name, t in TWEAKS.items()]
    return _table(["tweak", "by default, Spark ...", "with the tweak, it ...", "saves"], rows)


def functions() -> str:
    """Scalar functions and whether they are supported."""
    from stateplan.functions.table import functions as table

    return _table(
        ["function", "aliases", "supported"],
        [
            [f"`{f.signature}`", ", ".join(f"`{a}`" for a in f.aliases), "yes" if f.supported else f"no: {f.reason}"]
            for f in table()
        ],
    )


def row_by_row() -> str:
    """Functions that run row by row, and why."""
    from stateplan.functions.render.rowwise import BY_ROW

    return _table(["function", "row by row because"], [[f"`{name}`", reason] for name, reason in BY_ROW.items()])


def aggregates() -> str:
    """Aggregate functions and whether they are supported."""
    from stateplan.functions.aggregates import aggregates as table

    return _table(
        ["function", "supported"], [[f"`{a.name}`", "yes" if a.reason is None else f"no: {a.reason}"] for a in table()]
    )


def nodes() -> str:
    """Operators of a plan."""
    from stateplan.execnodes.registry import node_classes

    return _table(
        ["node", "states"],
        [
            [f"`{name}_{version}`", ", ".join(f"`{s}`" for s in cls.STATE_NAMES)]
            for (name, version), cls in node_classes().items()
        ],
    )


def migrations() -> str:
    """Steps of migration, in the order in which they are taken."""
    from stateplan.plans.migrations import NODE_UPGRADES, RELEASES

    return _table(
        ["step", "what changes", "state"],
        [[step.name, step.about, step.state] for step in (*RELEASES, *NODE_UPGRADES.values())],
    )


PARTS: dict[str, Callable[[], str]] = {
    f.__name__: f
    for f in (
        errors,
        exit_codes,
        figures,
        metrics,
        review_comment,
        connectors,
        formats,
        catalogs,
        options,
        older_options,
        gateway_options,
        plan_statements,
        statements,
        tweaks,
        functions,
        row_by_row,
        aggregates,
        nodes,
        migrations,
        lint_rules,
    )
}


def _with_parts(text: str, page: Path) -> str:
    return _PART.sub(lambda m: f"{m[1]}\n{linked(PARTS[m[2]](), page)}\n{m[3]}", text)


def outdated(write: bool) -> list[Path]:
    """The pages and pictures that are not up to date; ``write`` brings them up to date."""
    found = []
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        text = page.read_text(encoding="utf-8")
        fresh = _with_parts(text, page)
        if fresh != text:
            found.append(page)
            if write:
                page.write_text(fresh, encoding="utf-8")
    for picture, draw in PICTURES.items():
        if not picture.exists() or picture.read_text(encoding="utf-8") != draw():
            found.append(picture)
            if write:
                picture.write_text(draw(), encoding="utf-8")
    return found


def main() -> int:
    """1 when ``--check`` finds a page out of date."""
    check = "--check" in sys.argv[1:]
    pages = outdated(write=not check)
    for page in pages:
        print(f"{'out of date' if check else 'wrote'}: {page.relative_to(ROOT)}")
    return int(check and bool(pages))


if __name__ == "__main__":
    sys.exit(main())
