"""What lint rules share: what they are, and what they say about a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import ClassVar

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import NEVER, format_ttl
from stateplan.execnodes.node_ttls import compiled_ttls
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.plans.lint.subject import State, Subject


class Severity(StrEnum):
    """How bad a finding is: the result can be wrong; or it works as written, and is often not what was meant."""

    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True)
class SetTtl:
    """A fix: the TTL of a state, ms, 0 for never."""

    node_id: int
    state: int
    ttl: int


@dataclass(frozen=True)
class Unsuppress:
    """A fix: a suppression that is taken out of the plan."""

    node_id: int
    code: str


@dataclass(frozen=True)
class Problem:
    """What a rule has found at one operator.

    Attributes:
        node: the operator.
        message: what is wrong, one sentence without a full stop.
        hint: what to do.
        state: index of the state it is about, if it is about one.
        pointer: JSON pointer within the node of what it is about, where that is not a state.
        on_key: whether the key is meant, not the value.
        edit: what ``--fix`` changes; None if there is no one right answer.
    """

    node: ExecNode
    message: str
    hint: str
    state: int | None = None
    pointer: str = "/type"
    on_key: bool = False
    edit: SetTtl | Unsuppress | None = None


class Rule:
    """One rule. A subclass in a module that :mod:`plans.lint.rules` imports is found by itself.

    Its docstring is its documentation: the first line says what is wrong, then follow paragraphs that begin with
    ``Anti-pattern:``, ``Why:``, ``Best practice:`` and ``Source:``. ``tests/plans/lint/cases/<CODE>.yml`` has its cases
    and the example that the documentation shows.

    Attributes:
        CODE: ``TTL`` for rules about TTLs, ``PLN`` for others, and three digits; never given to another rule.
        NAME: for people.
        SEVERITY: unless the caller says otherwise.
        FIXABLE: whether ``--fix`` knows a right answer, at least in some cases.
        SUPPRESSIBLE: whether a plan can say that findings are accepted.
    """

    CODE: ClassVar[str]
    NAME: ClassVar[str]
    SEVERITY: ClassVar[Severity]
    FIXABLE: ClassVar[bool]
    SUPPRESSIBLE: ClassVar[bool]

    def __init_subclass__(
        cls,
        code: str,
        name: str,
        severity: Severity = Severity.WARNING,
        fixable: bool = False,
        suppressible: bool = True,
    ) -> None:
        cls.CODE, cls.NAME, cls.SEVERITY = code, name, severity
        cls.FIXABLE, cls.SUPPRESSIBLE = fixable, suppressible

    def applies(self, subject: Subject) -> bool:
        """Whether the rule has what it needs to judge this plan."""
        return True

    def check(self, subject: Subject) -> Iterator[Problem]:
        """What this rule has to say about a plan."""
        return iter(())

    def review(self, subject: Subject, problems_by_code: Mapping[str, Sequence[Problem]]) -> Iterator[Problem]:
        """What this rule has to say about what the rules that were asked have found, by their codes."""
        return iter(())

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().splitlines()[0]


def for_how_long(ttl: int) -> str:
    """``for 1 h``, or ``forever`` for 0."""
    return "forever" if ttl == NEVER else f"for {format_ttl(ttl)}"


def at_state(state: State, message: str, hint: str, edit: SetTtl | None = None) -> Problem:
    """The problem that a state has."""
    return Problem(state.node, message, hint, state=state.index, edit=edit)


def short_ttl_problem(subject: Subject, state: State, ttl: int, message: str) -> Problem:
    """The problem that ``state`` expires too early, and ``ttl`` would do.

    There is no fix where it would let state grow without end: never, for rows that nothing retracts; nor where a hint
    in the SQL says the TTL, which would no longer be true.
    """
    hint = f'set its TTL to "{format_ttl(ttl)}"' + (" (never)" if ttl == NEVER else "")
    compiled_ttl = compiled_ttls(state.node)[state.index : state.index + 1]
    is_hint = compiled_ttl == ((state.ttl, "hint"),)
    endless = ttl == NEVER and not subject.retracts(state.node, state.input)
    if is_hint:
        hint += ", in the STATE_TTL hint of the SQL"
    elif endless:
        hint += ", or give the upstream state a TTL"
    edit = None if endless or is_hint else SetTtl(state.node.id, state.index, ttl)
    return at_state(state, message, hint, edit)
