-- YCSB's operations, each a transaction; and the two workloads of Poplar §6.2.

CREATE PROCEDURE ycsb_read(p_key BIGINT, OUT o_0 VARCHAR, OUT o_1 VARCHAR, OUT o_2 VARCHAR, OUT o_3 VARCHAR, OUT o_4 VARCHAR, OUT o_5 VARCHAR, OUT o_6 VARCHAR, OUT o_7 VARCHAR, OUT o_8 VARCHAR, OUT o_9 VARCHAR)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT field0, field1, field2, field3, field4, field5, field6, field7, field8, field9
        INTO o_0, o_1, o_2, o_3, o_4, o_5, o_6, o_7, o_8, o_9
        FROM usertable WHERE ycsb_key = p_key;
END $$;

CREATE PROCEDURE ycsb_update(p_key BIGINT, p_value VARCHAR)
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE usertable SET field0 = p_value WHERE ycsb_key = p_key;
END $$;

CREATE PROCEDURE ycsb_insert(p_key BIGINT, p_0 VARCHAR, p_1 VARCHAR, p_2 VARCHAR, p_3 VARCHAR, p_4 VARCHAR, p_5 VARCHAR, p_6 VARCHAR, p_7 VARCHAR, p_8 VARCHAR, p_9 VARCHAR)
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO usertable VALUES (p_key, p_0, p_1, p_2, p_3, p_4, p_5, p_6, p_7, p_8, p_9);
END $$;

-- How many rows there are from a key on, and how long their first fields are together.
CREATE PROCEDURE ycsb_scan(p_key BIGINT, p_length BIGINT, OUT o_rows BIGINT, OUT o_bytes BIGINT)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT count(*), sum(length(field0)) INTO o_rows, o_bytes
        FROM usertable WHERE ycsb_key >= p_key AND ycsb_key < p_key + p_length;
END $$;

CREATE PROCEDURE ycsb_read_modify_write(p_key BIGINT, p_value VARCHAR, OUT o_before VARCHAR)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT field0 INTO o_before FROM usertable WHERE ycsb_key = p_key;
    UPDATE usertable SET field0 = p_value WHERE ycsb_key = p_key;
END $$;

-- Several operations: reads, then updates. The loops count, so that replay knows the rows of each round.
CREATE PROCEDURE ycsb_transaction(p_reads BIGINT[], p_updates BIGINT[], p_value VARCHAR, OUT o_bytes BIGINT)
LANGUAGE plpgsql AS $$
DECLARE
    v_bytes BIGINT;
BEGIN
    o_bytes := 0;
    FOR i IN 1..cardinality(p_reads) LOOP
        SELECT length(field0) + length(field1) + length(field2) + length(field3) + length(field4)
             + length(field5) + length(field6) + length(field7) + length(field8) + length(field9)
            INTO v_bytes FROM usertable WHERE ycsb_key = p_reads[i];
        o_bytes := o_bytes + v_bytes;
    END LOOP;
    FOR i IN 1..cardinality(p_updates) LOOP
        UPDATE usertable SET field0 = p_value WHERE ycsb_key = p_updates[i];
    END LOOP;
END $$;

-- Poplar's write-only workload: all fields of one row.
CREATE PROCEDURE ycsb_write_all(p_key BIGINT, p_0 VARCHAR, p_1 VARCHAR, p_2 VARCHAR, p_3 VARCHAR, p_4 VARCHAR, p_5 VARCHAR, p_6 VARCHAR, p_7 VARCHAR, p_8 VARCHAR, p_9 VARCHAR)
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE usertable SET
        field0 = p_0,
        field1 = p_1,
        field2 = p_2,
        field3 = p_3,
        field4 = p_4,
        field5 = p_5,
        field6 = p_6,
        field7 = p_7,
        field8 = p_8,
        field9 = p_9
        WHERE ycsb_key = p_key;
END $$;

-- Poplar's hybrid workload: one field of one row, and a scan.
CREATE PROCEDURE ycsb_write_and_scan(p_key BIGINT, p_value VARCHAR, p_from BIGINT, p_length BIGINT, OUT o_rows BIGINT, OUT o_bytes BIGINT)
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE usertable SET field0 = p_value WHERE ycsb_key = p_key;
    SELECT count(*), sum(length(field0)) INTO o_rows, o_bytes
        FROM usertable WHERE ycsb_key >= p_from AND ycsb_key < p_from + p_length;
END $$;

-- Checks.

CREATE PROCEDURE ycsb_lacks(p_key BIGINT, OUT o_missing BIGINT)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT 1 - count(*) INTO o_missing FROM usertable WHERE ycsb_key = p_key;
END $$;
