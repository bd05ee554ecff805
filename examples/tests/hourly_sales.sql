-- Sales per hour of the sale. A sale may arrive ten minutes late.

CREATE TABLE sales (
  product STRING, price DECIMAL(10, 2), sold_at TIMESTAMP(3),
  WATERMARK FOR sold_at AS sold_at - INTERVAL '10' MINUTE
);
CREATE TABLE hourly_sales (window_start TIMESTAMP(3), product STRING, revenue DECIMAL(38, 2), sales BIGINT);

INSERT INTO hourly_sales
SELECT window_start, product, SUM(price), COUNT(*)
FROM TUMBLE(TABLE sales, DESCRIPTOR(sold_at), INTERVAL '1' HOUR)
GROUP BY window_start, window_end, product;

-- test: a row behind the watermark is dropped
-- given sales
--   | product | price | sold_at             |
--   | tea     | 2.50  | 2024-01-01 09:05:00 |
--   | tea     | 4.00  | 2024-01-01 09:55:00 |
-- expect rows
-- given sales
--   | product | price | sold_at             |
--   | milk    | 1.20  | 2024-01-01 10:09:59 |
-- expect rows
-- watermark sales 2024-01-01 10:00:00
-- expect rows
--   | window_start        | product | revenue | sales |
--   | 2024-01-01 09:00:00 | tea     | 6.50    | 2     |
-- given sales
--   | product | price | sold_at             |
--   | tea     | 9.00  | 2024-01-01 09:59:00 |
-- end
-- expect rows
--   | window_start        | product | revenue | sales |
--   | 2024-01-01 10:00:00 | milk    | 1.20    | 1     |
