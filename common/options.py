"""Options of table connectors and formats: one row of a table per option, with Flink's keys, types and defaults.

Source: Flink's ``ConfigOption`` and the parsing rules of its ``ConfigurationUtils`` and ``TimeUtils``/``MemorySize``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from typing import Any, TypeAlias

from stateplan.common.errors import OptionError, Place, StateplanError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.redaction import redacted_value
from stateplan.common.secrets import resolve_references
from stateplan.common.values.fields import parse_integer


class OptionType(Enum):
    """How the text of an option is read; the value is Flink's name for it in its documentation."""

    STRING = "String"
    LIST = "List<String>"
    BOOLEAN = "Boolean"
    INTEGER = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DURATION = "Duration"
    INTERVAL = "Interval"
    BEGIN = "Timestamp"
    MEMORY_SIZE = "MemorySize"
    ENUM = "Enum"
    CHARACTER = "Character"
    REGEX = "Regex"


class Role(Enum):
    """What a table is used as. An option marked with a role is accepted in both but only means something in one."""

    SOURCE = "source"
    SINK = "sink"
    BOTH = "source and sink"


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        key: the key without a format prefix; ``#`` stands for a column name, ``*`` at the end for any text.
        type: how its text is read.
        description: one or two sentences for the documentation.
        default: the parsed default, or None for no default.
        is_required: whether a table must have it.
        role: where it means something.
        values: accepted words of an ENUM, in the spelling of the documentation.
        exact: whether the words of an ENUM must be spelled exactly.
        minimum: smallest number accepted.
        no_effect: why it has no effect, for an option of Flink that is accepted and ignored.
        only_default: why a value other than the default cannot be honoured, for options that must not be ignored.
    """

    key: str
    type: OptionType
    description: str
    default: Any = None
    is_required: bool = False
    role: Role = Role.BOTH
    values: tuple[str, ...] = ()
    exact: bool = False
    minimum: int | None = None
    no_effect: str | None = None
    only_default: str | None = None

    @property
    def expectation(self) -> str:
        """What a value must look like, for error messages."""
        if self.type is OptionType.ENUM:
            return " or ".join(f"'{v}'" for v in self.values)
        text = _EXPECTATIONS[self.type]
        if self.minimum is not None and self.type in (OptionType.INTEGER, OptionType.LONG):
            text += f", at least {self.minimum}"
        return text


def flag(key: str, description: str, role: Role = Role.BOTH, default: bool = False, **more: Any) -> Option:
    """An option that is on or off."""
    return Option(key, OptionType.BOOLEAN, description, default=default, role=role, **more)


def alike(*options: Option, **common: Any) -> tuple[Option, ...]:
    """The options with the attributes that they have in common."""
    return tuple(replace(option, **common) for option in options)


def parallelism(role: Role, no_effect: str) -> Option:
    """The number of readers or writers that a table asks for. Spark decides it; ``no_effect`` says how."""
    kind, noun = ("scan", "readers") if role is Role.SOURCE else ("sink", "writers")
    description = f"Number of parallel {noun}."
    return Option(f"{kind}.parallelism", OptionType.INTEGER, description, role=role, minimum=1, no_effect=no_effect)


_EXPECTATIONS = {
    OptionType.STRING: "a text",
    OptionType.LIST: "texts separated by ;, each of them with or without ' or \" around it",
    OptionType.BOOLEAN: "'true' or 'false'",
    OptionType.INTEGER: "a whole number of at most 32 bits",
    OptionType.LONG: "a whole number of at most 64 bits",
    OptionType.FLOAT: "a number",
    OptionType.DURATION: "a duration such as '10 s', '5 min' or '1 h'",
    OptionType.INTERVAL: "an interval of Delta such as 'interval 30 days'",
    OptionType.BEGIN: "'earliest', or a time in UTC such as '2026-01-31' or '2026-01-31 08:00:00'",
    OptionType.MEMORY_SIZE: "a size such as '64 kb', '128 mb' or '1 gb'",
    OptionType.CHARACTER: "a single character (Java escapes such as '\\t' are understood)",
    OptionType.REGEX: "a regular expression",
}

_UNITS = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 1 << 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 1 << 40),
}


def parse_memory_size(text: str) -> int:
    """Bytes of a memory size in Flink's ``MemorySize`` grammar: digits, optional unit.

    Raises:
        ValueError: when the text is not a size.
    """
    match = re.fullmatch(r"\s*([0-9]+)\s*([a-zA-Z]*)\s*", text)
    if not match or match.group(2).lower() not in _UNITS:
        raise ValueError(text)
    size = int(match.group(1)) * _UNITS[match.group(2).lower()]
    if size >= 1 << 63:
        raise ValueError(text)
    return size


_QUOTES = r"""\s*(?:'((?:[^']|'')*+)'|"((?:[^"]|"")*+)")"""
_PART = re.compile(rf"""(?:{_QUOTES}|\s*([^;'"\s][^;]*)?)\s*(;|\Z)""")


def parse_list(text: str) -> tuple[str, ...]:
    """The items of a list, as Flink's ``StructuredOptionsSplitter`` reads them.

    ``;`` separates the items. Blanks around an item are ignored, and so is one ``;`` at either end of the list. An item
    in quotes is used unchanged, and a quote inside it is doubled. A list in YAML is accepted as well.

    Raises:
        ValueError: with the reason, for quotes that do not end or that something follows.
    """
    if text.lstrip().startswith(("[", "- ")) and (items := _yaml_list(text)) is not None:
        return items
    parts: list[str | None] = []
    at, more = 0, True
    while more:
        piece = _PART.match(text, at)
        if piece is None:
            follows = re.compile(_QUOTES).match(text, at)
            raise ValueError("something follows a quote" if follows else "a quote does not end")
        single, double, plain, end = piece.groups()
        if single is not None or double is not None:
            parts.append(single.replace("''", "'") if double is None else double.replace('""', '"'))
        else:
            parts.append(plain and plain.rstrip())
        at, more = piece.end(), end == ";"
    for place in (0, -1):
        if parts and parts[place] is None:
            del parts[place]
    return tuple(part or "" for part in parts)


def _yaml_list(text: str) -> tuple[str, ...] | None:
    """The texts of a list of YAML; None for anything else."""
    import yaml

    try:
        items = yaml.load(text, yaml.BaseLoader)
    except yaml.YAMLError:
        return None
    return tuple(items) if isinstance(items, list) and all(isinstance(part, str) for part in items) else None


def _boolean(text: str) -> bool:
    word = text.upper()
    if word not in ("TRUE", "FALSE"):
        raise ValueError(text)
    return word == "TRUE"


def _float(text: str) -> float:
    if not re.fullmatch(r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?\s*", text):
        raise ValueError(text)
    return float(text.strip().rstrip("fFdD"))


def _duration(text: str) -> int:
    from stateplan.common.ttl import parse_ttl

    try:
        return parse_ttl(text)
    except StateplanError as error:
        raise ValueError(error.message.replace("the TTL ", "")) from error


_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


def _unescape(text: str) -> str:
    """Java escapes (``\\t``, ``\\u0001``) resolved; a backslash before anything else is dropped."""

    def one(match: re.Match[str]) -> str:
        body = match.group(1)
        if body[0] == "u":
            return chr(int(body.lstrip("u+"), 16))
        if body[0] in "01234567":
            return chr(int(body, 8))
        return _ESCAPES.get(body, body)

    return re.sub(r"\\(u+\+?[0-9a-fA-F]{4}|[0-3]?[0-7]{1,2}|.)", one, text, flags=re.S) if len(text) > 1 else text


def _character(text: str) -> str:
    value = _unescape(text)
    if len(value) != 1:
        raise ValueError(text)
    return value


def _interval(text: str) -> str:
    """An interval as Delta writes it in properties of tables: a whole number of units."""
    units = "(nanosecond|microsecond|millisecond|second|minute|hour|day|week)s?"
    if not re.fullmatch(rf"interval\s+[0-9]+\s+{units}", text):
        raise ValueError(text)
    return text


_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?))?Z?")


def parse_instant(text: str) -> int:
    """A time in an option, in ms since 1970: a date, or a date and a time, in UTC. Source: Delta's
    ``TimestampFormatConverter``. Raises ValueError."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    moment = datetime.fromisoformat(f"{match[1]} {match[2] or '00:00'}").replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _regex(text: str) -> str:
    re.compile(text)
    return text


_READERS: dict[OptionType, Callable[[str], Any]] = {
    OptionType.STRING: str,
    OptionType.LIST: parse_list,
    OptionType.BOOLEAN: _boolean,
    OptionType.INTEGER: partial(parse_integer, bits=32),
    OptionType.LONG: partial(parse_integer, bits=64),
    OptionType.FLOAT: _float,
    OptionType.DURATION: _duration,
    OptionType.MEMORY_SIZE: parse_memory_size,
    OptionType.CHARACTER: _character,
    OptionType.INTERVAL: _interval,
    OptionType.BEGIN: lambda text: None if text.lower() == "earliest" else parse_instant(text),
    OptionType.REGEX: _regex,
}

_EXPLAINING = (OptionType.DURATION, OptionType.LIST)
"""Types whose reader says what is wrong with a text."""


def option_text(option: Option | None, value: Any, key: str) -> str:
    """The text of an option's value that Python code gives: of a text, a number, a boolean or a timedelta.

    Args:
        option: the row of the table; None for a key of somebody else, whose values are texts.
        value: the value.
        key: the key that the user wrote.

    Raises:
        OptionError: OPT105, for another value, and for a duration that is a number without a unit.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    is_duration = option is not None and option.type is OptionType.DURATION
    if isinstance(value, timedelta) and is_duration:
        return f"{value // timedelta(milliseconds=1)} ms"
    if isinstance(value, int | float):
        if is_duration and value:
            raise OptionError("OPT105.unit", number=value, key=key)
        return str(value)
    raise OptionError("OPT105.class", given=repr(value)[:60], key=key, expected=option.expectation if option else None)


def parse_value(option: Option, text: str, key: str | None = None, place: Place | None = None) -> Any:
    """The value of ``option`` written as ``text``: durations in ms, sizes in bytes, enums in the table's spelling.
    References stay in a text and in a list, and are resolved in any other value.

    Args:
        option: the row of the table.
        text: what the user wrote.
        key: the key the user wrote (with prefix or column name); the option's key when absent.
        place: where the user wrote it.

    Raises:
        OptionError: OPT105, when the text is not a value of the option; OPT120 to OPT123, a reference that leads to
            nothing.
    """
    name = key or option.key
    shown_text, original = redacted_value(name, text), text
    if option.type not in (OptionType.STRING, OptionType.LIST):
        text = resolve_references(text, name, place)
    value: Any
    if option.type is OptionType.ENUM:
        values = {v if option.exact else v.lower(): v for v in option.values}
        value = values.get(text if option.exact else text.lower())
        if value is None:
            raise OptionError(
                "OPT105",
                text=shown_text,
                key=name,
                place=place,
                expected=option.expectation,
                hint=nearest(shown_text, option.values),
            )
        return value
    try:
        value = _READERS[option.type](text)
    except (ValueError, re.error) as error:
        reason = (
            f": {error}"
            if text == original and (isinstance(error, re.error) or (option.type in _EXPLAINING and str(error) != text))
            else ""
        )
        raise OptionError(
            "OPT105.reason", text=shown_text, key=name, reason=reason, place=place, expected=option.expectation
        ) from error
    if option.minimum is not None and value < option.minimum:
        raise OptionError(
            "OPT105.reason",
            text=shown_text,
            key=name,
            reason=": it is too small",
            place=place,
            expected=option.expectation
            if option.type is not OptionType.DURATION
            else f"a duration of at least {option.minimum} ms",
        )
    return value


def accepted_value(option: Option, text: str, key: str, place: Place | None = None) -> Any:
    """As :func:`parse_value`; a value that cannot be honoured is refused.

    Raises:
        OptionError: OPT107; and as :func:`parse_value`.
    """
    value = parse_value(option, text, key, place)
    if option.only_default and value != option.default:
        shown_text = redacted_value(key, text)
        raise OptionError("OPT107", key=key, text=shown_text, refused=option.only_default, place=place)
    return value


def match(key: str, table: Mapping[str, Option]) -> Option | None:
    """The row of a table for a key as written; ``fields.a.b.kind`` matches ``fields.#.kind``, and ``properties.a.b``
    matches ``properties.*``. Of several rows that end with ``*`` the longest counts."""
    if key in table:
        return table[key]
    parts = key.split(".")
    if len(parts) > 2 and (option := table.get(f"{parts[0]}.#.{parts[-1]}")) is not None:
        return option
    starts = (".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1))
    return next((table[f"{start}.*"] for start in starts if f"{start}.*" in table), None)


def options_below(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The options whose keys begin with ``prefix``, without it."""
    return {key.removeprefix(prefix): text for key, text in options.items() if key.startswith(prefix)}


def list_of(options: Mapping[str, str], key: str) -> tuple[str, ...]:
    """The texts of a list among the options of a table; empty without the option. Raises OptionError OPT105."""
    items: tuple[str, ...] = parse_value(Option(key, OptionType.LIST, ""), options[key]) if key in options else ()
    return items


OptionValues: TypeAlias = Mapping[str, Any]
"""The parsed options of a table: those written, and the defaults of the rest."""


_ONCE = "watermarks advance once in each micro-batch"
_COMPARISON = "sources of a group are compared before each micro-batch"
WATERMARK_OPTIONS = alike(
    Option(
        "scan.watermark.idle-timeout",
        OptionType.DURATION,
        "A partition without rows for this long does not hold back the watermark of the table. Default: "
        "`table.exec.source.idle-timeout`.",
    ),
    Option(
        "scan.watermark.emit.strategy",
        OptionType.ENUM,
        "When watermarks are sent.",
        default="on-periodic",
        values=("on-periodic", "on-event"),
        no_effect=_ONCE,
    ),
    Option(
        "scan.watermark.emit.on-event.gap",
        OptionType.INTEGER,
        "After how many rows watermarks are sent.",
        default=1,
        minimum=1,
        no_effect=_ONCE,
    ),
    Option(
        "scan.watermark.alignment.group",
        OptionType.STRING,
        "The sources of a job with the same group wait for the slowest partition of all. Needs "
        "`scan.watermark.alignment.max-drift`.",
    ),
    Option(
        "scan.watermark.alignment.max-drift",
        OptionType.DURATION,
        "How far the watermark of a partition may be ahead of the slowest one of the group before it waits. `0` is no "
        "alignment.",
    ),
    Option(
        "scan.watermark.alignment.update-interval",
        OptionType.DURATION,
        "How often sources of a group are compared.",
        default=1000,
        no_effect=_COMPARISON,
    ),
    role=Role.SOURCE,
)
"""Flink's options about the watermarks of a source that makes them itself (``FactoryUtil``, FLIP-296)."""


PATH = Option("path", OptionType.STRING, "Path or URL of a folder or file.", is_required=True)
"""Where a table's files are."""

PATHS = (PATH.key, "table-path")
"""Options of tables that are a path or URL. A path without a scheme is made absolute before it goes elsewhere."""
