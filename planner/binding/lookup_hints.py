"""The LOOKUP hint: how a lookup join asks its table.

The tables that can be looked up here are read whole and answer at once, so what the hint says of asynchronous lookups
has no effect, as in Flink for a table that is not asynchronous.

Source: Flink's ``LookupJoinHintOptions``, FLIP-204 and FLIP-234.
"""

from __future__ import annotations

from sqlglot import exp

from stateplan.execnodes.connectors.options import Option, OptionType, parse_value
from stateplan.execnodes.errors import SqlError, StateplanError, nearest
from stateplan.planner.positions import not_supported, place_of

_OPTIONS = {
    option.key: option
    for option in (
        Option("table", OptionType.STRING, "Name or alias of the table.", required=True),
        Option("async", OptionType.BOOLEAN, "Whether lookups run beside each other."),
        Option("output-mode", OptionType.ENUM, "Of asynchronous lookups.", values=("ordered", "allow_unordered")),
        Option("capacity", OptionType.INTEGER, "Asynchronous lookups at once."),
        Option("timeout", OptionType.DURATION, "Of an asynchronous lookup."),
        Option("retry-predicate", OptionType.ENUM, "When to look again.", values=("lookup_miss",)),
        Option("retry-strategy", OptionType.ENUM, "How to look again.", values=("fixed_delay",)),
        Option("fixed-delay", OptionType.DURATION, "Between two attempts."),
        Option("max-attempts", OptionType.INTEGER, "How often to look again."),
    )
}


def read_lookup_hint(item: exp.Expr, source: str) -> tuple[str, exp.Expr]:
    """The name of the table a LOOKUP hint is for, and where it stands.

    Raises:
        SqlError: SQL121, for options that the hint does not have or values they do not take; SQL150, for retries.
    """
    given: dict[str, exp.Expr] = {}
    for argument in item.expressions:
        key = argument.this.name if isinstance(argument, exp.EQ) else ""
        if key not in _OPTIONS:
            raise SqlError(
                "SQL121.option" if key else "SQL121.positional",
                key=key,
                options=", ".join(f"'{k}'" for k in _OPTIONS),
                place=place_of(argument, source),
                hint=nearest(key, _OPTIONS),
            )
        try:
            parse_value(_OPTIONS[key], argument.expression.name)
        except StateplanError as error:
            raise SqlError(
                "SQL121.read_lookup_hint",
                key=key,
                name=argument.expression.name,
                place=place_of(argument.expression, source),
                expected=error.expected,
                hint=error.hint,
            ) from None
        if key.startswith(("retry", "fixed", "max")):
            raise not_supported("looking again for rows that were not found", place_of(argument, source))
        given[key] = argument
    if "table" not in given:
        raise SqlError("SQL121.read_lookup_hint_2", place=place_of(item, source))
    return given["table"].expression.name, given["table"].expression
