\set VERBOSITY terse
SELECT count(*), sum(balance), min(email) FROM customer;
SELECT * FROM product ORDER BY id LIMIT 3;
SELECT * FROM orders ORDER BY id;
SELECT * FROM line ORDER BY order_id;
SELECT * FROM audit ORDER BY id;
SELECT * FROM totals ORDER BY id;
SELECT * FROM ext.note ORDER BY id;
SELECT order_total(1);
CALL place(3, 4, 2, NULL);
SELECT nextval('ext.counter'), nextval('audit_id_seq');
INSERT INTO customer (email) VALUES ('x@y') RETURNING id, balance;
INSERT INTO product (sku, title, price) VALUES ('a', 'b', 1) RETURNING id, active;
INSERT INTO line VALUES (1, 2, 99, 1, 1);
INSERT INTO customer (email, balance) VALUES ('z', -2000);
DELETE FROM orders WHERE id = 2;
SELECT count(*) FROM line;
SELECT what FROM audit ORDER BY id DESC LIMIT 1;
SELECT obj_description('customer'::regclass, 'pg_class'), col_description('customer'::regclass, 2);
