"""Everything that is done with a plan file, in this process: what must hold whatever is in the file.

:func:`check` reads a file's bytes. It is refused with a code, a line, a column and a JSON pointer, or it is a plan,
which then goes through every command, and through what comes before Spark when it is executed.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from stateplan.common.errors import StateplanError
from stateplan.execnodes.node_ttls import ttl_home
from stateplan.plans.document import PlanDocument
from stateplan.plans.jsontext import decode
from stateplan.runtime.operators import operator_of

LIMIT = 2.0
"""Seconds of processor time that loading a plan, or one command on it, may take, for each begun megabyte."""

_HANGS = 30.0
"""Seconds after which something is held to hang; far more than LIMIT, as other processes have the machine too."""


class _HangError(BaseException):
    """Out of a call that does not end."""


@dataclass
class Outcome:
    """What became of a file.

    Attributes:
        code: of the error that refused it; None for a valid plan.
        error: the text of that error.
        seconds: processor time of the slowest step, by name in ``slowest``.
        codes: of the errors of commands on a valid plan, by command.
        failure: what must not happen, with where; None when all is well.
    """

    code: str | None = None
    error: str = ""
    seconds: float = 0.0
    slowest: str = ""
    codes: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    failure: str | None = None

    @property
    def signature(self) -> str:
        """The failure without what varies, to tell one bug from another."""
        return re.sub(r"\d+", "N", (self.failure or "").splitlines()[0])[:160] if self.failure else ""


class _Watch:
    """Takes the time of steps, and ends those that hang."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        def alarm(_: int, __: FrameType | None) -> None:
            raise _HangError

        previous = signal.signal(signal.SIGALRM, alarm)
        signal.setitimer(signal.ITIMER_REAL, _HANGS)
        start = time.process_time()
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
            spent = time.process_time() - start
            if spent > self.outcome.seconds:
                self.outcome.seconds, self.outcome.slowest = spent, name


COMMANDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "show": (("{plan}",), ("{plan}", "--stateful", "--format", "json")),
    "explain": (
        ("{plan}", "--details", "changelog_mode,plan_advice,json_execution_plan"),
        ("{plan}", "--format", "json", "--details", "changelog_mode,plan_advice,json_execution_plan"),
        ("{plan}", "--format", "mermaid"),
        ("{plan}", "--format", "svg"),
        ("{plan}", "-o", "{folder}/plan.html"),
    ),
    "lint": (
        ("{plan}",),
        ("{plan}", "{old}", "--diff", "--format", "json"),
        ("{plan}", "--against", "{old}", "--strict", "--format", "sarif"),
        ("{plan}", "--fix", "--format", "github"),
    ),
    "set-ttl": (
        ("{plan}", "{state}=3 d", "--dry-run"),
        ("{plan}", "{state}=never", "-o", "{folder}/new.json", "--overwrite"),
        ("{plan}", "{state}=36 h", "--format", "json"),
    ),
    "migrate": (("{plan}", "--dry-run"), ("{plan}", "-o", "{folder}/new.json", "--overwrite", "--format", "json")),
    "rebase": (
        ("--base", "{old}", "--ours", "{plan}", "--theirs", "{old}", "-o", "{folder}/new.json", "--overwrite"),
        ("--base", "{plan}", "--ours", "{old}", "--theirs", "{plan}", "--conflict", "ours", "--dry-run"),
        ("--base", "{plan}", "--ours", "{plan}", "--theirs", "{old}", "--dry-run", "--format", "json"),
    ),
    "diff": (("{old}", "{plan}", "--exit-code"), ("{plan}", "{old}", "--format", "json"), ("{plan}", "{plan}")),
}
"""Arguments with which each ``plan`` command is run; of ``{plan}``, the file, ``{old}``, the plan before damage,
``{folder}``, where both are, and ``{state}``, a selector of one of the plan's states."""

NOT_RUN = frozenset({"advise", "compile", "evolve", "execute", "schema", "try"})
"""``plan`` commands that read SQL, start Spark, or take no plan."""


@cache
def _command() -> Any:
    import typer

    from stateplan.cli.app import app

    return typer.main.get_command(app)


def run_command(*args: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``stateplan plan ARGS`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            _command().main(args=["plan", *args], prog_name="stateplan", standalone_mode=True)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    return code, out.getvalue(), err.getvalue()


def fill(args: Sequence[str], folder: str | Path, state: str) -> list[str]:
    """Arguments of a command with the files in ``folder``."""
    return [a.format(plan=f"{folder}/plan.json", old=f"{folder}/old.json", folder=folder, state=state) for a in args]


def selector(text: str) -> str:
    """A selector of a state of a plan; of none when it is no plan or has no state whose TTL can be set."""
    try:
        graph = PlanDocument.parse(text).graph
    except StateplanError:
        return "1.0"
    return next((f"{node.id}.0" for node in graph.nodes if ttl_home(node)), "1.0")


def check(data: bytes, old: str | None = None, commands: bool = True) -> Outcome:
    """What becomes of the file ``data``; a failure is in the outcome, nothing is raised.

    Args:
        data: the bytes of the file.
        old: a valid plan to compare with.
        commands: whether a valid plan goes through all commands too.
    """
    outcome = Outcome()
    watch = _Watch(outcome)
    try:
        document = _load(data, outcome, watch)
        if document is not None:
            _use(document, data, outcome, watch)
        if commands:
            _commands(data, old or data.decode(errors="replace"), outcome, watch)
    except _HangError:
        outcome.failure = f"hangs\n{traceback.format_exc()}"
    except AssertionError as broken:
        where = traceback.extract_tb(broken.__traceback__)[-1]
        outcome.failure = f"{broken or where.line}\n{traceback.format_exc()}"
    except Exception as bug:
        where = traceback.extract_tb(bug.__traceback__)[-1]
        at = f"{Path(where.filename).name}:{where.name}"
        outcome.failure = f"{type(bug).__name__} in {at}: {str(bug)[:100]}\n{traceback.format_exc()}"
    if outcome.failure is None and outcome.seconds > LIMIT * (1 + len(data) // 1_000_000):
        outcome.failure = f"{outcome.slowest} took {outcome.seconds:.1f} s of processor time"
    return outcome


def _load(data: bytes, outcome: Outcome, watch: _Watch) -> PlanDocument | None:
    try:
        with watch.step("load"):
            text, bom = decode(data, "plan.json")
            document = PlanDocument(text, "plan.json", bom)
    except StateplanError as error:
        outcome.code, outcome.error = error.code, str(error)
        judge(error, data)
        return None
    return document


def judge(error: StateplanError, data: bytes | None = None) -> None:
    """Asserts what every error about a plan must have."""
    text = str(error)
    assert re.fullmatch("(PLAN|TYPE|CAT|OPT|SQL|CKPT|RUN)[0-9]{3}", error.code), f"the code {error.code}"
    assert error.place is not None, f"{error.code} has no place: {text[:300]}"
    assert error.place.line is not None, f"{error.code} has no line: {text[:300]}"
    assert error.place.column is not None, f"{error.code} has no column: {text[:300]}"
    assert error.place.pointer is not None, f"{error.code} has no pointer: {text[:300]}"
    assert error.place.file is not None, f"{error.code} has no file: {text[:300]}"
    assert error.expected or error.hint, f"{error.code} does not say what would be right: {text[:300]}"
    assert len(error.message) <= 2000, f"{error.code} has a message of {len(error.message)} characters"
    assert len(text) < 6000, f"{error.code} is a text of {len(text)} characters"
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text), f"{error.code} prints control characters: {text[:300]!r}"
    assert "Traceback" not in text
    text.encode()
    json.dumps(error.to_dict(), ensure_ascii=False).encode()


def _use(document: PlanDocument, data: bytes, outcome: Outcome, watch: _Watch) -> None:
    """What a library user does with a plan: writes it, edits it, compares it, executes it up to Spark."""
    from stateplan.execnodes.fingerprint import assign_uids
    from stateplan.execnodes.graph import ExecGraph

    assert document.data == data, "the document is not the file, byte for byte"
    with watch.step("warnings"):
        for warning in document.warnings:
            assert warning.place.line is not None and warning.place.pointer is not None
    with watch.step("write anew"):
        again = _again(document, outcome)
    if again is not None:
        rebuilt = PlanDocument.parse(again)
        assert [n.type for n in rebuilt.graph.nodes] == [n.type for n in document.graph.nodes]
        assert dict(rebuilt.uids) == dict(document.uids), "written anew, the plan means something else"
        assert PlanDocument.parse(again).text == again
        assign_uids(ExecGraph.from_json(json.loads(again), strict_unknown=False))
    with watch.step("set-ttl"):
        _edit(document, outcome)
    with watch.step("translate"):
        _translate(document, outcome)


def _again(document: PlanDocument, outcome: Outcome) -> str | None:
    try:
        return PlanDocument.from_graph(document.graph).text
    except StateplanError as error:
        outcome.codes["write anew"] = error.code
        outcome.errors["write anew"] = str(error)
        # unknown keys, which only a plan of Flink may have: there our additions are not looked at
        assert error.code == "PLAN045" or "/stateplan" in str(error), str(error)
        return None


def _edit(document: PlanDocument, outcome: Outcome) -> None:
    """Each TTL is changed and put back: the same bytes where the plan had a TTL there."""
    for node in document.graph.nodes[:20]:
        for index in range(len(node.state_names[:3])):
            before = document.data
            had = {entry.index: entry for entry in node.states}.get(index)
            edited = PlanDocument(document.text, document.file, before.startswith(b"\xef\xbb\xbf"))
            try:
                edited.set_ttl(node.id, index, "3 d")
            except StateplanError as error:
                judge(error)
                assert error.code == "PLAN071", str(error)
                continue
            assert edited.graph.node(node.id).ttls()[index] == 3 * 86_400_000
            assert edited.uids == document.uids
            if had is not None:
                assert len(edited.text.splitlines()) == len(document.text.splitlines())


@cache
def _environment() -> Any:
    from stateplan.session.environment import TableEnvironment

    return TableEnvironment.create({})


def _translate(document: PlanDocument, outcome: Outcome) -> None:
    """What ``plan execute`` does before it starts Spark."""
    from stateplan.runtime.translate import translate
    from stateplan.runtime.user_functions import bind_functions
    from stateplan.session.restore import restore

    environment = _environment()
    try:
        with document.placing():
            graph = restore(document, environment.catalog, {}).graph
            translate(bind_functions(graph, environment.functions.of_plan), {}, 4)
    except StateplanError as error:
        outcome.codes["execute"], outcome.errors["execute"] = error.code, str(error)
        judge(error)
        _translate_nodes(document)


def _translate_nodes(document: PlanDocument) -> None:
    """Each operator for itself, also of plans whose tables or functions nobody knows here."""
    graph = document.graph
    for node in graph.nodes:
        try:
            with document.placing(), graph.placing(node):
                if graph.inputs(node):
                    operator_of(node, graph.input_types(node), {})
        except StateplanError as error:
            judge(error)


def _commands(data: bytes, old: str, outcome: Outcome, watch: _Watch) -> None:
    """Every command on the file; one that refuses it says why, and one that writes leaves no file half written."""
    state = selector(data.decode(errors="replace"))
    with tempfile.TemporaryDirectory() as folder:
        plan, before = Path(folder) / "plan.json", Path(folder) / "old.json"
        for name, variants in COMMANDS.items():
            for args in variants:
                plan.write_bytes(data)
                before.write_text(old, encoding="utf-8", newline="")
                filled = fill(args, folder, state)
                with watch.step(name):
                    code, out, err = run_command(name, *filled)
                _judge_command([name, *args], code, out, err, outcome)
        left = [p.name for p in Path(folder).iterdir() if p.name.endswith(".tmp")]
        assert not left, f"left behind: {left}"


def _judge_command(args: list[str], code: int, out: str, err: str, outcome: Outcome) -> None:
    what = " ".join(args)
    assert "Traceback" not in err and "Traceback" not in out, f"{what}: a traceback\n{err}"
    assert code not in (1, 2, 70), f"{what}: exit code {code}: {err[:1000]}"
    if "--format" in args and "json" in args and code == 0:
        for line in out.removesuffix("\n").split("\n"):
            json.loads(line)
    if outcome.code is not None:
        assert code == 3, f"{what}: exit code {code} for a plan that does not load"
    if code == 3:
        found = re.search(r"\b(?:PLAN|TYPE|CAT|OPT|SQL|CKPT|RUN)\d{3}\b", err)
        assert found, f"{what}: no code in {err[:300]}"
        if outcome.code is None:
            outcome.codes[args[0]], outcome.errors[args[0]] = found.group(), err
        of_selector = re.match("PLAN10[0-9]", found.group())
        placed = ("line" in err and "at /" in err) or '"pointer"' in err
        assert placed or of_selector, f"{what}: no place in {err[:500]}"
