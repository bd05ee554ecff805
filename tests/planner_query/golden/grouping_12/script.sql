CREATE TABLE cdn (id INT, k INT, v BIGINT) WITH ('connector'='filesystem','path'='${DIR}/n.json','format'='debezium-json');
CREATE TABLE snk (x INT, s BIGINT, mx BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT k, COUNT(*), MAX(v) FROM cdn GROUP BY k;
