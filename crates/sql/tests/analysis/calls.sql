-- Calls are replaced by what they call; what a callee decides or raises is seen through.
CREATE TABLE accounts (id INT PRIMARY KEY, balance INT NOT NULL);
CREATE TABLE entries (id INT PRIMARY KEY, account INT NOT NULL, amount INT NOT NULL);
CREATE TABLE counters (id INT PRIMARY KEY, value INT NOT NULL);

CREATE PROCEDURE next_number(p_counter INT, OUT number INT) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE counters SET value = value + 1 WHERE id = p_counter RETURNING value INTO number;
END $$;

CREATE PROCEDURE book(p_account INT, p_amount INT) LANGUAGE plpgsql AS $$
DECLARE n INT; left_over INT;
BEGIN
    SELECT balance INTO left_over FROM accounts WHERE id = p_account;
    IF left_over + p_amount < 0 THEN RAISE EXCEPTION 'no money'; END IF;
    UPDATE accounts SET balance = balance + p_amount WHERE id = p_account;
    CALL next_number(1, n);
    INSERT INTO entries VALUES (n, p_account, p_amount);
END $$;

CREATE PROCEDURE move(p_from INT, p_to INT, p_amount INT) LANGUAGE plpgsql AS $$
BEGIN
    CALL book(p_from, -p_amount);
    CALL book(p_to, p_amount);
END $$;
