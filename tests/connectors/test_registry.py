"""The table of connectors: complete with regard to Flink's, and every bad option gets its message."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from connector_tables import GOLDEN, fields

from stateplan.common.changelog import INSERT_ONLY, RETRACT
from stateplan.common.errors import CatalogError, OptionError, Place, StateplanError
from stateplan.common.options import Option, OptionType, Role, parse_memory_size, parse_value
from stateplan.connectors import registry
from stateplan.connectors.registry import CONNECTORS, FORMATS, validate_table

FILES = {"connector": "filesystem", "path": "/x", "format": "json"}
TYPES = {
    "String": {OptionType.STRING, OptionType.ENUM, OptionType.CHARACTER, OptionType.REGEX},
    "Boolean": {OptionType.BOOLEAN},
    "Integer": {OptionType.INTEGER},
    "Long": {OptionType.LONG},
    "Float": {OptionType.FLOAT},
    "Duration": {OptionType.DURATION},
    "MemorySize": {OptionType.MEMORY_SIZE},
}
DEFAULTS = {"-": None, "true": True, "false": False, "PT1M": 60000, "PT30M": 1800000, "PT0S": 0, "128 mb": 128 << 20}


def flink_options() -> list[tuple[str, str, bool, str, str]]:
    """(connector or format, key, required, type, default) of Flink 2.3.0's own factories."""
    out, owner = [], ""
    for line in (GOLDEN / "flink_options.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            owner = line[3:]
        else:
            key, required, kind, default = line.split(" | ")
            out.append((owner, key, required == "req", kind, default))
    return out


def test_every_option_of_flink_is_there_with_its_type_and_default() -> None:
    wrong = []
    for owner, key, required, kind, default in flink_options():
        table = CONNECTORS[owner].options if owner in CONNECTORS else FORMATS[owner].options
        if key == "format":
            continue
        option = next((o for o in table if o.key == key), None)
        if option is None or option.is_required != required:
            wrong.append((owner, key, option))
            continue
        wanted = DEFAULTS.get(default, default)
        if option.type not in TYPES.get(kind, {OptionType.ENUM}) or str(option.default) not in (str(wanted), default):
            wrong.append((owner, key, option))
    # The default of 'length' is 3 for lists and maps, and a column that may be NULL is not a default value.
    assert [(o, k) for o, k, _ in wrong] == [("datagen", "fields.#.max-past"), ("datagen", "fields.#.length")]


def test_every_option_says_what_it_is() -> None:
    rows: list[Option] = [o for c in CONNECTORS.values() for o in c.options]
    rows += [o for f in FORMATS.values() for o in f.options]
    cut_short = [o.key for o in rows if not o.description.endswith(".")]
    assert not cut_short, f"a description is one or two whole sentences: {cut_short}"
    assert all(o.expectation for o in rows)
    assert all(o.type is OptionType.ENUM or not o.values for o in rows)


def test_loading_the_table_loads_no_engine() -> None:
    code = (
        "import sys; import stateplan.connectors.registry as r;"
        "r.validate_table({'connector': 'filesystem', 'path': '/x', 'format': 'json'}, 'source');"
        "r.validate_table({'connector': 'datagen'}, 'source', None, []);"
        "print([m for m in ('polars', 'pyarrow', 'numpy', 'fsspec', 'pyspark') if m in sys.modules])"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", "connectors and formats import these inside functions"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


_NAMES = _quoted(CONNECTORS)
_SOURCES, _SINKS = (
    _quoted(name for name, c in CONNECTORS.items() if role in c.roles) for role in (Role.SOURCE, Role.SINK)
)
_FILE_FORMATS = _quoted(name for name, f in FORMATS.items() if f.has_files and f.source_changes is not None)


@pytest.mark.parametrize(
    ("options", "role", "columns", "message"),
    [
        (
            {},
            "source",
            "a INT",
            f"[OPT101] the table needs the option 'connector'\n  expected: 'connector' = one of {_NAMES}",
        ),
        (
            {"conector": "print"},
            "sink",
            "a INT",
            "[OPT101] the table needs the option 'connector'\n"
            f"  expected: 'connector' = one of {_NAMES}\n"
            "  hint: the table has 'conector'",
        ),
        (
            {"connector": "filesystm"},
            "source",
            "a INT",
            f"[OPT102] unknown connector 'filesystm'\n  expected: one of {_NAMES}\n  hint: did you mean 'filesystem'?",
        ),
        (
            {"connector": "filesystem", "path": "/x"},
            "source",
            "a INT",
            "[OPT101] the connector 'filesystem' needs the option 'format'\n"
            f"  expected: 'format' = one of {_FILE_FORMATS}",
        ),
        (
            FILES | {"format": "jsn"},
            "source",
            "a INT",
            f"[OPT103] unknown format 'jsn'\n  expected: one of {_FILE_FORMATS}\n"
            "  hint: did you mean 'json' or 'op-json'?",
        ),
        (
            {"connector": "replay", "path": "/x", "format": "csv"},
            "source",
            "a INT",
            "[OPT103] the connector 'replay' has no format 'csv'\n"
            "  expected: one of 'json', 'debezium-json', "
            "'canal-json', 'maxwell-json', 'ogg-json', 'op-json'",
        ),
        (
            {"connector": "filesystem", "format": "json"},
            "sink",
            "a INT",
            "[OPT101] the connector 'filesystem' needs the option 'path'\n  expected: 'path' = a text",
        ),
        (
            FILES | {"json.ignore-parse-error": "true"},
            "source",
            "a INT",
            "[OPT104] unknown option 'json.ignore-parse-error' of connector 'filesystem' with format 'json'\n"
            "  hint: did you mean 'json.ignore-parse-errors'?",
        ),
        (
            FILES | {"colour": "red"},
            "sink",
            "a INT",
            "[OPT104] unknown option 'colour' of connector 'filesystem' with format 'json'\n"
            "  expected: one of format, json.encode.decimal-as-plain-number, json.encode.ignore-null-fields, "
            "json.map-null-key.literal, json.map-null-key.mode, json.timestamp-format.standard, "
            "partition.default-name, path",
        ),
        (
            {"connector": "blackhole", "path": "/x"},
            "sink",
            "a INT",
            "[OPT104] unknown option 'path' of connector 'blackhole'\n  expected: no options",
        ),
        (
            FILES | {"json.ignore-parse-errors": "yes"},
            "source",
            "a INT",
            "[OPT105] 'yes' is not a value of the option 'json.ignore-parse-errors'\n  expected: 'true' or 'false'",
        ),
        (
            FILES | {"json.timestamp-format.standard": "iso-8601"},
            "source",
            "a INT",
            "[OPT105] 'iso-8601' is not a value of the option 'json.timestamp-format.standard'\n"
            "  expected: 'SQL' or 'ISO-8601'\n  hint: did you mean 'ISO-8601'?",
        ),
        (
            FILES | {"source.max-files-per-trigger": "0"},
            "source",
            "a INT",
            "[OPT105] '0' is not a value of the option 'source.max-files-per-trigger': it is too small\n"
            "  expected: a whole number of at most 32 bits, at least 1",
        ),
        (
            FILES | {"source.monitor-interval": "1 parsec"},
            "source",
            "a INT",
            "[OPT105] '1 parsec' is not a value of the option 'source.monitor-interval': the unit 'parsec' of "
            "'1 parsec' is not known\n  expected: a duration such as '10 s', '5 min' or '1 h'",
        ),
        (
            FILES | {"backfill.from": "yesterday"},
            "source",
            "a INT",
            "[OPT105] 'yesterday' is not a value of the option 'backfill.from'\n"
            "  expected: 'earliest', or a time in UTC such as '2026-01-31' or '2026-01-31 08:00:00'",
        ),
        (
            FILES | {"source.path.regex-pattern": "("},
            "source",
            "a INT",
            "[OPT105] '(' is not a value of the option 'source.path.regex-pattern': missing ), unterminated subpattern "
            "at position 0\n  expected: a regular expression",
        ),
        (
            FILES | {"format": "csv", "csv.field-delimiter": "||"},
            "source",
            "a INT",
            "[OPT105] '||' is not a value of the option 'csv.field-delimiter'\n"
            "  expected: a single character (Java escapes such as '\\t' are understood)",
        ),
        (
            FILES | {"json.fail-on-missing-field": "true", "json.ignore-parse-errors": "true"},
            "source",
            "a INT",
            "[OPT106] the options 'json.fail-on-missing-field' and 'json.ignore-parse-errors' exclude each other\n"
            "  hint: leave one of them out",
        ),
        (
            FILES | {"format": "csv", "csv.disable-quote-character": "true", "csv.quote-character": "'"},
            "sink",
            "a INT",
            "[OPT106] the options 'csv.disable-quote-character' and 'csv.quote-character' exclude each other\n"
            "  hint: leave one of them out",
        ),
        (
            FILES | {"auto-compaction": "true"},
            "sink",
            "a INT",
            "[OPT107] the option 'auto-compaction' = 'true' cannot be honoured: files are not "
            "compacted\n  hint: leave the option out",
        ),
        (
            {"connector": "print"},
            "source",
            "a INT",
            "[CAT101] a table of connector 'print' cannot be read\n"
            f"  expected: a connector that is a source: {_SOURCES}\n"
            "  hint: 'print' is only a sink: write to it instead",
        ),
        (
            {"connector": "datagen"},
            "sink",
            "a INT",
            "[CAT101] a table of connector 'datagen' cannot be written to\n"
            f"  expected: a connector that is a sink: {_SINKS}\n"
            "  hint: 'datagen' is only a source: read it instead",
        ),
        (
            FILES,
            "source",
            "m MAP<INT, INT>",
            "[CAT102] the format 'json' cannot hold the column 'm' of type MAP<INT, INT>\n"
            "  expected: a map whose keys are text",
        ),
        (
            {"connector": "replay", "path": "/x", "format": "json"},
            "source",
            "`@at` BIGINT",
            "[CAT102] a replay table has a column '@at', which is the time of arrival\n"
            "  hint: give the column another name",
        ),
        (
            {"connector": "datagen", "fields.b.kind": "random"},
            "source",
            "a INT",
            "[OPT108] the option 'fields.b.kind' matches no column of the table\n"
            "  expected: one of fields.a.kind, fields.a.null-rate, fields.a.min, fields.a.max\n"
            "  hint: did you mean 'fields.a.kind' or 'fields.a.min' or 'fields.a.max'?",
        ),
        (
            {"connector": "datagen", "fields.a.kind": "rnd"},
            "source",
            "a INT",
            "[OPT105] 'rnd' is not a value of the option 'fields.a.kind'\n  expected: 'random' or 'sequence'\n"
            "  hint: did you mean 'random'?",
        ),
        (
            {"connector": "datagen", "fields.a.kind": "sequence", "fields.a.start": "1"},
            "source",
            "a INT",
            "[OPT101] the sequence needs the option 'fields.a.end'\n  expected: 'fields.a.end' = a whole number",
        ),
        (
            {"connector": "datagen", "fields.a.min": "5", "fields.a.max": "2"},
            "source",
            "a INT",
            "[OPT106] 'fields.a.min' (5) is greater than 'fields.a.max' (2)",
        ),
        (
            {"connector": "datagen", "fields.a.min": "x"},
            "source",
            "a INT",
            "[OPT105] 'x' is not a value of the option 'fields.a.min'\n  expected: a value of type INT",
        ),
        (
            {"connector": "datagen", "fields.a.length": "7"},
            "source",
            "a VARCHAR(3)",
            "[OPT108] 'fields.a.length' = '7' is longer than VARCHAR(3)\n  expected: at most 3",
        ),
        (
            {"connector": "datagen", "fields.a.length": "2"},
            "source",
            "a CHAR(3)",
            "[OPT108] the option 'fields.a.length' does not apply to CHAR(3), whose length is fixed\n"
            "  hint: leave the option out",
        ),
        (
            {"connector": "datagen", "fields.a.null-rate": "2"},
            "source",
            "a INT",
            "[OPT105] '2' is not a value of the option 'fields.a.null-rate'\n  expected: a number from 0 to 1",
        ),
        (
            {"connector": "datagen", "fields.a.kind": "sequence", "fields.a.start": "1", "fields.a.end": "2"},
            "source",
            "a DATE",
            "[OPT108] a column of type DATE cannot be a sequence ('fields.a.kind')\n"
            "  expected: a number or text column",
        ),
    ],
)
def test_messages(options: dict[str, str], role: str, columns: str, message: str) -> None:
    with pytest.raises(StateplanError) as error:
        validate_table(options, role, schema=fields(columns))
    assert str(error.value) == message
    assert isinstance(error.value, CatalogError if error.value.code.startswith("CAT") else OptionError)


def test_the_place_is_told() -> None:
    place = Place(line=2, column=3, source="x\nabcdef")
    with pytest.raises(OptionError) as error:
        validate_table({"connector": "nope"}, "source", place)
    assert "line 2, column 3\n  abcdef\n    ^" in str(error.value)


def test_the_place_of_an_option_is_told() -> None:
    places = {key: Place(line=1, column=n, source="x" * 9) for n, key in enumerate((*FILES, "pth"), 1)}
    for options in (FILES | {"pth": "/x"}, FILES | {"connector": "files"}, FILES | {"format": "jsn"}):
        with pytest.raises(OptionError) as error:
            validate_table(options, "source", Place(line=7), None, places)
        wrong = next(key for key in options if options[key] != FILES.get(key))
        assert error.value.place == places[wrong]


def test_good_tables_and_their_notes() -> None:
    assert validate_table(FILES, "source") == ()
    assert (
        validate_table(FILES | {"source.monitor-interval": "10 s", "json.ignore-parse-errors": "TRUE"}, "source") == ()
    )
    assert validate_table({"connector": "datagen", "fields.a.b.kind": "random"}, "source") == ()
    assert validate_table(FILES | {"sink.rolling-policy.file-size": "1 mb"}, "sink") == (
        "the option 'sink.rolling-policy.file-size' has no effect: files are committed once per micro-batch",
    )
    assert validate_table(FILES | {"auto-compaction": "false"}, "sink") == ()


def test_what_tables_are() -> None:
    assert registry.source_changelog_mode(FILES) == INSERT_ONLY
    assert registry.source_changelog_mode(FILES | {"format": "debezium-json"}) == RETRACT
    assert registry.sink_changelog_mode(FILES) == INSERT_ONLY
    assert registry.sink_changelog_mode({"connector": "print"}) == RETRACT
    assert "ProjectPushDown" in registry.find_connector(FILES).abilities
    assert "ProjectPushDown" not in registry.find_connector({"connector": "datagen"}).abilities
    assert list(registry.metadata_columns(FILES)) == ["file.path", "file.name", "file.size", "file.modification-time"]
    assert (
        str(registry.metadata_columns(FILES)["file.modification-time"]) == "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"
    )
    assert bounded(FILES) and not bounded(FILES | {"source.monitor-interval": "1 s"})
    assert not bounded({"connector": "datagen"})
    assert bounded({"connector": "datagen", "number-of-rows": "5"})
    assert bounded({"connector": "replay"})
    files = CONNECTORS["filesystem"]
    assert files.value(FILES | {"source.monitor-interval": "2 min"}, "source.monitor-interval") == 120_000
    assert FORMATS["json"].values(FILES)["timestamp-format.standard"] == "SQL"
    with pytest.raises(OptionError):
        files.value(FILES, "nope")


def bounded(options: dict[str, str]) -> bool:
    return registry.find_connector(options).is_bounded(options)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("64kb", 65536), ("128 mb", 128 << 20), (" 1 gb ", 1 << 30), ("2 TB", 2 << 40), ("5 bytes", 5)],
)
def test_memory_sizes(text: str, size: int) -> None:
    assert parse_memory_size(text) == size


@pytest.mark.parametrize("text", ["", "mb", "1.5 mb", "-1", "1 pb", "9999999999999 tb"])
def test_not_memory_sizes(text: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        parse_memory_size(text)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (OptionType.CHARACTER, "\\t", "\t"), (OptionType.CHARACTER, "\\u0001", "\x01"),
        (OptionType.CHARACTER, "\\", "\\"),
        (OptionType.CHARACTER, "\\;", ";"), (OptionType.BOOLEAN, "False", False), (OptionType.INTEGER, "+5", 5),
        (OptionType.FLOAT, "0.5f", 0.5), (OptionType.DURATION, "1 h", 3_600_000), (OptionType.LONG, "-3", -3),
    ],
)  # fmt: skip
def test_values(kind: OptionType, text: str, value: object) -> None:
    assert parse_value(Option("k", kind, "."), text) == value


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a;b", ("a", "b")), ("a;b;", ("a", "b")), (";a", ("a",)), ("a; ;b", ("a", "", "b")), (" a ; b\t", ("a", "b")),
        ("a;b;;", ("a", "b", "")), (";;a", ("", "a")), ("", ()), (" ", ()), (";", ()), (";;", ("",)),
        ("'a;b';c", ("a;b", "c")), ("'a''b' ;c", ("a'b", "c")), ('"a""\'b"', ("a\"'b",)), ("'';a", ("", "a")),
        ("' a '", (" a ",)), ("a'b;c", ("a'b", "c")), ("a 'b';c", ("a 'b'", "c")), ("-a;b", ("-a", "b")),
        ("[a, b]", ("a", "b")), ("['a;b','c']", ("a;b", "c")), ("- a\n- b", ("a", "b")), ("[]", ()),
        ("[a", ("[a",)), ("[a]b", ("[a]b",)), ("{a: b}", ("{a: b}",)), ("a, b", ("a, b",)),
    ],
)  # fmt: skip
def test_lists_are_split_as_flink_splits_them(text: str, parts: tuple[str, ...]) -> None:
    assert parse_value(Option("k", OptionType.LIST, "."), text) == parts


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *((text, "a quote does not end") for text in ("'a", "a;'", 'a;"b;c', "'a''")),
        *((text, "something follows a quote") for text in ("'a'b", "'a' b;c", "a;\"b\"'c'")),
    ],
)
def test_lists_with_wrong_quotes(text: str, reason: str) -> None:
    with pytest.raises(OptionError, match=f"OPT105.*is not a value of the option 'k': {reason}"):
        parse_value(Option("k", OptionType.LIST, "."), text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (OptionType.INTEGER, "2147483648"), (OptionType.INTEGER, "1.0"), (OptionType.LONG, "9223372036854775808"),
        (OptionType.INTEGER, "1_0"), (OptionType.FLOAT, "x"), (OptionType.DURATION, "1 parsec"),
        (OptionType.BOOLEAN, "1"),
        (OptionType.CHARACTER, ""),
    ],
)  # fmt: skip
def test_not_values(kind: OptionType, text: str) -> None:
    with pytest.raises(OptionError) as error:
        parse_value(Option("k", kind, "."), text)
    assert error.value.code == "OPT105" and error.value.expected
