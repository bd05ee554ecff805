"""Streaming SQL whose state you can see and edit.

    >>> from stateplan import TableEnvironment
    >>> tables = TableEnvironment.create({"table.exec.state.ttl": "1 h"})

Names are PyFlink's. Each is imported when it is first used, so that ``import stateplan`` loads no engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from stateplan.common.importing import importing

if TYPE_CHECKING:
    from stateplan.common.changelog import RowKind
    from stateplan.common.errors import StateplanError
    from stateplan.common.values.row import Row
    from stateplan.functions.process import ArgumentTrait
    from stateplan.functions.user import FunctionContext
    from stateplan.planner.catalog.udf import (
        AggregateFunction,
        AsyncScalarFunction,
        DataTypes,
        ScalarFunction,
        TableAggregateFunction,
        TableFunction,
        udaf,
        udf,
        udtaf,
        udtf,
    )
    from stateplan.planner.catalog.udptf import ArgumentHint, ProcessTableFunction, StateHint, udptf
    from stateplan.plans.advice import ExplainDetail
    from stateplan.plans.document import PlanDocument
    from stateplan.session.compiled_plan import CompiledPlan, PlanReference, StatementSet
    from stateplan.session.environment import TableEnvironment
    from stateplan.session.habits import EnvironmentSettings
    from stateplan.session.results import ResultKind, TableResult
    from stateplan.session.table import Table

_HOME = {
    **dict.fromkeys(
        (
            "AggregateFunction",
            "AsyncScalarFunction",
            "DataTypes",
            "ScalarFunction",
            "TableAggregateFunction",
            "TableFunction",
            "udaf",
            "udf",
            "udtaf",
            "udtf",
        ),
        "planner.catalog.udf",
    ),
    **dict.fromkeys(("ArgumentHint", "ProcessTableFunction", "StateHint", "udptf"), "planner.catalog.udptf"),
    "ArgumentTrait": "functions.process",
    "CompiledPlan": "session.compiled_plan",
    "EnvironmentSettings": "session.habits",
    "ExplainDetail": "plans.advice",
    "FunctionContext": "functions.user",
    "PlanDocument": "plans.document",
    "PlanReference": "session.compiled_plan",
    "ResultKind": "session.results",
    "Row": "common.values.row",
    "RowKind": "common.changelog",
    "StatementSet": "session.compiled_plan",
    "StateplanError": "common.errors",
    "Table": "session.table",
    "TableEnvironment": "session.environment",
    "TableResult": "session.results",
}
"""Public name to its module."""

__all__ = [
    "AggregateFunction",
    "ArgumentHint",
    "ArgumentTrait",
    "AsyncScalarFunction",
    "CompiledPlan",
    "DataTypes",
    "EnvironmentSettings",
    "ExplainDetail",
    "FunctionContext",
    "PlanDocument",
    "PlanReference",
    "ProcessTableFunction",
    "ResultKind",
    "Row",
    "RowKind",
    "ScalarFunction",
    "StateHint",
    "StatementSet",
    "StateplanError",
    "Table",
    "TableAggregateFunction",
    "TableEnvironment",
    "TableFunction",
    "TableResult",
    "udaf",
    "udf",
    "udptf",
    "udtaf",
    "udtf",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'stateplan' has no attribute '{name}'")
    with importing():
        return getattr(import_module(f"stateplan.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
