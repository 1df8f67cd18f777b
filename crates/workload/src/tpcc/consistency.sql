-- TPC-C, clause 3.3.2: conditions 1 to 4, and whether what was acknowledged is there.

CREATE PROCEDURE check_warehouse(p_w_id INTEGER, OUT o_violations INTEGER)
LANGUAGE plpgsql AS $$
DECLARE
    v_ytd       NUMERIC;
    v_districts NUMERIC;
BEGIN
    SELECT w_ytd INTO v_ytd FROM warehouse WHERE w_id = p_w_id;
    SELECT sum(d_ytd) INTO v_districts FROM district WHERE d_w_id = p_w_id;
    o_violations := CASE WHEN v_ytd = v_districts THEN 0 ELSE 1 END;
END $$;

CREATE PROCEDURE check_district(p_w_id INTEGER, p_d_id INTEGER, OUT o_violations INTEGER)
LANGUAGE plpgsql AS $$
DECLARE
    v_next   INTEGER;
    v_order  INTEGER;
    v_oldest INTEGER;
    v_newest INTEGER;
    v_open   BIGINT;
    v_lines  BIGINT;
    v_listed BIGINT;
BEGIN
    o_violations := 0;
    SELECT d_next_o_id INTO v_next FROM district WHERE d_w_id = p_w_id AND d_id = p_d_id;
    SELECT max(o_id), sum(o_ol_cnt) INTO v_order, v_lines FROM orders
        WHERE o_w_id = p_w_id AND o_d_id = p_d_id;
    SELECT min(no_o_id), max(no_o_id), count(*) INTO v_oldest, v_newest, v_open FROM new_order
        WHERE no_w_id = p_w_id AND no_d_id = p_d_id;
    SELECT count(*) INTO v_listed FROM order_line WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id;
    IF v_next - 1 <> v_order OR v_newest <> v_order THEN
        o_violations := o_violations + 1;
    END IF;
    IF v_newest - v_oldest + 1 <> v_open THEN
        o_violations := o_violations + 1;
    END IF;
    IF v_lines <> v_listed THEN
        o_violations := o_violations + 1;
    END IF;
END $$;

CREATE PROCEDURE has_order(p_w_id INTEGER, p_d_id INTEGER, p_o_id INTEGER, OUT o_found BOOLEAN)
LANGUAGE plpgsql AS $$
DECLARE
    v_lines  INTEGER;
    v_listed INTEGER;
BEGIN
    SELECT o_ol_cnt INTO v_lines FROM orders WHERE o_w_id = p_w_id AND o_d_id = p_d_id AND o_id = p_o_id;
    SELECT count(*) INTO v_listed FROM order_line
        WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id = p_o_id;
    o_found := coalesce(v_lines = v_listed, false);
END $$;

CREATE PROCEDURE has_payment(
    p_w_id INTEGER, p_d_id INTEGER, p_c_id INTEGER, p_payment INTEGER, OUT o_found BOOLEAN)
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM h_amount FROM history
        WHERE h_c_w_id = p_w_id AND h_c_d_id = p_d_id AND h_c_id = p_c_id AND h_payment = p_payment;
    o_found := FOUND;
END $$;

CREATE PROCEDURE is_delivered(p_w_id INTEGER, p_d_id INTEGER, p_o_id INTEGER, OUT o_found BOOLEAN)
LANGUAGE plpgsql AS $$
DECLARE
    v_carrier INTEGER;
BEGIN
    SELECT o_carrier_id INTO v_carrier FROM orders
        WHERE o_w_id = p_w_id AND o_d_id = p_d_id AND o_id = p_o_id;
    o_found := v_carrier IS NOT NULL;
END $$;
