CREATE TABLE dbz (id INT, g STRING, v INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='${DIR}/dbz.json', 'format'='debezium-json');
CREATE TABLE s (id INT, g STRING, v INT, PRIMARY KEY (id, g) NOT ENFORCED) PARTITIONED BY (g) WITH ('connector'='blackhole');
INSERT INTO s PARTITION (g = 'x') (id) SELECT id FROM dbz;
