"""What queries that cannot be compiled are answered: a code, the place in the SQL, and what would be right there."""

from __future__ import annotations

import pytest

from stateplan.common.errors import StateplanError
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import Inserts, read_script
from tests.planner.conftest import TABLES
from tests.planner.error_places import underlined

RETRY = "'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay'"

CASES = [
    # names
    ("SELECT a, bb FROM t", "SQL100", "bb", "column 'bb'", "did you mean 'b'?"),
    ("SELECT a FROM t WHERE b = pen", "SQL100", "pen", "column 'pen'", "for a text write 'pen'"),
    ("SELECT a FROM t WHERE (b) IN (1, (pen))", "SQL100", "pen", "column 'pen'", "for a text write 'pen'"),
    ("SELECT a FROM t WHERE b NOT BETWEEN pen AND 2", "SQL100", "pen", "column 'pen'", "for a text write 'pen'"),
    ("SELECT CASE b WHEN pen THEN 1 END FROM t", "SQL100", "pen", "column 'pen'", "for a text write 'pen'"),
    ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE b = `it's`)", "SQL100", "`it's`", "column", "write 'it''s'"),
    ("SELECT a FROM t WHERE b = t.pen", "SQL100", "pen", "column 'pen'", None),
    ("SELECT a + 1 AS pen, pen FROM t", "SQL100", "pen", "column 'pen'", "'pen' is an alias of this SELECT: repeat"),
    ("SELECT a + 1 AS pen FROM t WHERE pen > 1", "SQL100", "pen", "column 'pen'", "or name it in a query within FROM"),
    ("SELECT a AS pen FROM t WHERE t.pen > 1", "SQL100", "pen", "column 'pen'", None),
    ("SELECT 'a' + b FROM t", "SQL203", "'a' + b", "+ cannot be applied to", "write a || b to join texts"),
    ("SELECT MEDIAN(a) FROM t", "SQL200", "MEDIAN", "function 'MEDIAN'", "write PERCENTILE(x, 0.5)"),
    ("SELECT COUNT(pen) FROM t", "SQL100", "pen", "column 'pen'", None),
    ("SELECT t.a, t.bb FROM t", "SQL100", "bb", "column 'bb'", "did you mean 'b'?"),
    ("SELECT a, x FROM t JOIN u ON t.a = u.a", "SQL101", "a", "'a' is ambiguous", "'t' and 'u'"),
    ("SELECT d FROM (SELECT a AS d, b AS d FROM t)", "SQL101", "d", "'d' is ambiguous", "different names with AS"),
    ("SELECT q.d FROM (SELECT DISTINCT a AS d, b AS d FROM t) q", "SQL101", "d", "'d' is ambiguous", "names with AS"),
    ("SELECT * FROM (SELECT a AS d, b AS d FROM t UNION ALL SELECT a, b FROM t)", "SQL101", "*", "'d' is", "with AS"),
    ("SELECT q.* FROM (SELECT t.a, u.a FROM t JOIN u ON t.a = u.a) q", "SQL101", "q.*", "'a' is", "names with AS"),
    ("SELECT (a, b) < (1, 2) FROM t", "SQL150", "(a, b) < (1, 2)", "a comparison of rows with <", None),
    ("SELECT a FROM t WHERE a IN (SELECT x FROM UNNEST(ARRAY[t.a, 2]) AS w(x))", "SQL150", "t.a",
     "UNNEST of a column of the outer query", "CROSS JOIN UNNEST"),
    ("SELECT a FROM t WHERE a IN (SELECT x FROM UNNEST(ARRAY[tt.a]) AS w(x))", "SQL102", "tt", "table 'tt' not", None),
    ("WITH w AS (SELECT a, a FROM t) SELECT 1 FROM w", "SQL101", "SELECT a, a FROM t", "'a' is ambiguous",
     "WITH w (...)"),
    ("SELECT t.a, tt.b FROM t", "SQL102", "tt", "table 'tt' not found", "did you mean 't'?"),
    ("SELECT x.a, t.b FROM t AS x", "SQL102", "t", "table 't' not found", None),
    ("SELECT a, b FROM tx", "CAT002", "tx", "not found", "did you mean 't'?"),
    ("SELECT a, b FROM nodb.t", "CAT004", "nodb.t", "'default_catalog.nodb' not found", None),
    ("SELECT a, SUMM(b) FROM t GROUP BY a", "SQL200", "SUMM", "function 'SUMM' not found", "did you mean 'SUM'?"),
    ("WITH q AS (SELECT a, b FROM t) SELECT a, c FROM q", "SQL100", "c", "column 'c'", None),
    ("SELECT t.a, t.b FROM t JOIN t ON t.a = t.a", "SQL113", "t", "have the name 't'", "another alias"),
    ("SELECT t.a, t.b FROM t JOIN u USING (b)", "SQL100", "b", "column 'b'", None),
    ("SELECT x.a, x.b FROM (SELECT a FROM t) AS x(a, b)", "SQL115", "AS x(a, b)", "'x' has 1 column", None),
    ("SELECT a, ROW_NUMBER() OVER w FROM p", "SQL105", "w", "window 'w' not found", None),
    # LOOKUP
    ("SELECT /*+ LOOKUP('async'='true') */ a, b FROM t", "SQL121", "LOOKUP('async'='true')", "names no table", None),
    ("SELECT /*+ LOOKUP('tabel'='t') */ a, b FROM t", "SQL121", "'tabel'='t'", "no option 'tabel'", "'table'?"),
    ("SELECT /*+ LOOKUP('table'='x') */ a, b FROM t", "SQL123", "'x'", "the LOOKUP hint names 'x'", None),
    (
        "SELECT /*+ LOOKUP('table'='t', 'timeout'='soon') */ a, b FROM t",
        "SQL121",
        "'soon'",
        "'timeout' of a LOOKUP hint cannot be 'soon'",
        None,
    ),
    (
        "SELECT /*+ LOOKUP('table'='t', 'retry-predicate'='lookup_miss') */ a, b FROM t",
        "SQL121",
        "'retry-predicate'='lookup_miss'",
        "lacks the option 'retry-strategy'",
        None,
    ),
    (
        "SELECT /*+ LOOKUP('table'='t', 'retry-predicate'='exception') */ a, b FROM t",
        "SQL121",
        "'exception'",
        "'retry-predicate' of a LOOKUP hint cannot be 'exception'",
        None,
    ),
    *(
        (f"SELECT /*+ LOOKUP('table'='t', {RETRY}, {rest}) */ a, b FROM t", code, where, message, None)
        for rest, code, where, message in (
            ("'fixed-delay'='0 s', 'max-attempts'='3'", "SQL121", "'0 s'",
             "'fixed-delay' of a LOOKUP hint cannot be '0 s'"),
            ("'fixed-delay'='1 s', 'max-attempts'='0'", "SQL121", "'0'", "LOOKUP hint cannot be '0'"),
            ("'fixed-delay'='1 s', 'max-attempts'='3'", "SQL123", RETRY.split(", ")[0], "is not looked up"),
        )
    ),
    # functions between rows and changes
    ("SELECT a, b FROM FROM_CHANGELOG(TABLE t, DESCRIPTOR(cc))", "SQL119", "DESCRIPTOR", "'cc'", "'c'?"),
    ("SELECT a, b FROM FROM_CHANGELOG(TABLE t, DESCRIPTOR(a))", "SQL119", "DESCRIPTOR", "of type INT", None),
    ("SELECT a, b FROM FROM_CHANGELOG(3)", "SQL119", "3", "must be a table", None),
    ("SELECT a, b FROM FROM_CHANGELOG(TABLE t, mapping => 3)", "SQL119", "mapping => 3", "no argument 'mapping'", None),
    (
        "SELECT a, b FROM FROM_CHANGELOG(TABLE t, DESCRIPTOR(c), MAP['u', 'UPDATE_AFTER'])",
        "SQL119",
        "MAP['u', 'UPDATE_AFTER']",
        "without UPDATE_BEFORE",
        None,
    ),
    (
        "SELECT a, b FROM FROM_CHANGELOG(TABLE t, DESCRIPTOR(c), MAP['c', 'INSERT', 'r', 'INSERT'])",
        "SQL119",
        "MAP['c', 'INSERT', 'r', 'INSERT']",
        "INSERT comes twice",
        "MAP['c, r', 'INSERT']",
    ),
    (
        "SELECT a, b FROM TO_CHANGELOG(TABLE t, op_mapping => MAP['INSERTS', 'c'])",
        "SQL119",
        "MAP['INSERTS', 'c']",
        "'INSERTS'",
        "did you mean 'INSERT'?",
    ),
    # types
    ("SELECT a, b FROM t WHERE a", "SQL103", "a", "has the type INT", None),
    ("SELECT a, COUNT(*) FILTER (WHERE b) FROM t GROUP BY a", "SQL103", "b", "FILTER has the type BIGINT", None),
    ("SELECT t.a, u.x FROM t JOIN u ON t.a", "SQL103", "t.a", "ON has the type INT", None),
    ("SELECT a, b FROM t WHERE a + c > 3", "SQL203", "a + c", "argument 2 is STRING", None),
    ("SELECT a, SUM(c) FROM t GROUP BY a", "SQL203", "SUM", "SUM cannot be applied to (STRING)", None),
    ("SELECT a, b FROM t UNION ALL SELECT a FROM u", "SQL111", "SELECT a FROM u",
     "UNION combines rows of 2 columns and of 1", None),
    ("SELECT a, b FROM t UNION ALL SELECT a, y FROM u", "SQL112", "SELECT a, y FROM u", "STRING", "CAST one side"),
    ("SELECT a, NULL FROM t", "SQL109", "NULL", "needs a type", "CAST(NULL AS"),
    ("SELECT a, b FROM t WHERE (a, b) = (1, 2, 3)", "SQL106", "(a, b) = (1, 2, 3)", "2 values", None),
    # aggregates
    ("SELECT a, b FROM t GROUP BY a", "SQL107", "b", "'b' is not in GROUP BY", None),
    ("SELECT * FROM u GROUP BY a", "SQL107", "SELECT * FROM u GROUP BY a", "'x'", None),
    ("SELECT a, COUNT(*) FROM t GROUP BY 1", "SQL107", "a", "'a' is not in GROUP BY", "not column 1"),
    ("SELECT a, COUNT(*) FROM t GROUP BY a HAVING b > 3", "SQL107", "b", "'b' is not in GROUP BY", None),
    ("SELECT a, COUNT(*) FROM t HAVING COUNT(*) > 3", "SQL107", "a", "'a' is not in GROUP BY", None),
    ("SELECT a, SUM(COUNT(*)) FROM t GROUP BY a", "SQL108", "COUNT", "nested", "subquery"),
    ("SELECT a, b FROM t WHERE SUM(b) > 3", "SQL104", "SUM", "cannot be used in WHERE", "HAVING"),
    ("SELECT t.a, u.x FROM t JOIN u ON SUM(t.a) = 1", "SQL104", "SUM", "cannot be used in ON", None),
    ("SELECT a, SUM(b) FROM t GROUP BY SUM(b)", "SQL104", "SUM", "GROUP BY", None),
    ("SELECT a, UPPER(c) FILTER (WHERE b > 1) FROM t", "SQL104", "UPPER(c) FILTER (WHERE b > 1)", "FILTER", None),
    ("SELECT a, COUNT() FROM t GROUP BY a", "SQL106", "COUNT", "COUNT takes one argument", None),
    ("SELECT a, SUM(*) FROM t GROUP BY a", "SQL106", "*", "SUM(*) is not allowed", "only COUNT accepts *"),
    ("SELECT a, UPPER(*) FROM t", "SQL106", "*", "UPPER(*) is not allowed", None),
    ("SELECT a, ROW_NUMBER() FROM t", "SQL105", "ROW_NUMBER", "needs an OVER clause", None),
    ("SELECT a, b FROM p WHERE ROW_NUMBER() OVER (ORDER BY pt) = 1", "SQL105", "ROW_NUMBER() OVER (ORDER BY pt)",
     "WHERE", "subquery"),
    ("SELECT t.a, t.b FROM t JOIN u", "SQL114", "JOIN u", "needs a condition", "CROSS JOIN"),
    ("SELECT t.a, t.b FROM t FULL JOIN u", "SQL114", "FULL JOIN u", "needs a condition", "CROSS JOIN"),
    # hints
    ("SELECT /*+ STATE_TTL('zz'='1 d') */ a, COUNT(*) FROM t GROUP BY a", "SQL123", "'zz'", "'zz'", None),
    ("SELECT /*+ STATE_TTL('t'='1 d') */ x.a, COUNT(*) FROM t AS x GROUP BY x.a", "SQL123", "'t'", "'t'", "alias"),
    ("SELECT /*+ STATE_TTL('t'='1 parsec') */ a, COUNT(*) FROM t GROUP BY a", "SQL122", "'1 parsec'", "parsec", None),
    ("SELECT /*+ STATE_TTL('t') */ a, COUNT(*) FROM t GROUP BY a", "SQL121", "'t'", "pairs", None),
    ("SELECT /*+ STAT_TTL('t'='1 d') */ a, COUNT(*) FROM t GROUP BY a", "SQL120", "STAT_TTL('t'='1 d')", "unknown hint",
     "STATE_TTL"),
    ("SELECT a, b FROM t /*+ OPTION('a'='b') */", "SQL120", "OPTION('a'='b')", "unknown hint 'OPTION'", None),
    # what comes later
    ("SELECT a, b FROM t ORDER BY a", "SQL160", "ORDER BY a", "ORDER BY a field that is not", None),
    ("SELECT a, b FROM t ORDER BY b OFFSET 3", "SQL160", "ORDER BY b", "OFFSET without LIMIT", None),
    ("SELECT a, b FROM p ORDER BY pt DESC", "SQL160", "ORDER BY pt DESC", "ascending time attribute", None),
    ("SELECT id, v FROM (SELECT *, PROCTIME() AS pt FROM cdc) ORDER BY pt", "SQL140", "ORDER BY pt",
     "doesn't support consuming update and delete changes", None),
    ("SELECT a, b FROM t ORDER BY 3 LIMIT 1", "SQL117", "3", "the query has 2 columns", None),
    ("SELECT a, a FROM t ORDER BY a LIMIT 1", "SQL101", "a", "'a' is ambiguous", "AS"),
    ("SELECT DISTINCT a, b FROM t ORDER BY c LIMIT 1", "SQL118", "c", "not in the select list", None),
    ("SELECT a, b FROM t ORDER BY x LIMIT 1", "SQL100", "x", "column 'x'", None),
    ("SELECT a, b FROM t ORDER BY MAP[a, b] LIMIT 1", "SQL203", "MAP[a, b]", "have no order", None),
    ("SELECT a FROM t ORDER BY ARRAY[PARSE_JSON('1')] LIMIT 1", "SQL203", "ARRAY[PARSE_JSON('1')]", "no order", None),
    ("SELECT ROW_NUMBER() OVER (ORDER BY PARSE_JSON('1')) FROM t", "SQL203", "PARSE_JSON('1')", "no order", None),
    ("SELECT a, COUNT(*) FROM t GROUP BY a ORDER BY b LIMIT 1", "SQL107", "b", "'b' is not in GROUP BY", None),
    ("SELECT a, b FROM t WHERE a IN (SELECT a, x FROM u)", "SQL106", "SELECT a, x FROM u",
     "cannot compare 1 value with 2", None),
    ("SELECT a, (SELECT a, x FROM u) FROM t", "SQL106", "(SELECT a, x FROM u)", "has 2 columns", None),
    ("SELECT a, b FROM t WHERE a IN (SELECT z FROM u)", "SQL100", "z", "column 'z'", None),
    ("SELECT a, b FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = w.a)", "SQL102", "w", "table 'w' not found", None),
    ("SELECT t.a, t.b FROM t JOIN p ON t.a = p.a AND p.b IN (SELECT x FROM u)", "SQL152", "SELECT x FROM u",
     "not supported in a join condition", "WHERE"),
    ("SELECT t.a, t.b FROM t RIGHT JOIN p ON t.a = p.a AND EXISTS (SELECT 1 FROM u)", "SQL152",
     "EXISTS (SELECT 1 FROM u)", "not supported in a join condition", "WHERE"),
    ("SELECT t.a, t.b FROM t JOIN p ON t.a = p.a AND NOT EXISTS (SELECT 1 FROM u)", "SQL152",
     "EXISTS (SELECT 1 FROM u)", "not supported in a join condition", "WHERE"),
    ("SELECT t.a, t.b FROM t JOIN p ON t.a = p.a AND EXISTS (SELECT 1 FROM u WHERE u.x = t.b)", "SQL152",
     "EXISTS (SELECT 1 FROM u WHERE u.x = t.b)", "not supported in a join condition", "WHERE"),
    ("SELECT t.a, t.b FROM t JOIN p ON t.a = p.a AND p.b > ANY (SELECT x FROM u)", "SQL152", "(SELECT x FROM u)",
     "not supported in a join condition", "WHERE"),
    ("SELECT a, b FROM t WHERE (a, b) <> ANY (SELECT a, x FROM u)", "SQL150", "(a, b) <> ANY (SELECT a, x FROM u)",
     "rows with <> ANY", "one value"),
    ("SELECT t.a, x.b FROM t, LATERAL (SELECT b FROM p WHERE p.a = t.a LIMIT 2) AS x", "SQL150",
     "LIMIT 2", "LIMIT without ORDER BY", "which rows come first"),
    ("SELECT t.a, x.b FROM t, LATERAL (SELECT b FROM p WHERE p.a = t.a ORDER BY b OFFSET 2) AS x", "SQL150",
     "ORDER BY b", "OFFSET without LIMIT", "add a LIMIT"),
    ("SELECT t.a, x.b FROM t, LATERAL (SELECT b FROM p WHERE p.a = t.a UNION ALL SELECT x FROM u) AS x", "SQL150",
     "LATERAL (SELECT b FROM p WHERE p.a = t.a UNION ALL SELECT x FROM u) AS x", "row around", None),
    ("SELECT t.a, x.b FROM t, LATERAL (SELECT t.b + 1 AS b) AS x", "SQL150", "LATERAL (SELECT t.b + 1 AS b) AS x",
     "without a table", "select list"),
    ("SELECT t.a, x.b FROM t RIGHT JOIN LATERAL (SELECT b FROM p WHERE p.a = t.a) AS x ON TRUE", "SQL150",
     "RIGHT JOIN LATERAL (SELECT b FROM p WHERE p.a = t.a) AS x ON TRUE", "this join with LATERAL", "LEFT JOIN"),
    ("SELECT t.a, t.b FROM t, LATERAL (SELECT b FROM p WHERE p.a = t.a) AS t", "SQL113",
     "LATERAL (SELECT b FROM p WHERE p.a = t.a) AS t", "'t'", None),
    ("SELECT t.a, x.n FROM t, LATERAL (SELECT ROW_NUMBER() OVER (ORDER BY b) AS n FROM p WHERE p.a = t.a) AS x "
     "WHERE n = 1", "SQL150", "ROW_NUMBER() OVER (ORDER BY b)", "not partitioned by", "PARTITION BY"),
    ("SELECT t.a, x.b FROM t, LATERAL (SELECT b FROM p WHERE p.a = z.a) AS x", "SQL102", "z", "table 'z'", None),
    ("SELECT JSON('1') FROM t", "SQL201", "JSON", "cannot be used here", None),
    ("SELECT TO_TIMESTAMP_LTZ(1, 10) FROM t", "SQL203", "TO_TIMESTAMP_LTZ", "10 is not a precision", None),
    ("SELECT (a - a) DAY TO SECOND FROM t", "SQL203", "(a - a) DAY TO SECOND", "cannot be applied", None),
    ("SELECT a FROM t WHERE (a, b) OVERLAPS c", "SQL203", "c", "'c' is not a period", None),
    ("SELECT a FROM t WHERE (a, b) OVERLAPS (b, a)", "SQL203", "(a, b) OVERLAPS (b, a)", "argument 1 is", None),
    ("SELECT a, b FROM t WHERE a > ANY ('x', 'y')", "SQL203", "a > ANY ('x', 'y')", "ANY or ALL cannot compare", None),
    ("SELECT a, b FROM t INTERSECT SELECT a FROM u", "SQL111", "SELECT a FROM u", "INTERSECT combines", None),
    ("SELECT a, b FROM t EXCEPT SELECT y, x FROM u", "SQL112", "SELECT y, x FROM u", "of the EXCEPT", "CAST"),
    ("SELECT a, LAG(b) OVER (ORDER BY b) FROM p", "SQL164", "LAG(b) OVER (ORDER BY b)",
     "of LAG is not ordered by a time attribute", None),
    ("SELECT a, ROW_NUMBER() OVER (ORDER BY b DESC) FROM p", "SQL164", "ROW_NUMBER() OVER (ORDER BY b DESC)",
     "downwards", None),
    ("SELECT a, RANK() OVER (ORDER BY b, a) FROM p", "SQL164", "RANK() OVER (ORDER BY b, a)", "one field", None),
    ("SELECT a, RANK() OVER (PARTITION BY a) FROM p", "SQL105", "RANK() OVER (PARTITION BY a)", "needs ORDER BY", None),
    ("SELECT a, RANK(b) OVER (ORDER BY b) FROM p", "SQL105", "b", "RANK does not accept arguments", None),
    ("SELECT a, RANK() OVER (ORDER BY b ROWS 1 PRECEDING) FROM p", "SQL105",
     "RANK() OVER (ORDER BY b ROWS 1 PRECEDING)", "does not accept ROWS", None),
    ("SELECT a, SUM(b) OVER (PARTITION BY a) FROM p", "SQL164", "SUM(b) OVER (PARTITION BY a)", "one field", None),
    ("SELECT a, SUM(b) OVER (ORDER BY pt, b) FROM p", "SQL164", "SUM(b) OVER (ORDER BY pt, b)", "one field", None),
    ("SELECT a, SUM(b) OVER (ORDER BY pt DESC) FROM p", "SQL164", "SUM(b) OVER (ORDER BY pt DESC)", "downwards", None),
    ("SELECT a, SUM(b) OVER (ORDER BY b ROWS 2 PRECEDING) FROM p", "SQL164",
     "SUM(b) OVER (ORDER BY b ROWS 2 PRECEDING)", "has a bound", None),
    ("SELECT a, SUM(b) OVER (ORDER BY pt ROWS CURRENT ROW) FROM p", "SQL164",
     "SUM(b) OVER (ORDER BY pt ROWS CURRENT ROW)", "begins with the current row", None),
    ("SELECT a, SUM(b) OVER (ORDER BY pt ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM p", "SQL164",
     "SUM(b) OVER (ORDER BY pt ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", "after the current one", None),
    ("SELECT MAX(a) OVER (ORDER BY pt), SUM(b) OVER (PARTITION BY a ORDER BY pt) FROM p", "SQL164",
     "SUM(b) OVER (PARTITION BY a ORDER BY pt)", "differs from another one", None),
    ("SELECT id, COUNT(*) OVER (ORDER BY PROCTIME()) FROM cdc", "SQL140", "COUNT(*) OVER (ORDER BY PROCTIME())",
     "OVER doesn't support consuming update and delete changes", None),
    ("SELECT a, SUM(b) OVER (ORDER BY pt ROWS b PRECEDING) FROM p", "SQL105", "b",
     "not a constant number of rows", None),
    ("SELECT a, SUM(b) OVER (ORDER BY pt RANGE 5 PRECEDING) FROM p", "SQL105", "5",
     "not a constant length of time", None),
    ("SELECT a, SUM(b) OVER (ORDER BY pt RANGE INTERVAL '1' MONTH PRECEDING) FROM p", "SQL105", "INTERVAL '1' MONTH",
     "not a constant length of time", None),
    ("SELECT a, SUM(b) OVER (ORDER BY pt ROWS BETWEEN CURRENT ROW AND 1 PRECEDING) FROM p", "SQL105",
     "ROWS BETWEEN CURRENT ROW AND 1 PRECEDING", "cannot go from CURRENT ROW", None),
    ("SELECT a, COUNT(*) FILTER (WHERE a > 1) OVER (ORDER BY pt) FROM p", "SQL105",
     "COUNT(*) FILTER (WHERE a > 1) OVER (ORDER BY pt)", "OVER needs a window function", "CASE WHEN"),
    ("SELECT a, ABS(b) OVER (ORDER BY pt) FROM p", "SQL105", "ABS(b) OVER (ORDER BY pt)",
     "ABS does not accept OVER", None),
    ("SELECT a, LAG(b) OVER (ORDER BY pt ROWS 1 PRECEDING) FROM p", "SQL105",
     "LAG(b) OVER (ORDER BY pt ROWS 1 PRECEDING)", "does not accept ROWS", None),
    ("SELECT a, LAG(b, a) OVER (ORDER BY pt) FROM p", "SQL203", "a", "not a constant number of rows", None),
    ("SELECT a, LAG(b, 1, 'x') OVER (ORDER BY pt) FROM p", "SQL203", "'x'", "the default of LAG", "CAST"),
    ("SELECT a, LEAD(b) OVER (ORDER BY pt) FROM p", "SQL162", "LEAD(b) OVER (ORDER BY pt)", "LEAD()", None),
    ("SELECT a, SUM(*) OVER (ORDER BY pt) FROM p", "SQL106", "SUM", "SUM takes a value", None),
    ("SELECT a, LISTAGG(c, c) OVER (ORDER BY pt) FROM p", "SQL203", "c", "separator", None),
    ("SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY b) AS n FROM p) WHERE n > 2", "SQL161",
     "ROW_NUMBER() OVER (ORDER BY b)", "no last one", None),
    ("SELECT a, b FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY b) AS n FROM p) WHERE n <= 0", "SQL161",
     "ROW_NUMBER() OVER (ORDER BY b)", "the last number is 0", None),
    ("SELECT a, b FROM (SELECT *, RANK() OVER (ORDER BY b DESC) AS n FROM p) WHERE n <= 3", "SQL162",
     "RANK() OVER (ORDER BY b DESC)", "a top-N query by RANK()", None),
    ("SELECT a, b FROM (SELECT *, DENSE_RANK() OVER (ORDER BY pt) AS n FROM p) WHERE n = 1", "SQL162",
     "DENSE_RANK() OVER (ORDER BY pt)", "a top-N query by DENSE_RANK()", None),
    ("SELECT a, NTILE(4) OVER (ORDER BY b) FROM p", "SQL162", "NTILE(4) OVER (ORDER BY b)", "NTILE()", None),
    ("SELECT a, COUNT(DISTINCT a, b) FROM t GROUP BY a", "SQL106", "COUNT", "takes one argument", "ROW(a, b)"),
    ("SELECT a, GROUPING(b) FROM t GROUP BY ROLLUP (a)", "SQL107", "b", "'b' is not one", None),
    ("SELECT a, c, COUNT(*) FROM t GROUP BY ROLLUP (a)", "SQL107", "c", "'c' is not in GROUP BY", None),
    ("SELECT a, LISTAGG(c, UPPER(c)) FROM t GROUP BY a", "SQL203", "UPPER", "not a constant", None),
    ("SELECT a, PERCENTILE(c, 0.5) FROM t GROUP BY a", "SQL203", "PERCENTILE", "(STRING, DECIMAL(2, 1)", "NULL"),
    ("SELECT a, PERCENTILE(b, b) FROM t GROUP BY a", "SQL203", "PERCENTILE", "(BIGINT, BIGINT)", "never NULL"),
    ("SELECT a, PERCENTILE(b, 0.5, 1.5) FROM t GROUP BY a", "SQL203", "PERCENTILE", "DECIMAL", "NULL"),
    ("SELECT a, PERCENTILE(b, 1.5) FROM t GROUP BY a", "SQL203", "1.5", "PERCENTILE cannot be 1.5", None),
    ("SELECT a, PERCENTILE(b, ARRAY[0.5, 2]) FROM t GROUP BY a", "SQL203", "ARRAY[0.5, 2]",
     "PERCENTILE cannot be 2", None),
    ("SELECT a, PERCENTILE(b) FROM t GROUP BY a", "SQL202", "PERCENTILE", "cannot take 1 argument", None),
    ("SELECT a, PERCENTILE(DISTINCT b, 0.5, 2) FROM t GROUP BY a", "SQL150", "PERCENTILE", "with a frequency", None),
    ("SELECT a, PERCENTILE(DISTINCT b, COALESCE(b, 0)) FROM t GROUP BY a", "SQL150", "PERCENTILE", "no constant", None),
    ("SELECT x FROM t CROSS JOIN UNNEST(b) AS v(x)", "SQL203", "b", "UNNEST cannot be applied to (BIGINT)", None),
    ("SELECT x FROM t, UNNEST(ARRAY[a]) AS v(x, y)", "SQL115", "AS v(x, y)", "'v' has 1 column", None),
    ("SELECT a, APPROX_COUNT_DISTINCT(b) FROM t GROUP BY a", "SQL201", "APPROX_COUNT_DISTINCT", "batch queries", None),
]  # fmt: skip

INSERTS = [
    ("INSERT INTO snkk SELECT a, b FROM t", "CAT002", "snkk", "did you mean 'snk'?"),
    ("INSERT INTO snk SELECT a FROM t", "SQL130", "snk", "takes 2 columns, but its query returns 1"),
    ("INSERT INTO snk(a) SELECT a, b FROM t", "SQL130", "snk", "the INSERT takes 1 column, but its query returns 2"),
    ("INSERT INTO snk(a, bb) SELECT a, b FROM t", "SQL131", "bb", "column 'bb'"),
    ("INSERT INTO snk(a, a) SELECT a, b FROM t", "SQL132", "a", "listed twice"),
    ("INSERT INTO strict(b) SELECT b FROM t", "SQL133", "strict", "missing from the column list"),
    ("INSERT INTO snk SELECT a, c FROM t", "SQL134", "c", "the column 'b' of"),
    ("INSERT INTO single SELECT h FROM t", "SQL134", "h", "TIMESTAMP(3)"),
    ("INSERT INTO snk SELECT a, LAG(b, 1, 0) OVER (ORDER BY h) FROM t", "SQL203", "0",
     "the default of LAG has the type INT"),
    ("INSERT INTO files SELECT a, COUNT(*) FROM t GROUP BY a", "SQL140", "files",
     "doesn't support consuming update changes which is produced by node "
     "GroupAggregate(groupBy=[a], select=[a, COUNT(*) AS EXPR$1])"),
    ("INSERT INTO files SELECT id, v FROM cdc", "SQL140", "files", "consuming update and delete changes"),
    ("INSERT INTO files SELECT a, n FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) WHERE n > 1", "SQL140", "files",
     "produced by node GroupAggregate("),
    ("INSERT INTO keyed SELECT a + 1, COUNT(*) FROM t GROUP BY a", "SQL141", "keyed",
     "primary key (a), upsert key (none)"),
    ("INSERT INTO keyed SELECT CAST(n AS INT), a FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a)", "SQL141", "keyed",
     "primary key (a), upsert key (b)"),
    ("INSERT INTO upserted VALUES (1, CAST(2 AS BIGINT))", "SQL141", "upserted", "primary key (a), upsert key (none)"),
    ("INSERT INTO upserted SELECT a, b FROM t", "SQL141", "upserted", "primary key (a), upsert key (none)"),
    ("INSERT INTO snk VALUES (1, 2), (3)", "SQL111", "(3)", "VALUES combines rows of 2 columns and of 1"),
    ("INSERT INTO snk VALUES (1, NULL)", "SQL109", "NULL", "needs a type"),
    ("INSERT INTO snk VALUES (1, 2), (TRUE, 3)", "SQL112", "VALUES (1, 2), (TRUE, 3)", "INT NOT NULL and BOOL"),
    ("INSERT INTO snk(a) VALUES (1, 2)", "SQL130", "snk", "its query returns 2"),
    ("INSERT OVERWRITE snk SELECT a, b FROM t", "CAT105", "snk", "the connector 'print'"),
    ("INSERT INTO bucketed SELECT a, b FROM t", "CAT104", "bucketed", "does not write buckets"),
    ("INSERT INTO sliced SELECT a, b FROM t", "CAT107", "sliced", "is partitioned by b, and the connector 'jdbc'"),
    ("INSERT INTO noted SELECT a, b FROM t", "CAT106", "noted", "writes no metadata"),
    ("INSERT INTO parted PARTITION (b = 1) SELECT a, b FROM t", "SQL130", "parted", "its query returns 2"),
    ("INSERT INTO parted PARTITION (a = 1) SELECT b FROM t", "SQL135", "a", "is not a partition column"),
    ("INSERT INTO snk PARTITION (b = 1) SELECT a FROM t", "SQL135", "b", "without PARTITION"),
    ("INSERT INTO parted PARTITION (bb = 1) SELECT a FROM t", "SQL131", "bb", "column 'bb'"),
    ("INSERT INTO parted PARTITION (b = 1, b = 2) SELECT a FROM t", "SQL132", "b", "listed twice"),
    ("INSERT INTO parted PARTITION (b = 1) (b) SELECT a FROM t", "SQL132", "b", "listed twice"),
    ("INSERT INTO parted PARTITION (b = TRUE) SELECT a FROM t", "SQL136", "TRUE", "not a constant text or number"),
    ("INSERT INTO parted PARTITION (b = 1 + 1) SELECT a FROM t", "SQL136", "1 + 1", "not a constant text or number"),
]  # fmt: skip


def error_of(env: TableEnvironment, sql: str) -> StateplanError:
    (statement,) = read_script(sql)
    with pytest.raises(StateplanError) as caught:
        env.session.compiler.inserts(Inserts.of(statement.node, statement.source))
    return caught.value


@pytest.mark.parametrize(("query", "code", "where", "message", "hint"), CASES, ids=[c[0] for c in CASES])
def test_query(env: TableEnvironment, query: str, code: str, where: str, message: str, hint: str | None) -> None:
    error = error_of(env, f"\n  INSERT INTO snk\n  {query};")
    assert (error.code, underlined(error)) == (code, where)
    assert message in error.message
    if hint is not None:
        assert hint in (error.hint or "")


@pytest.mark.parametrize(("sql", "code", "where", "message"), INSERTS, ids=[c[0] for c in INSERTS])
def test_insert(env: TableEnvironment, sql: str, code: str, where: str, message: str) -> None:
    error = error_of(env, f"{sql};")
    assert (error.code, underlined(error)) == (code, where)
    assert message in str(error)


def test_an_error_in_a_view_points_into_the_view(env: TableEnvironment) -> None:
    before = "CREATE VIEW wide AS\n  SELECT a, b FROM t WHERE a IN (SELECT a, x FROM u);"
    with pytest.raises(StateplanError) as caught:
        for statement in read_script(before):
            env.execute_statement(statement)
    assert underlined(caught.value) == "SELECT a, x FROM u"


def test_a_sink_is_not_ordered_where_the_option_says_so() -> None:
    env = TableEnvironment.create()
    for statement in read_script(f"SET 'table.exec.sink.upsert-materialize' = 'NONE';{TABLES}"):
        env.execute_statement(statement)
    (statement,) = read_script("INSERT INTO keyed SELECT a + 1, COUNT(*) FROM t GROUP BY a;")
    assert env.session.compiler.inserts(Inserts.of(statement.node, statement.source)).graph.nodes


EARLY = "SET 'table.exec.emit.early-fire.enabled' = 'true';"
LATE = "SET 'table.exec.emit.late-fire.enabled' = 'true';"
NOW = "SET 'table.exec.emit.early-fire.delay' = '0 s'; SET 'table.exec.emit.late-fire.delay' = '0 s';"
HOUR = "INTERVAL '1' HOUR"


@pytest.mark.parametrize(
    ("options", "query", "code", "message"),
    [
        (EARLY, f"GROUP BY TUMBLE(ts, {HOUR})", "OPT005", "needs 'table.exec.emit.early-fire.delay'"),
        (LATE, f"GROUP BY TUMBLE(ts, {HOUR})", "OPT005", "needs 'table.exec.emit.late-fire.delay'"),
        (LATE + NOW, f"GROUP BY TUMBLE(ts, {HOUR})", "SQL165", "kept after their end"),
        (EARLY + NOW, f"GROUP BY SESSION(ts, {HOUR})", "SQL165", "SESSION windows cannot"),
        (EARLY + NOW, "GROUP BY window_start, window_end", "SQL165", "windows of window functions cannot"),
    ],
)
def test_windows_that_cannot_be_emitted_early_or_late(options: str, query: str, code: str, message: str) -> None:
    env = TableEnvironment.create()
    table = "CREATE TABLE e (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '/e', "
    script = f"{options}{table}'format' = 'json'); CREATE TABLE n (n BIGINT) WITH ('connector' = 'blackhole');"
    for statement in read_script(script):
        env.execute_statement(statement)
    of = f"TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), {HOUR}))" if "window_start" in query else "e"
    error = error_of(env, f"INSERT INTO n SELECT COUNT(*) FROM {of} {query};")
    assert error.code == code and message in error.message
    assert error.place is not None


def test_ranks_in_batch_mode() -> None:
    env = TableEnvironment.create()
    for statement in read_script(f"SET 'execution.runtime-mode' = 'batch';{TABLES}"):
        env.execute_statement(statement)
    error = error_of(env, "INSERT INTO snk SELECT a, RANK() OVER (PARTITION BY a ORDER BY b) FROM t;")
    assert (error.code, underlined(error)) == ("SQL162", "RANK() OVER (PARTITION BY a ORDER BY b)")
    assert "batch mode" in error.message


def test_what_is_no_time_behind_a_join_orders_no_frame_with_a_bound() -> None:
    env = TableEnvironment.create()
    for name in ("e", "f"):
        columns = "id INT, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
        env.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'datagen')")
    env.execute_sql("CREATE TABLE n (id INT, n INT) WITH ('connector' = 'blackhole')")
    over = "SUM(f.n) OVER (PARTITION BY e.id ORDER BY f.ts ROWS 2 PRECEDING)"
    error = error_of(env, f"INSERT INTO n SELECT e.id, {over} FROM e JOIN f ON e.id = f.id;")
    assert (error.code, underlined(error)) == ("SQL164", over)
    assert "has a bound" in error.message
