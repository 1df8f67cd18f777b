-- Statements that write one row by its key fire triggers as calls: the procedures are logged as commands.
CREATE TABLE account (id INT PRIMARY KEY, owner TEXT, balance NUMERIC(12,2) NOT NULL, changes INT NOT NULL DEFAULT 0);
CREATE TABLE audit (id INT, change INT, balance NUMERIC(12,2), PRIMARY KEY (id, change));

CREATE FUNCTION count_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    NEW.changes := OLD.changes + 1;
  END IF;
  RETURN NEW;
END $$;
CREATE FUNCTION write_down() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audit VALUES (NEW.id, NEW.changes, NEW.balance);
  RETURN NULL;
END $$;
CREATE TRIGGER count_change BEFORE INSERT OR UPDATE ON account FOR EACH ROW EXECUTE FUNCTION count_change();
CREATE TRIGGER write_down AFTER UPDATE ON account FOR EACH ROW WHEN (NEW.balance <> OLD.balance)
  EXECUTE FUNCTION write_down();

CREATE PROCEDURE open_account(i INT, who TEXT) LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO account VALUES (i, who, 0);
END $$;
CREATE PROCEDURE pay(i INT, amount NUMERIC) LANGUAGE plpgsql AS $$
BEGIN
  UPDATE account SET balance = balance + amount WHERE id = i;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'there is no account %', i;
  END IF;
END $$;
CREATE PROCEDURE close_account(i INT) LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM account WHERE id = i;
END $$;
