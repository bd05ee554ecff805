CREATE TABLE t (a INT, b BIGINT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts) WITH ('connector'='filesystem', 'path'='/tmp/x/t', 'format'='json');
CREATE TEMPORARY FUNCTION wavg AS 'tests.support.plan_functions.one' LANGUAGE PYTHON;
CREATE TABLE snk (a INT, x BIGINT) WITH ('connector'='print');
CREATE TABLE win (s TIMESTAMP(3), e TIMESTAMP(3), a INT, x BIGINT) WITH ('connector'='print');
INSERT INTO win SELECT window_start, window_end, 1, wavg(b) FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL '1' HOUR)) GROUP BY window_start, window_end;
