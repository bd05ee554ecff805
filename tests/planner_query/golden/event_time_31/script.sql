CREATE TABLE ec (a INT, s STRING, n BIGINT, ts AS TO_TIMESTAMP(s), d AS a + 1, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector'='filesystem','path'='${DIR}/ec.json','format'='json');
CREATE TABLE s1 (a INT, ts TIMESTAMP(3)) WITH ('connector'='print');
CREATE TABLE s2 (a INT, n BIGINT) WITH ('connector'='print');
EXECUTE STATEMENT SET BEGIN INSERT INTO s1 SELECT a, ts FROM ec WHERE a > 1; INSERT INTO s2 SELECT a, n FROM ec; END;
