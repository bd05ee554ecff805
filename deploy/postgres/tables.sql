-- The tables of the tutorial.
CREATE TABLE products (product_id BIGINT PRIMARY KEY, name TEXT);
ALTER TABLE products REPLICA IDENTITY FULL;
INSERT INTO products VALUES (1, 'apple'), (2, 'banana');
CREATE TABLE product_stats (product_id BIGINT PRIMARY KEY, name TEXT, buyers BIGINT, orders BIGINT, items INT);
