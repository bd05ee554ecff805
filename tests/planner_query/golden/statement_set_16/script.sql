CREATE TABLE m (a INT, path STRING METADATA FROM 'file.path' VIRTUAL, `file.size` BIGINT NOT NULL METADATA, b BIGINT NOT NULL) WITH ('connector'='filesystem','path'='${DIR}/m.json','format'='json');
CREATE TABLE s1 (a INT, b BIGINT) WITH ('connector'='print');
CREATE TABLE s2 (a INT, p STRING) WITH ('connector'='print');
EXECUTE STATEMENT SET BEGIN
INSERT INTO s1 SELECT a, b FROM m;
INSERT INTO s2 SELECT a, path FROM m;
END;
