-- The bank of PACMAN (Wu et al., SIGMOD 2017), Figures 2 to 5: what `reprise explain examples/bank.sql` shows is theirs.

CREATE TABLE spouse  (name TEXT PRIMARY KEY, spouse TEXT);
CREATE TABLE current (name TEXT PRIMARY KEY, value NUMERIC(12,2) NOT NULL);
CREATE TABLE saving  (name TEXT PRIMARY KEY, value NUMERIC(12,2) NOT NULL);
CREATE TABLE stats   (nation INTEGER PRIMARY KEY, count INTEGER NOT NULL);

CREATE PROCEDURE transfer(src TEXT, amount NUMERIC(12,2)) LANGUAGE plpgsql AS $$
DECLARE
    dst     TEXT;
    src_val NUMERIC(12,2);
    dst_val NUMERIC(12,2);
    bonus   NUMERIC(12,2);
BEGIN
    SELECT spouse INTO dst FROM spouse WHERE name = src;
    IF dst IS NOT NULL THEN
        SELECT value INTO src_val FROM current WHERE name = src;
        UPDATE current SET value = src_val - amount WHERE name = src;
        SELECT value INTO dst_val FROM current WHERE name = dst;
        UPDATE current SET value = dst_val + amount WHERE name = dst;
        SELECT value INTO bonus FROM saving WHERE name = src;
        UPDATE saving SET value = bonus + 1 WHERE name = src;
    END IF;
END $$;

CREATE PROCEDURE deposit(p_name TEXT, amount NUMERIC(12,2), p_nation INTEGER) LANGUAGE plpgsql AS $$
DECLARE
    tmp     NUMERIC(12,2);
    bonus   NUMERIC(12,2);
    v_count INTEGER;
BEGIN
    SELECT value INTO tmp FROM current WHERE name = p_name;
    UPDATE current SET value = tmp + amount WHERE name = p_name;
    IF tmp + amount > 10000 THEN
        SELECT value INTO bonus FROM saving WHERE name = p_name;
        UPDATE saving SET value = bonus + 0.02 * tmp WHERE name = p_name;
        SELECT count INTO v_count FROM stats WHERE nation = p_nation;
        UPDATE stats SET count = v_count + 1 WHERE nation = p_nation;
    END IF;
END $$;
