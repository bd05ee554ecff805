CREATE TABLE pa (id INT, k STRING, v INT, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='${DIR}/pa.json', 'format'='json');
CREATE TABLE pb (id INT, k STRING, v INT, pt AS PROCTIME()) WITH ('connector'='filesystem', 'path'='${DIR}/pb.json', 'format'='json');
CREATE TABLE snk (c0 INT, c1 INT) WITH ('connector'='print');
INSERT INTO snk SELECT pa.id, pb.id FROM pa FULL JOIN pb ON pa.k = pb.k AND pa.pt BETWEEN pb.pt - INTERVAL '5' SECOND AND pb.pt + INTERVAL '2' SECOND;
