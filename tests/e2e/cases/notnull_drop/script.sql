SET 'table.exec.sink.not-null-enforcer' = 'DROP';
SET 'table.exec.sink.type-length-enforcer' = 'TRIM_PAD';
CREATE TABLE src (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/src.json', 'format'='debezium-json');
CREATE TABLE snk (id INT, g CHAR(3) NOT NULL, v VARCHAR(1)) WITH ('connector'='labsink', 'mode'='retract');
INSERT INTO snk SELECT id, CAST(g AS CHAR(3)), CAST(v * 7 AS VARCHAR(1)) FROM src;
