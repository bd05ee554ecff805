CREATE TABLE supplier (s_suppkey BIGINT NOT NULL, s_name STRING, s_nationkey INT, s_comment STRING, PRIMARY KEY (s_suppkey) NOT ENFORCED) WITH ('connector'='filesystem', 'path'='/data/supplier', 'format'='json');
CREATE TABLE part (p_partkey BIGINT, p_name STRING, p_brand STRING, p_type STRING, p_size INT, p_container STRING) WITH ('connector'='filesystem', 'path'='/data/part', 'format'='json');
CREATE TABLE partsupp (ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(12, 2)) WITH ('connector'='filesystem', 'path'='/data/partsupp', 'format'='json');
CREATE TABLE snk (s STRING, k BIGINT, n BIGINT) WITH ('connector'='print');
INSERT INTO snk SELECT p_brand, p_size, COUNT(DISTINCT ps_suppkey) FROM partsupp, part WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_size IN (49, 14, 23) AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%') GROUP BY p_brand, p_size;
