CREATE TABLE n (id INT, xs ARRAY<INT>, rs ARRAY<ROW<k INT, v STRING>>, m MAP<STRING, INT>, ss ARRAY<STRING>, arr2 ARRAY<ARRAY<INT>>) WITH ('connector'='filesystem', 'path'='${DIR}/n.json', 'format'='json');
CREATE TABLE snk (x0 INT, x1 INT) WITH ('connector'='print');
INSERT INTO snk SELECT id, x FROM n LEFT JOIN UNNEST(xs) AS T(x) ON TRUE;
