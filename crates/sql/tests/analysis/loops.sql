-- Loops with and without flows from one round to the next, and a scan that feeds a loop.
CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL);
CREATE TABLE b (id INT PRIMARY KEY, v INT NOT NULL);
CREATE TABLE c (id INT PRIMARY KEY, v INT NOT NULL);

-- Nothing goes around the loop: two slices, one after the other.
CREATE PROCEDURE apart(n INT) LANGUAGE plpgsql AS $$
DECLARE x INT;
BEGIN
    FOR i IN 1..n LOOP
        UPDATE a SET v = v + 1 WHERE id = i RETURNING v INTO x;
        UPDATE b SET v = x WHERE id = i;
    END LOOP;
END $$;

-- What b gives goes into a of the next round and what a gives into b of the same: one slice.
CREATE PROCEDURE around(n INT) LANGUAGE plpgsql AS $$
DECLARE x INT; y INT := 0;
BEGIN
    FOR i IN 1..n LOOP
        UPDATE a SET v = v + y WHERE id = i RETURNING v INTO x;
        UPDATE b SET v = v + x WHERE id = i RETURNING v INTO y;
    END LOOP;
END $$;

-- A variable that is used for two purposes ties nothing together, and FOUND neither.
CREATE PROCEDURE reused(n INT) LANGUAGE plpgsql AS $$
DECLARE x INT;
BEGIN
    SELECT v INTO x FROM a WHERE id = n;
    UPDATE b SET v = x WHERE id = n;
    IF NOT FOUND THEN INSERT INTO b VALUES (n, x); END IF;
    x := 7;
    UPDATE c SET v = x WHERE id = n;
    UPDATE a SET v = v WHERE id = n;
END $$;

-- A scan feeds a loop.
CREATE PROCEDURE fed(n INT) LANGUAGE plpgsql AS $$
DECLARE r RECORD;
BEGIN
    FOR r IN SELECT id, v FROM a WHERE id < n LOOP
        CONTINUE WHEN r.v = 0;
        UPDATE c SET v = v + r.v WHERE id = r.id;
    END LOOP;
    DELETE FROM a WHERE id < n;
END $$;
