CREATE TABLE e (a INT, b BIGINT, c STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector'='filesystem','path'='${DIR}/e.json','format'='json');
CREATE TABLE s1 (a INT, ts TIMESTAMP(3)) WITH ('connector'='print');
CREATE TABLE s2 (a INT, b BIGINT) WITH ('connector'='print');
EXECUTE STATEMENT SET BEGIN INSERT INTO s1 SELECT a, ts FROM e; INSERT INTO s2 SELECT a, b FROM e; END;
