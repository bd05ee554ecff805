"""What a plan should not hold, or not there: values for :mod:`tests.plans.damage`."""

from __future__ import annotations

from typing import Any

HUGE = 10_000
"""Levels, digits: what no plan has."""

DEEP = (("[", "]"), ('{"a":', "}"), ('{"kind":"CALL","operands":[', '],"type":"INT"}'), ('"ROW<`a` ROW<', '>>"'))

TYPES = (
    "INT", "BIGINT NOT NULL", "DECIMAL(39, 3)", "DECIMAL(0)", "DECIMAL(5, 9)", "DECIMAL(-1, 0)", "DECIMAL",
    "VARCHAR(0)",
    "VARCHAR(2147483648)", "VARCHAR(-1)", "CHAR(99999999999999999999)", "BINARY(0)", "TIMESTAMP(10)",
    "TIMESTAMP(-1)",
    "TIMESTAMP(3) WITH TIME ZONE", "TIMESTAMP_LTZ(3) *PROCTIME*", "TIME(4)", "INTERVAL DAY(9) TO SECOND(10)",
    "ROW<",
    "ROW<>", "ROW<`a` INT>", "ROW<`a` INT, `a` INT>", "ROW<`` INT>", "ARRAY<INT", "MAP<INT>",
    "MAP<INT, ROW<`x` NULL>>",
    "MULTISET<STRING>", "RAW('java.lang.Object', 'AAAA')", "NULL", "STRING(3)", "int", "Ì̈NT", "VARCHAR(5) NOT",
    "INT NULL",
    "ROW<`a` INT 'comment'>", "STRUCTURED<'x'>", "VARIANT", "DESCRIPTOR", "ARRAY<" * 60 + "INT" + ">" * 60, "",
)  # fmt: skip

DURATIONS = (
    "", " ", "1", "-1", "-1 d", "1 d 2 h", "1.5 h", "1 fortnight", "1 D", "9999999999999 d", "9" * 40 + " ms",
    "1 ns",
    "0 d", "PT", "P1D", "-PT1H", "PT1H1H", "P1Y", "1\u00a0h", "١ h", "NaN", "1 µs", "1  h ", "1h\n",
    "9223372036854775807 ms",
)  # fmt: skip

SQL = (
    "", ";", "INSERT INTO", "INSERT INTO t SELECT * FROM", "DROP TABLE x", "'", "/*", "--", "`", "EXECUTE PLAN 'x'",
    "\x00", "SELECT " + "(" * 300, "STATEMENT SET BEGIN", "INSERT INTO `sink` SELECT " + "a," * 2000,
)  # fmt: skip

NAMES = (
    "", "x", "id", "type", "state", "ttl", "stateplan", "configuration", "kind", "outputType", "a/b~c", "ключ",
    "\u2028", "$", "..", "nodes", "edges", "joinSpec", "grouping", "condition", "rowType", "nul\x00l",
)  # fmt: skip

ANY: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 99, 10**30, -(10**30), 2**31, 2**63, 2**64, 1.5, -0.0, 1e308, 5e-324, "",
    "x", "0",
    "1", "true", "null", "1 h", "INT", "a/b~c", "é", "\u2028", "\U0001f600", "${DIR}", "`a`.`b`",
    "`a`.`b`.`c`.`d`", "``",
    [], [1], ["x"], [[]], [None], [0, 0], [True], {}, {"a": 1}, {"": None}, {"type": "ROW"}, {"type": "HASH"},
    {"type": "ROW", "fields": []}, {"kind": "INPUT_REF"}, {"kind": "CALL"}, {"kind": "LITERAL", "type": "INT"},
    {"kind": "INPUT_REF", "inputIndex": 99, "type": "INT"},
    {"kind": "CORREL_VARIABLE", "correl": "$cor0", "type": "INT"},
    {"kind": "FIELD_ACCESS", "name": "x", "expr": {"kind": "INPUT_REF", "inputIndex": 0, "type": "ROW<`x` INT>"}},
    {"kind": "LITERAL", "value": "x", "type": "INT"},
    {"kind": "LITERAL", "value": 10**40, "type": "DECIMAL(38, 0)"},
    {"kind": "LITERAL", "sarg": {"ranges": [{}], "nullAs": "TRUE"}, "type": "INT"},
    {"kind": "CALL", "syntax": "BINARY", "internalName": "$=$1", "operands": [], "type": "BOOLEAN"},
    {"kind": "CALL", "internalName": "$CASE$1", "operands": [{"kind": "LITERAL", "value": 1, "type": "INT"}]},
    {"a": {"b": {"c": [{}]}}}, "stream-exec-sink_1", "stream-exec-sink_2", "stream-exec-join_1",
    "stream-exec-union_1",
    "stream-exec-rank_1", "stream-exec-match_1", "batch-exec-calc_1", "stream-exec-calc_99", "calc", "INSERT",
    "UNKNOWN",
)  # fmt: skip

FACTS: tuple[Any, ...] = (
    None, {}, [], {"uid": ""}, {"uid": 5}, {"uid": "x" * 5000}, {"formatVersion": 2}, {"formatVersion": 10**30},
    {"formatVersion": True}, {"formatVersion": 1, "schemaHashes": []},
    {"formatVersion": 1, "schemaHashes": {"x": 1}},
    {"formatVersion": 1, "sqlHash": 7}, {"compiledTtl": []}, {"compiledTtl": [{"ttl": "1 h", "from": "hint"}]},
    {"compiledTtl": [{"ttl": "x", "from": "hint"}]}, {"compiledTtl": [{"ttl": "1 h", "from": "nobody"}] * 9},
    {"compiledTtl": {"0": "1 h"}}, {"compiledTtl": [None]}, {"suppress": {"TTL001": "known"}},
    {"suppress": {"TTL999": ""}},
    {"suppress": ["TTL001"]}, {"suppress": {"TTL001": None}}, {"suppress": "all"}, {"uids": "x"},
)  # fmt: skip

TOKENS = (
    "{", "}", "[", "]", ",", ":", "null", "true", "false", '""', '"x"', '"-1 d"', "0", "-1", "1.5", "1e999",
    "-1E+400",
    "1e-999", "NaN", "Infinity", "-Infinity", "0x10", "01", "+1", ".5", "1.", "--1", "99999999999999999999",
    "9" * 5000,
    "0." + "1" * HUGE, '"\\ud800"', '"\\udc00\\ud800"', '"\\u12"', '"\\x"',
    '"\\', "'x'", "//", "/* x */", "#", "\x00",
    "\x07", "\ufeff", "\u00a0", "\u2028", "é", "\u201c",
    "[[[[", "{}", "[]", '"type"', '"state"', '"stream-exec-calc_1"',
    '"stateplan"', '"ROW<`a` INT>"', '"INPUT_REF"', "True", "None", "undefined", ",,", ":null,",
)  # fmt: skip
