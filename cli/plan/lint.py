"""``stateplan plan lint``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from stateplan.cli.command import command, run
from stateplan.cli.console import Console
from stateplan.cli.exit_codes import ExitCode
from stateplan.cli.options import Format, SettingsOption, settings
from stateplan.cli.plan_files import STREAM, read_plan
from stateplan.common.errors import PlanError
from stateplan.common.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from stateplan.plans.document import PlanDocument
    from stateplan.plans.lint import AppliedFix, Report, Rule, Severity
    from stateplan.runtime.metrics.state_uses import StateUses


class LintFormat(StrEnum):
    """Formats of findings."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


_several = partial(typer.Option, default_factory=list, show_default=False)


def _explain(code: str | None) -> None:
    """Prints the documentation of a rule and ends the command."""
    if code is not None:

        def work(console: Console) -> None:
            from inspect import cleandoc

            from stateplan.plans.lint import choose

            for rule in choose([code]).values():
                console.show(f"{rule.CODE} {rule.NAME} ({rule.SEVERITY.value})\n\n{cleandoc(rule.__doc__ or '')}\n", {})

        run(Format.TEXT, False, False, work)
        raise typer.Exit


@dataclass(frozen=True)
class Arguments:
    """The arguments and options of ``stateplan plan lint``."""

    plans: Annotated[list[str], typer.Argument(metavar="PLAN...", help="Paths or URLs of plan files.")]
    pairs: SettingsOption
    select: Annotated[
        list[str],
        _several(
            metavar="RULES", help="Run only these rules: codes, code prefixes or names, comma-separated. Repeatable."
        ),
    ]
    ignore: Annotated[list[str], _several(metavar="RULES", help="Skip these rules.")]
    severity: Annotated[
        list[str],
        _several(metavar="RULE=SEVERITY", help="Report a rule as warning or as advice. Repeatable."),
    ]
    fix: Annotated[bool, typer.Option("--fix", help="Apply the unambiguous fixes to the files.")] = False
    diff: Annotated[bool, typer.Option("--diff", help="Print the changes of --fix without writing them.")] = False
    show_fixes: Annotated[bool, typer.Option("--show-fixes", help="List the applied fixes.")] = False
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 9 for advice, too.")] = False
    checkpoint: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Checkpoint that the plan would continue from.")
    ] = None
    against: Annotated[
        str | None, typer.Option(metavar="PLAN", help="Previous plan, which wrote the state to continue from.")
    ] = None
    suppress: Annotated[str | None, typer.Option(metavar="CODE", help="Suppress a rule in the plan file.")] = None
    operator: Annotated[
        str | None,
        typer.Option(metavar="SELECTOR", help="With --suppress: the operator. Default: every operator with a finding."),
    ] = None
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="With --suppress: the reason, which is stored in the plan.")
    ] = None
    explain: Annotated[
        str | None,
        typer.Option(metavar="RULE", callback=_explain, is_eager=True, help="Explain a rule and exit."),
    ] = None
    output: Annotated[
        LintFormat,
        typer.Option("--format", help="Output format: text, JSON, GitHub workflow commands, or SARIF 2.1.0."),
    ] = LintFormat.TEXT

    def check(self) -> None:
        """Raises typer.BadParameter for options that exclude each other."""
        if self.checkpoint is not None and self.against is not None:
            raise typer.BadParameter("--checkpoint and --against are mutually exclusive")
        if self.suppress is not None and (self.fix or self.diff):
            raise typer.BadParameter("--suppress cannot be combined with --fix or --diff")
        if self.suppress is None and (self.operator is not None or self.reason is not None):
            raise typer.BadParameter("--operator and --reason require --suppress")
        if self.suppress is not None and self.reason is None:
            raise typer.BadParameter("--suppress requires --reason")
        if STREAM in self.plans and ((self.fix and not self.diff) or self.suppress is not None):
            raise typer.BadParameter("standard input cannot be changed; --diff shows what --fix would change")


@command()
def lint(console: Console, arguments: Arguments) -> ExitCode:
    """Find TTLs that make results wrong and state that grows without bound."""
    from stateplan.plans.lint import choose, severities_of

    arguments.check()
    job = _Job(
        console,
        settings(arguments.pairs),
        choose(_words(arguments.select), _words(arguments.ignore)),
        severities_of(_words(arguments.severity)),
        _earlier(arguments.checkpoint, arguments.against),
        _state_uses(arguments.checkpoint),
        arguments.output,
    )
    if arguments.suppress is not None:
        return job.suppress(arguments.plans, arguments.suppress, arguments.operator, arguments.reason or "")
    return job.lint(
        arguments.plans,
        fix=arguments.fix,
        diff=arguments.diff,
        show_fixes=arguments.show_fixes,
        strict=arguments.strict,
    )


def _words(texts: Sequence[str]) -> list[str]:
    return [word.strip() for text in texts for word in text.split(",")]


def _earlier(checkpoint: str | None, against: str | None) -> PlanDocument | None:
    """The plan that wrote the state.

    Raises:
        PlanError: PLAN137 (the folder is not a checkpoint), or the plan cannot be read.
    """
    from stateplan.plans.document import PlanDocument

    if checkpoint is None:
        return None if against is None else PlanDocument.load(against)
    from stateplan.runtime.spark.hadoop import checkpoint_path

    try:
        return PlanDocument.load(str(checkpoint_path(checkpoint, {}) / "plan.json"))
    except PlanError as error:
        if error.code != "PLAN001":
            raise
        raise PlanError("PLAN137", checkpoint=checkpoint) from None


def _state_uses(checkpoint: str | None) -> StateUses | None:
    """How the states of a checkpoint were used; None of a folder that has nothing but a plan.

    Raises:
        CheckpointError: CKPT001, its records cannot be read.
    """
    if checkpoint is None:
        return None
    from stateplan.runtime.metrics.log import read_metrics
    from stateplan.runtime.metrics.state_uses import StateUses
    from stateplan.runtime.spark.hadoop import checkpoint_path

    if not (checkpoint_path(checkpoint, {}) / "stateplan.json").is_file():
        return None
    return StateUses.of(read_metrics(checkpoint_path(checkpoint, {})))


@dataclass
class _Job:
    console: Console
    session: Mapping[str, str]
    rules: Mapping[str, Rule]
    severities: Mapping[str, Severity]
    against: PlanDocument | None
    observed: StateUses | None
    output: LintFormat
    reports: list[Report] = field(default_factory=list)

    def lint(self, plans: Sequence[str], *, fix: bool, diff: bool, show_fixes: bool, strict: bool) -> ExitCode:
        from stateplan.plans import lint as linter
        from stateplan.plans.lint.output import changed_lines

        documents = [read_plan(plan) for plan in plans]
        fixes: list[tuple[str, AppliedFix]] = []
        changes = ""
        for plan, document in zip(plans, documents, strict=True):
            for warning in document.warnings:
                self.console.warning(str(warning))
            current = document
            if fix or diff:
                current, applied_fixes = linter.fix(document, self.session, against=self.against, rules=self.rules)
                fixes += [(plan, a) for a in applied_fixes]
                changes += changed_lines(document, current, plan)
                if not diff and current.text != document.text:
                    current.write(plan, overwrite=True)
            self.reports.append(
                linter.lint(
                    document if diff else current,
                    self.session,
                    against=self.against,
                    observed=self.observed,
                    rules=self.rules,
                    severities=self.severities,
                )
            )
        if diff:
            self.console.show(changes, {"diff": changes})
            return ExitCode.FINDINGS if changes else ExitCode.OK
        self._show(fixes, show_fixes)
        return ExitCode.FINDINGS if self._fails(strict) else ExitCode.OK

    def _fails(self, strict: bool) -> bool:
        from stateplan.plans.lint import Severity

        findings = [f for report in self.reports for f in report.findings]
        return any(strict or f.severity is Severity.WARNING for f in findings)

    def _show(self, fixes: Sequence[tuple[str, AppliedFix]], show_fixes: bool) -> None:
        from stateplan.plans.lint.output import summary, to_github, to_json, to_sarif, to_text

        if self.output is LintFormat.JSON:
            self.console.show("", to_json(self.reports, fixes))
            return
        if self.output is LintFormat.SARIF:
            import json

            from stateplan.common.release import installed_version

            self.console.show(json.dumps(to_sarif(self.reports, installed_version()), indent=2, ensure_ascii=False), {})
        elif self.output is LintFormat.GITHUB:
            self.console.show(to_github(self.reports), {})
        else:
            self.console.show(to_text(self.reports, fixes if show_fixes else ()), {})
        self.console.note(summary(self.reports, len(fixes)))

    def suppress(self, plans: Sequence[str], code: str, selector: str | None, reason: str) -> ExitCode:
        from stateplan.plans import lint as linter

        linter.check_code(code)
        edits: list[tuple[str, PlanDocument, list[int]]] = []
        for plan in plans:
            document = read_plan(plan)
            report = linter.lint(document, self.session, against=self.against, rules=linter.choose([code]))
            findings = [*report.findings, *(f for f, _ in report.suppressed)]
            nodes = sorted({f.node_id for f in findings if f.code == code})
            if selector is not None:
                nodes = [n.id for n in linter.operators(document, selector) if n.id in nodes]
            if not nodes:
                raise PlanError(
                    "PLAN135",
                    value=code,
                    selector=f" at {selector}" if selector else "",
                    plan=plan,
                    hint="TTL010 needs --checkpoint or --against" if code == "TTL010" and (not self.against) else None,
                )
            for node_id in nodes:
                document = linter.suppress(document, node_id, code, reason)
            edits.append((plan, document, nodes))
        for plan, document, nodes in edits:
            document.write(plan, overwrite=True)
            names = ", ".join(document.graph.node(i).label for i in nodes)
            self.console.note(f"{plan}: {code} is suppressed at {names}")
        return ExitCode.OK
