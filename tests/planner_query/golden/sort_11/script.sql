SET '__table.exec.sort.non-temporal.enabled__' = 'true';
CREATE TABLE c (x INT, y STRING, v DOUBLE, PRIMARY KEY (x) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/c.json', 'format'='debezium-json');
CREATE TABLE snk (c0 INT, c1 STRING) WITH ('connector'='print');
INSERT INTO snk SELECT x, y FROM c ORDER BY y;
