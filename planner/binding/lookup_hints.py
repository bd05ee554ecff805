"""The LOOKUP hint: how a lookup join asks its table.

The tables that can be looked up here answer at once, so what the hint says of asynchronous lookups has no effect, as in
Flink for a table that is not asynchronous.

Source: Flink's ``LookupJoinHintOptions``, FLIP-204 and FLIP-234.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from stateplan.common.errors import SqlError, StateplanError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.options import Option, OptionType, parse_value
from stateplan.execnodes.specs import RetryOptions
from stateplan.planner.positions import place_of

_RETRY = ("retry-predicate", "retry-strategy", "fixed-delay", "max-attempts")
"""Options of which a hint has all or none."""


@dataclass(frozen=True)
class LookupHint:
    """A LOOKUP hint.

    Attributes:
        table_node: the table, where it is named.
        retry: how rows that found nothing are looked up again; None for not at all.
        place: where the retries stand.
    """

    table_node: exp.Expr
    retry: RetryOptions | None = None
    place: exp.Expr | None = None


_OPTIONS = {
    option.key: option
    for option in (
        Option("table", OptionType.STRING, "Name or alias of the table.", is_required=True),
        Option("async", OptionType.BOOLEAN, "Whether lookups run beside each other."),
        Option("output-mode", OptionType.ENUM, "Of asynchronous lookups.", values=("ordered", "allow_unordered")),
        Option("capacity", OptionType.INTEGER, "Asynchronous lookups at once."),
        Option("timeout", OptionType.DURATION, "Of an asynchronous lookup."),
        Option("retry-predicate", OptionType.ENUM, "When to look again.", values=("lookup_miss",)),
        Option("retry-strategy", OptionType.ENUM, "How to look again.", values=("fixed_delay",)),
        Option("fixed-delay", OptionType.DURATION, "Between two attempts."),
        Option("max-attempts", OptionType.INTEGER, "How often to look again.", minimum=1),
    )
}


def read_lookup_hint(item: exp.Expr, source: str) -> tuple[str, LookupHint]:
    """The name of the table a LOOKUP hint is for, and what it says.

    Raises:
        SqlError: SQL121, for options that the hint does not have, values they do not take, or retries without all of
            their options.
    """
    options: dict[str, exp.Expr] = {}
    values: dict[str, Any] = {}
    for argument in item.expressions:
        key = argument.this.name if isinstance(argument, exp.EQ) else ""
        if key not in _OPTIONS:
            raise SqlError(
                "SQL121.unknown_option" if key else "SQL121.positional",
                key=key,
                options=", ".join(f"'{k}'" for k in _OPTIONS),
                place=place_of(argument, source),
                hint=nearest(key, _OPTIONS),
            )
        try:
            values[key] = parse_value(_OPTIONS[key], argument.expression.name)
        except StateplanError as error:
            raise SqlError(
                "SQL121.option_value",
                key=key,
                value=argument.expression.name,
                place=place_of(argument.expression, source),
                expected=error.expected,
                hint=error.hint,
            ) from None
        options[key] = argument
    if "table" not in options:
        raise SqlError("SQL121.no_table", name="LOOKUP", place=place_of(item, source))
    retry_keys = [key for key in _RETRY if key in options]
    lacking = [key for key in _RETRY if key not in options]
    if retry_keys and lacking:
        raise SqlError("SQL121.incomplete_retry", lacking=lacking[0], place=place_of(options[retry_keys[0]], source))
    table_node = options["table"].expression
    if not retry_keys:
        return table_node.name, LookupHint(table_node)
    if values["fixed-delay"] <= 0:
        raise SqlError(
            "SQL121.option_value",
            key="fixed-delay",
            value=options["fixed-delay"].expression.name,
            place=place_of(options["fixed-delay"].expression, source),
        )
    retry = RetryOptions(
        retry_predicate=options["retry-predicate"].expression.name,
        retry_strategy="FIXED_DELAY",
        fixed_delay=values["fixed-delay"],
        max_attempts=values["max-attempts"],
    )
    return table_node.name, LookupHint(table_node, retry, options[retry_keys[0]])
