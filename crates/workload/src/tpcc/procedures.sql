-- TPC-C, clause 2: the five transactions.

-- Clause 2.4. An unused item number, which comes last, rolls the order back.
CREATE PROCEDURE new_order(
    p_w_id INTEGER, p_d_id INTEGER, p_c_id INTEGER, p_entry_d TIMESTAMP,
    p_items INTEGER[], p_supply INTEGER[], p_quantities INTEGER[],
    OUT o_order INTEGER, OUT o_last TEXT, OUT o_credit TEXT, OUT o_discount NUMERIC,
    OUT o_w_tax NUMERIC, OUT o_d_tax NUMERIC, OUT o_total NUMERIC)
LANGUAGE plpgsql AS $$
DECLARE
    v_count     INTEGER := array_length(p_items, 1);
    v_all_local INTEGER := 1;
    v_w_tax     NUMERIC(4,4);
    v_d_tax     NUMERIC(4,4);
    v_discount  NUMERIC(4,4);
    v_price     NUMERIC(5,2);
    v_amount    NUMERIC(6,2);
    v_total     NUMERIC(12,2) := 0;
    v_dist      CHAR(24);
BEGIN
    SELECT w_tax INTO v_w_tax FROM warehouse WHERE w_id = p_w_id;
    UPDATE district SET d_next_o_id = d_next_o_id + 1
        WHERE d_w_id = p_w_id AND d_id = p_d_id
        RETURNING d_next_o_id - 1, d_tax INTO o_order, v_d_tax;
    SELECT c_discount, c_last, c_credit INTO v_discount, o_last, o_credit FROM customer
        WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
    FOR i IN 1..v_count LOOP
        IF p_supply[i] <> p_w_id THEN
            v_all_local := 0;
        END IF;
    END LOOP;
    INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
        VALUES (o_order, p_d_id, p_w_id, p_c_id, p_entry_d, NULL, v_count, v_all_local);
    INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (o_order, p_d_id, p_w_id);
    FOR i IN 1..v_count LOOP
        SELECT i_price INTO v_price FROM item WHERE i_id = p_items[i];
        IF NOT FOUND THEN
            RAISE EXCEPTION 'Item number is not valid' USING ERRCODE = 'P0002';
        END IF;
        UPDATE stock SET
            s_quantity = CASE WHEN s_quantity >= p_quantities[i] + 10 THEN s_quantity - p_quantities[i]
                              ELSE s_quantity - p_quantities[i] + 91 END,
            s_ytd = s_ytd + p_quantities[i],
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + CASE WHEN p_supply[i] = p_w_id THEN 0 ELSE 1 END
            WHERE s_w_id = p_supply[i] AND s_i_id = p_items[i]
            RETURNING CASE p_d_id
                WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04
                WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08
                WHEN 9 THEN s_dist_09 ELSE s_dist_10 END INTO v_dist;
        v_amount := p_quantities[i] * v_price;
        v_total := v_total + v_amount;
        INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id,
                                ol_delivery_d, ol_quantity, ol_amount, ol_dist_info)
            VALUES (o_order, p_d_id, p_w_id, i, p_items[i], p_supply[i],
                    NULL, p_quantities[i], v_amount, v_dist);
    END LOOP;
    o_discount := v_discount;
    o_w_tax := v_w_tax;
    o_d_tax := v_d_tax;
    o_total := round(v_total * (1 - v_discount) * (1 + v_w_tax + v_d_tax), 2);
END $$;

-- Clause 2.5. Without a customer number the customer is found by last name.
CREATE PROCEDURE payment(
    p_w_id INTEGER, p_d_id INTEGER, p_c_w_id INTEGER, p_c_d_id INTEGER, p_c_id INTEGER,
    p_c_last TEXT, p_amount NUMERIC, p_date TIMESTAMP,
    OUT o_c_id INTEGER, OUT o_payment INTEGER, OUT o_balance NUMERIC)
LANGUAGE plpgsql AS $$
DECLARE
    v_amount  NUMERIC(6,2) := p_amount;
    v_count   INTEGER;
    v_w_name  VARCHAR(10);
    v_d_name  VARCHAR(10);
    v_credit  CHAR(2);
    v_balance NUMERIC(12,2);
BEGIN
    UPDATE warehouse SET w_ytd = w_ytd + v_amount WHERE w_id = p_w_id
        RETURNING w_name INTO v_w_name;
    UPDATE district SET d_ytd = d_ytd + v_amount WHERE d_w_id = p_w_id AND d_id = p_d_id
        RETURNING d_name INTO v_d_name;
    IF p_c_id IS NULL THEN
        SELECT count(*) INTO v_count FROM customer
            WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last;
        SELECT c_id INTO o_c_id FROM customer
            WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last
            ORDER BY c_first OFFSET (v_count + 1) / 2 - 1 LIMIT 1;
    ELSE
        o_c_id := p_c_id;
    END IF;
    UPDATE customer SET
        c_balance = c_balance - v_amount,
        c_ytd_payment = c_ytd_payment + v_amount,
        c_payment_cnt = c_payment_cnt + 1
        WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = o_c_id
        RETURNING c_credit, c_payment_cnt, c_balance INTO v_credit, o_payment, v_balance;
    IF v_credit = 'BC' THEN
        UPDATE customer SET
            c_data = left(o_c_id::text || ' ' || p_c_d_id::text || ' ' || p_c_w_id::text || ' '
                || p_d_id::text || ' ' || p_w_id::text || ' ' || v_amount::text || ' | ' || c_data, 500)
            WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = o_c_id;
    END IF;
    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_payment, h_d_id, h_w_id, h_date, h_amount, h_data)
        VALUES (o_c_id, p_c_d_id, p_c_w_id, o_payment, p_d_id, p_w_id, p_date, v_amount,
                v_w_name || '    ' || v_d_name);
    o_balance := v_balance;
END $$;

-- Clause 2.6.
CREATE PROCEDURE order_status(
    p_w_id INTEGER, p_d_id INTEGER, p_c_id INTEGER, p_c_last TEXT,
    OUT o_c_id INTEGER, OUT o_balance NUMERIC, OUT o_order INTEGER, OUT o_entry_d TIMESTAMP,
    OUT o_carrier_id INTEGER, OUT o_lines INTEGER, OUT o_amount NUMERIC)
LANGUAGE plpgsql AS $$
DECLARE
    v_count INTEGER;
    r       RECORD;
BEGIN
    IF p_c_id IS NULL THEN
        SELECT count(*) INTO v_count FROM customer
            WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_last = p_c_last;
        SELECT c_id INTO o_c_id FROM customer
            WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_last = p_c_last
            ORDER BY c_first OFFSET (v_count + 1) / 2 - 1 LIMIT 1;
    ELSE
        o_c_id := p_c_id;
    END IF;
    SELECT c_balance INTO o_balance FROM customer
        WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = o_c_id;
    SELECT o_id, orders.o_entry_d, orders.o_carrier_id
        INTO o_order, order_status.o_entry_d, order_status.o_carrier_id FROM orders
        WHERE o_w_id = p_w_id AND o_d_id = p_d_id AND orders.o_c_id = order_status.o_c_id
        ORDER BY o_id DESC LIMIT 1;
    o_lines := 0;
    o_amount := 0;
    FOR r IN SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
        WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id = o_order LOOP
        o_lines := o_lines + 1;
        o_amount := o_amount + r.ol_amount;
    END LOOP;
END $$;

-- Clause 2.7: the oldest undelivered order of every district.
CREATE PROCEDURE delivery(
    p_w_id INTEGER, p_carrier INTEGER, p_date TIMESTAMP, OUT o_orders INTEGER[])
LANGUAGE plpgsql AS $$
DECLARE
    v_order    INTEGER;
    v_customer INTEGER;
    v_amount   NUMERIC(12,2);
BEGIN
    FOR v_district IN 1..10 LOOP
        SELECT no_o_id INTO v_order FROM new_order
            WHERE no_w_id = p_w_id AND no_d_id = v_district ORDER BY no_o_id LIMIT 1;
        CONTINUE WHEN NOT FOUND;
        DELETE FROM new_order
            WHERE no_w_id = p_w_id AND no_d_id = v_district AND no_o_id = v_order;
        UPDATE orders SET o_carrier_id = p_carrier
            WHERE o_w_id = p_w_id AND o_d_id = v_district AND o_id = v_order
            RETURNING o_c_id INTO v_customer;
        UPDATE order_line SET ol_delivery_d = p_date
            WHERE ol_w_id = p_w_id AND ol_d_id = v_district AND ol_o_id = v_order;
        SELECT sum(ol_amount) INTO v_amount FROM order_line
            WHERE ol_w_id = p_w_id AND ol_d_id = v_district AND ol_o_id = v_order;
        UPDATE customer SET c_balance = c_balance + v_amount, c_delivery_cnt = c_delivery_cnt + 1
            WHERE c_w_id = p_w_id AND c_d_id = v_district AND c_id = v_customer;
        o_orders[v_district] := v_order;
    END LOOP;
END $$;

-- Clause 2.8.
CREATE PROCEDURE stock_level(
    p_w_id INTEGER, p_d_id INTEGER, p_threshold INTEGER, OUT o_low INTEGER)
LANGUAGE plpgsql AS $$
DECLARE
    v_next     INTEGER;
    v_quantity INTEGER;
    r          RECORD;
BEGIN
    o_low := 0;
    SELECT d_next_o_id INTO v_next FROM district WHERE d_w_id = p_w_id AND d_id = p_d_id;
    FOR r IN SELECT DISTINCT ol_i_id FROM order_line
        WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id >= v_next - 20 AND ol_o_id < v_next LOOP
        SELECT s_quantity INTO v_quantity FROM stock WHERE s_w_id = p_w_id AND s_i_id = r.ol_i_id;
        IF v_quantity < p_threshold THEN
            o_low := o_low + 1;
        END IF;
    END LOOP;
END $$;
