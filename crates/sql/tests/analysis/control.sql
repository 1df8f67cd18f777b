-- What decides whether a write is reached is needed by it: conditions, early returns, exits.
CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL);
CREATE TABLE b (id INT PRIMARY KEY, v INT NOT NULL);
CREATE TABLE c (id INT PRIMARY KEY, v INT NOT NULL);

CREATE PROCEDURE returns_early(k INT) LANGUAGE plpgsql AS $$
DECLARE x INT;
BEGIN
    UPDATE b SET v = 1 WHERE id = k;
    SELECT v INTO x FROM a WHERE id = k;
    IF x > 3 THEN RETURN; END IF;
    UPDATE c SET v = 1 WHERE id = k;
    UPDATE a SET v = 0 WHERE id = 0;
END $$;

CREATE PROCEDURE exits(k INT) LANGUAGE plpgsql AS $$
DECLARE x INT; i INT := 0;
BEGIN
    LOOP
        i := i + 1;
        SELECT v INTO x FROM a WHERE id = i;
        EXIT WHEN NOT FOUND OR x = k;
        UPDATE b SET v = v + 1 WHERE id = i;
    END LOOP;
    UPDATE c SET v = i WHERE id = k;
    UPDATE a SET v = v + 1 WHERE id = k;
END $$;

-- Nothing that this reads, raises or returns matters for what it writes.
CREATE PROCEDURE mostly_dead(k INT, OUT o INT, OUT n BIGINT) LANGUAGE plpgsql AS $$
DECLARE x INT;
BEGIN
    SELECT v INTO o FROM a WHERE id = k;
    IF o IS NULL THEN RAISE EXCEPTION 'missing %', k; END IF;
    SELECT count(*) INTO n FROM b;
    FOR i IN 1..o LOOP
        SELECT v INTO x FROM b WHERE id = i;
        n := n + x;
    END LOOP;
    UPDATE c SET v = v + 1 WHERE id = k RETURNING v INTO x;
    RAISE NOTICE 'now %', x;
END $$;
