CREATE TABLE dbn (id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='${DIR}/dbn.json', 'format'='debezium-json');
CREATE TABLE bh (id INT, g STRING, v INT) WITH ('connector'='blackhole');
INSERT INTO bh SELECT id, g, v FROM dbn WHERE v > 1;
