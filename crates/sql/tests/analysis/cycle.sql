-- Each procedure alone falls apart; together they force a cycle of blocks, which becomes one.
CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL);
CREATE TABLE b (id INT PRIMARY KEY, v INT NOT NULL);
CREATE TABLE c (id INT PRIMARY KEY, v INT NOT NULL);

CREATE PROCEDURE forth(k INT) LANGUAGE plpgsql AS $$
DECLARE x INT;
BEGIN
    UPDATE a SET v = v + 1 WHERE id = k RETURNING v INTO x;
    UPDATE b SET v = x WHERE id = k;
    UPDATE c SET v = 1 WHERE id = k;
END $$;

CREATE PROCEDURE back(k INT) LANGUAGE plpgsql AS $$
DECLARE x INT;
BEGIN
    UPDATE b SET v = v + 1 WHERE id = k RETURNING v INTO x;
    UPDATE a SET v = x WHERE id = k;
END $$;
