"""Process table functions in Python.

    >>> from stateplan import ArgumentHint, ProcessTableFunction, StateHint, udptf
    >>> class Total(ProcessTableFunction):
    ...     def eval(self, ctx, memory, input, step):
    ...         memory.total = (memory.total or 0) + step * input.amount
    ...         yield memory.total
    >>> total = udptf(
    ...     Total(),
    ...     arguments={"input": ArgumentHint("SET_SEMANTIC_TABLE"), "step": ArgumentHint(type="INT", default=1)},
    ...     states={"memory": StateHint("ROW<total BIGINT>", ttl="1 h")},
    ...     result_type="ROW<total BIGINT>",
    ... )
    >>> total.signature
    'Total(input => TABLE t PARTITION BY .., step => INT)'

Source: FLIP-440; Flink's ``ProcessTableFunction``, ``ArgumentHint`` and ``StateHint``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from stateplan.common.changelog import MODES, ChangelogMode, RowKind
from stateplan.common.errors import PlanError, SqlError, nearest, one_of
from stateplan.common.types import row_type
from stateplan.functions.process import (
    NO_DEFAULT,
    ON_TIME,
    UID,
    ArgumentTrait,
    DeclaredArgument,
    DeclaredState,
    ProcessDeclaration,
)
from stateplan.functions.user import UserFunction
from stateplan.planner.catalog.udf import PythonFunction, Type, type_of
from stateplan.plans.document import TtlGiven, given_ttl

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_ROW, _SET = ArgumentTrait.ROW_SEMANTIC_TABLE, ArgumentTrait.SET_SEMANTIC_TABLE
_STATE_TYPES = ("ROW", "ARRAY", "MAP")


class ProcessTableFunction(PythonFunction):
    """Rows of tables. ``eval(ctx, *states, *arguments)`` is called for each row and yields rows; ``on_timer(ctx,
    *states)``, where there is one, is called for each timer that is due. See :func:`udptf`."""


class ArgumentHint:
    """An argument: a table with traits, or a scalar of a type.

    Args:
        traits: the traits of a table.
        type: the type of a scalar.
        default: what a call without this scalar gives; without one it is required.
    """

    def __init__(self, *traits: ArgumentTrait | str, type: Type | None = None, default: Any = NO_DEFAULT) -> None:  # noqa: A002
        self.traits, self.type, self.default = traits, type, default


class StateHint:
    """A state entry: a value per partition.

    Args:
        type: a ROW, whose fields the function sets; an ARRAY, which it is given as a list; or a MAP, given as a dict.
        ttl: how long it lives, such as ``"1 h"`` or a timedelta; None for the TTL of the job. Plans may
            change it.
    """

    def __init__(self, type: Type, ttl: TtlGiven | None = None) -> None:  # noqa: A002
        self.type, self.ttl = type, ttl


def udptf(
    f: Any = None,
    arguments: Mapping[str, ArgumentHint] | None = None,
    result_type: Type | None = None,
    states: Mapping[str, StateHint] | None = None,
    changelog_mode: str | Collection[RowKind] = "append",
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: Literal["general", "pandas", "arrow"] = "general",
) -> Any:
    """A process table function of a :class:`ProcessTableFunction`; without ``f`` a decorator.

    Args:
        arguments: by name, in the order in which ``eval`` takes them; one at least is a table.
        result_type: the ROW of its columns, or the type of one, which is called EXPR$0.
        states: by name, in the order in which ``eval`` and ``on_timer`` take them.
        changelog_mode: the kinds of rows that it yields: ``"append"``, ``"upsert"`` (by the columns of PARTITION BY),
            ``"retract"``, or the kinds themselves.
        func_type: with ``pandas`` (``arrow``) ``eval`` is given a ``pandas.DataFrame`` (``pyarrow.Table``) of many rows
            of the table, with set semantics all of one partition.

    Raises:
        SqlError: SQL213 (a type that is none), SQL214, SQL215 (a declaration that cannot be).
    """
    if result_type is None:
        raise SqlError("SQL214.type_missing", what="result_type")
    result = type_of(result_type)
    row = result if result.root == "ROW" else row_type([("EXPR$0", result)])

    def declare(body: Any) -> UserFunction:
        body = body() if isinstance(body, type) else body
        function_name = name or getattr(body, "__name__", None) or type(body).__name__
        if func_type not in ("general", "pandas", "arrow"):
            raise SqlError("SQL214", func_type=func_type)
        evaluate = getattr(body, "eval", None)
        if evaluate is None:
            raise SqlError("SQL214.no_function", body=body, what="function", expected="an object with 'eval'")
        if inspect.iscoroutinefunction(evaluate):
            raise SqlError("SQL214.coroutine", shown=function_name)
        process = ProcessDeclaration(
            tuple(_argument(function_name, n, hint) for n, hint in (arguments or {}).items()),
            tuple(_state(function_name, n, hint) for n, hint in (states or {}).items()),
            _mode(function_name, changelog_mode),
            hasattr(body, "on_timer"),
        )
        _check(function_name, process, func_type)
        own = [s.name for s in process.states]
        _check_parameters(function_name, evaluate, "eval", [*own, *(a.name for a in process.arguments)])
        if process.timers:
            _check_parameters(function_name, body.on_timer, "on_timer", own)
        determinism = _is_deterministic(body) if deterministic is None else deterministic
        facts: dict[str, Any] = {"vector": func_type, "deterministic": determinism, "process": process}
        return UserFunction("PROCESS_TABLE", body, None, row, name=function_name, **facts)

    return declare if f is None else declare(f)


def _is_deterministic(body: Any) -> bool:
    """What a function says of itself; True if it says nothing."""
    determinism = getattr(body, "is_deterministic", None)
    return bool(determinism()) if determinism is not None else True


def _wrong(function: str, problem: str, expected: str | None = None, hint: str | None = None) -> SqlError:
    return SqlError("SQL215", name=function, problem=problem, expected=expected, hint=hint)


def _argument(function: str, name: str, hint: ArgumentHint) -> DeclaredArgument:
    _check_name(function, "an argument", name)
    if name in (ON_TIME, UID):
        raise _wrong(function, f"the argument '{name}' is one that every process table function has", "another name")
    if not isinstance(hint, ArgumentHint):
        raise _wrong(function, f"the argument '{name}' is {hint!r:.40}", "an ArgumentHint")
    trait_names = [t.value for t in ArgumentTrait]
    for trait in hint.traits:
        if trait not in trait_names:
            suggestion = nearest(str(trait), trait_names)
            raise _wrong(function, f"'{trait}' of the argument '{name}' is no trait", one_of(trait_names), suggestion)
    traits = frozenset(ArgumentTrait(t) for t in hint.traits)
    if hint.type is not None:
        if traits:
            raise _wrong(
                function, f"the argument '{name}' has traits of a table and the type of a scalar", "one of them"
            )
        return DeclaredArgument(name, type=type_of(hint.type), default=hint.default)
    if len(traits & {_ROW, _SET}) != 1:
        expected = f"{_ROW} or {_SET} for a table, type=.. for a scalar"
        raise _wrong(function, f"the argument '{name}' has neither a type nor one kind of semantics", expected)
    if hint.default is not NO_DEFAULT:
        raise _wrong(function, f"the table '{name}' has a default", "a table without one")
    for trait, base in _NEEDS.items():
        if trait in traits and base not in traits:
            raise _wrong(function, f"{trait} of the table '{name}' goes with {base} only", f"{base} too")
    if ArgumentTrait.PASS_COLUMNS_THROUGH in traits and ArgumentTrait.SUPPORT_UPDATES in traits:
        raise _wrong(function, f"the table '{name}' passes columns through and takes updates", "one of them")
    return DeclaredArgument(name, traits)


_NEEDS = {
    ArgumentTrait.OPTIONAL_PARTITION_BY: _SET,
    ArgumentTrait.REQUIRE_UPDATE_BEFORE: ArgumentTrait.SUPPORT_UPDATES,
    ArgumentTrait.REQUIRE_FULL_DELETE: ArgumentTrait.SUPPORT_UPDATES,
}


def _state(function: str, name: str, hint: StateHint) -> DeclaredState:
    _check_name(function, "a state", name)
    if not isinstance(hint, StateHint):
        raise _wrong(function, f"the state '{name}' is {hint!r:.40}", "a StateHint")
    state_type = type_of(hint.type)
    if state_type.root not in _STATE_TYPES or (state_type.root == "ROW" and not state_type.fields):
        problem = f"the state '{name}' is of type {state_type.summary()}, whose values cannot be changed"
        raise _wrong(function, problem, "a ROW, ARRAY or MAP", f"ROW<{name} {state_type.summary()}>")
    if hint.ttl is None:
        return DeclaredState(name, state_type)
    try:
        return DeclaredState(name, state_type, given_ttl(hint.ttl))
    except PlanError as error:
        raise _wrong(function, f"the TTL of the state '{name}': {error.message}", error.expected, error.hint) from None


def _mode(function: str, kinds: str | Collection[RowKind]) -> ChangelogMode:
    mode_names = [word for word in MODES if word != "upsert-key-delete"]
    if isinstance(kinds, str):
        if kinds not in mode_names:
            raise _wrong(
                function, f"the changelog mode '{kinds}' is unknown", one_of(mode_names), nearest(kinds, mode_names)
            )
        return MODES[kinds]
    try:
        mode = frozenset(RowKind(kind) for kind in kinds)
    except (TypeError, ValueError):
        raise _wrong(function, f"the changelog mode {kinds!r:.40} is none", one_of(mode_names)) from None
    if RowKind.INSERT not in mode or (RowKind.UPDATE_BEFORE in mode and RowKind.UPDATE_AFTER not in mode):
        raise _wrong(function, "the changelog mode has no INSERT, or old rows of updates without the new ones")
    return mode


def _check(function: str, process: ProcessDeclaration, func_type: str) -> None:
    """Whether the parts of a declaration go together."""
    tables, names = process.tables, [*(s.name for s in process.states), *(a.name for a in process.arguments)]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise _wrong(function, f"a state and an argument are both called '{twice}'", "names of their own")
    if not tables:
        raise _wrong(function, "it has no table argument", "ArgumentHint(ArgumentTrait.SET_SEMANTIC_TABLE)")
    if len(tables) > 1 and not all(t.is_set for t in tables):
        raise _wrong(function, "of several tables all must have set semantics", str(_SET))
    if not process.has_sets and (process.states or process.timers):
        unsupported_part = "states" if process.states else "on_timer"
        raise _wrong(function, f"it has {unsupported_part}, which are kept by partition", f"a table with {_SET}")
    if process.passes_through and (len(tables) > 1 or process.timers):
        why = "several tables" if len(tables) > 1 else "on_timer, whose rows have no columns to pass"
        raise _wrong(function, f"it passes columns through and has {why}", "without PASS_COLUMNS_THROUGH")
    if RowKind.UPDATE_AFTER in process.mode and RowKind.UPDATE_BEFORE not in process.mode and not process.has_sets:
        raise _wrong(function, "upserts need a key, which is that of the partition", f"a table with {_SET}")
    if func_type == "general":
        return
    if len(tables) > 1 or process.passes_through or process.mode != MODES["append"]:
        unsupported_part = (
            "several tables" if len(tables) > 1 else "columns passed through" if process.passes_through else "changes"
        )
        raise _wrong(function, f"a function of frames cannot have {unsupported_part}", "func_type='general'")
    if any(t.has(ArgumentTrait.SUPPORT_UPDATES) for t in tables):
        raise _wrong(function, "a function of frames cannot take updates", "func_type='general'")


def _check_name(function: str, subject: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _wrong(function, f"'{name}' cannot be the name of {subject}", "letters, digits and underscores")


def _check_parameters(function: str, method: Any, method_name: str, names: Sequence[str]) -> None:
    """Whether a method takes the context, and then these by their names."""
    try:
        parameters = list(inspect.signature(method).parameters.values())
    except (TypeError, ValueError):  # a method that Python cannot look into
        return
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return
    parameter_names = [p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]
    if parameter_names[1:] != list(names) or not parameter_names:
        expected_names = _parameter_list(["ctx", *names])
        raise _wrong(
            function,
            f"{method_name} takes {_parameter_list(parameter_names)}",
            f"{method_name}(self, {expected_names})",
        )


def _parameter_list(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
