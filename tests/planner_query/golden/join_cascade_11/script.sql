CREATE TABLE t (a INT, b BIGINT, c STRING) WITH ('connector'='filesystem', 'path'='/data/t', 'format'='json');
CREATE TABLE u (a INT, x BIGINT, y STRING) WITH ('connector'='filesystem', 'path'='/data/u', 'format'='json');
CREATE TABLE v (k INT, w BIGINT, z STRING) WITH ('connector'='filesystem', 'path'='/data/v', 'format'='json');
CREATE TABLE four (a INT, b BIGINT, c INT, d BIGINT) WITH ('connector'='print');
INSERT INTO four SELECT /*+ STATE_TTL('s'='1 d', 'v'='2 d') */ s.a, s.x, v.k, v.w FROM (SELECT /*+ STATE_TTL('t'='5 d') */ t.a, u.x FROM t LEFT JOIN u ON t.a = u.a) s LEFT JOIN v ON s.a = v.k;
