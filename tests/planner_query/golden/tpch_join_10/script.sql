CREATE TABLE lineitem (l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_quantity INT, l_extendedprice DECIMAL(12, 2), l_discount DECIMAL(4, 2), l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipmode STRING) WITH ('connector'='filesystem', 'path'='/data/lineitem', 'format'='json');
CREATE TABLE part (p_partkey BIGINT, p_name STRING, p_brand STRING, p_type STRING, p_size INT, p_container STRING) WITH ('connector'='filesystem', 'path'='/data/part', 'format'='json');
CREATE TABLE snk (d DECIMAL(38, 2)) WITH ('connector'='print');
INSERT INTO snk SELECT SUM(l_extendedprice) / 7.0 FROM lineitem, part WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND l_quantity < (SELECT 0.2 * AVG(l_quantity) FROM lineitem WHERE l_partkey = p_partkey);
