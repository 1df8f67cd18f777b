-- Keys that depend on what was read before: from a counter, from an index, from another table.
CREATE TABLE queues (id INT PRIMARY KEY, next INT NOT NULL);
CREATE TABLE jobs (queue INT, number INT, owner INT, PRIMARY KEY (queue, number));
CREATE INDEX jobs_by_owner ON jobs (owner, queue);
CREATE TABLE owners (id INT PRIMARY KEY, open INT NOT NULL, last INT);

CREATE PROCEDURE add_job(p_queue INT, p_owner INT) LANGUAGE plpgsql AS $$
DECLARE n INT;
BEGIN
    UPDATE queues SET next = next + 1 WHERE id = p_queue RETURNING next - 1 INTO n;
    INSERT INTO jobs VALUES (p_queue, n, p_owner);
    UPDATE owners SET open = open + 1, last = n WHERE id = p_owner;
END $$;

CREATE PROCEDURE take_job(p_queue INT) LANGUAGE plpgsql AS $$
DECLARE n INT; o INT;
BEGIN
    SELECT number, owner INTO n, o FROM jobs WHERE queue = p_queue ORDER BY number LIMIT 1;
    IF NOT FOUND THEN RETURN; END IF;
    DELETE FROM jobs WHERE queue = p_queue AND number = n;
    UPDATE owners SET open = open - 1 WHERE id = o;
END $$;
