CREATE TABLE answers (product_id BIGINT, user_id BIGINT, bought BIGINT) WITH ('connector' = 'blackhole')
----
INSERT INTO answers
SELECT product_id, user_id, bought
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY product_id ORDER BY bought DESC) AS row_num
  FROM (SELECT product_id, user_id, COUNT(*) AS bought FROM orders GROUP BY product_id, user_id)
)
WHERE row_num <= 3
