CREATE TABLE t (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='/data/t', 'format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem', 'path'='/data/u', 'format'='json');
CREATE TABLE v (k INT, w BIGINT, z STRING) WITH ('connector'='filesystem', 'path'='/data/v', 'format'='json');
CREATE TABLE four (a INT, b BIGINT, c INT, d BIGINT) WITH ('connector'='print');
INSERT INTO four SELECT /*+ STATE_TTL('t'='1 d', 'u'='2 d', 'v'='3 d') */ t.a, u.x, v.k, v.w FROM t LEFT JOIN u ON t.a = u.a LEFT JOIN v ON u.a = v.k;
