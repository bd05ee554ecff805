"""Process table functions for plans and refusals; what they compute does not matter there."""

from __future__ import annotations

from typing import Any

from stateplan.planner.catalog.udptf import ArgumentHint, ProcessTableFunction, StateHint, udptf

_SET = ArgumentHint("SET_SEMANTIC_TABLE")


class _Step(ProcessTableFunction):
    def eval(self, ctx: Any, memory: Any, last: Any, input: Any, step: int | None) -> Any:  # noqa: A002
        yield 1, 2


class _Two(ProcessTableFunction):
    def eval(self, ctx: Any, s: Any, left: Any, right: Any) -> Any:
        yield "paired"


class _One(ProcessTableFunction):
    def eval(self, ctx: Any, input: Any) -> Any:  # noqa: A002
        yield 1


class _Kept(ProcessTableFunction):
    def eval(self, ctx: Any, s: Any, input: Any) -> Any:  # noqa: A002
        yield 1


class _Copies(ProcessTableFunction):
    def eval(self, ctx: Any, input: Any, times: int) -> Any:  # noqa: A002
        yield from ["copy"] * times


step_totals = udptf(
    _Step(),
    {"input": _SET, "step": ArgumentHint(type="INT", default=None)},
    "ROW<seen BIGINT, total BIGINT>",
    {"memory": StateHint("ROW<n BIGINT, total BIGINT>", ttl="1 h"), "last": StateHint("ROW<v INT>")},
)
paired = udptf(_Two(), {"left": _SET, "right": _SET}, "ROW<note STRING>", {"s": StateHint("ROW<a BIGINT>")})
upserted = udptf(
    _Kept(),
    {"input": ArgumentHint("SET_SEMANTIC_TABLE", "SUPPORT_UPDATES")},
    "ROW<n BIGINT>",
    {"s": StateHint("ROW<n BIGINT>")},
)
retracted = udptf(
    _One(),
    {"input": ArgumentHint("ROW_SEMANTIC_TABLE", "SUPPORT_UPDATES", "REQUIRE_UPDATE_BEFORE", "REQUIRE_FULL_DELETE")},
    "ROW<v INT>",
)
passed = udptf(_One(), {"input": ArgumentHint("ROW_SEMANTIC_TABLE", "PASS_COLUMNS_THROUGH")}, "STRING")
whole = udptf(_One(), {"input": ArgumentHint("SET_SEMANTIC_TABLE", "OPTIONAL_PARTITION_BY")}, "STRING")
changing = udptf(_Kept(), {"input": _SET}, "ROW<n BIGINT>", {"s": StateHint("ROW<n BIGINT>")}, changelog_mode="retract")
upserting = udptf(_Kept(), {"input": _SET}, "ROW<n BIGINT>", {"s": StateHint("ROW<n BIGINT>")}, changelog_mode="upsert")
timely = udptf(_One(), {"input": ArgumentHint("SET_SEMANTIC_TABLE", "REQUIRE_ON_TIME")}, "ROW<note STRING>")
copies = udptf(_Copies(), {"input": ArgumentHint("ROW_SEMANTIC_TABLE"), "times": ArgumentHint(type="INT")}, "STRING")
