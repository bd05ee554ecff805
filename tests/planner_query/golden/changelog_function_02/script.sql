CREATE TABLE src (o STRING, id INT, g STRING, v INT) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE cdc (op STRING, id INT, g STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data', 'format'='debezium-json');
CREATE TABLE app (op STRING, id INT, g STRING) WITH ('connector'='filesystem', 'path'='/data', 'format'='json');
CREATE TABLE k3 (a INT, b STRING, c INT) WITH ('connector'='print');
CREATE TABLE k (a STRING, b INT, c STRING) WITH ('connector'='print');
CREATE TABLE k4 (z STRING, a STRING, b INT, c STRING) WITH ('connector'='print');
CREATE TABLE k2 (a INT, b STRING) WITH ('connector'='print');
INSERT INTO k3 SELECT * FROM FROM_CHANGELOG(TABLE src, DESCRIPTOR(o));
