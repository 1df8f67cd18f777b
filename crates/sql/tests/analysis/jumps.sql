-- Jumps out of several loops, and FOUND around and inside of a loop over rows.
CREATE TABLE a (id INT PRIMARY KEY, v INT NOT NULL);
CREATE TABLE b (id INT PRIMARY KEY, v INT NOT NULL);
CREATE TABLE c (id INT PRIMARY KEY, v INT NOT NULL);

-- A RETURN inside a loop that does nothing else ends the loop around it, and so the rounds to come.
CREATE PROCEDURE returns_from_within(k INT) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1..k LOOP
        UPDATE b SET v = v + 1 WHERE id = i;
        FOR j IN 1..i LOOP
            IF j = 3 THEN RETURN; END IF;
        END LOOP;
    END LOOP;
END $$;

-- Inside a loop over rows FOUND is what it was before; the loop sets it when it ends.
CREATE PROCEDURE finds(k INT) LANGUAGE plpgsql AS $$
DECLARE r RECORD;
BEGIN
    UPDATE b SET v = 0 WHERE id = k;
    FOR r IN SELECT id FROM c WHERE id < k LOOP
        IF FOUND THEN UPDATE a SET v = 1 WHERE id = r.id; END IF;
    END LOOP;
    IF FOUND THEN UPDATE a SET v = 2 WHERE id = k; END IF;
END $$;
