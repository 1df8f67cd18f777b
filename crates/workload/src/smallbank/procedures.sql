-- Smallbank's six transactions.

CREATE PROCEDURE balance(p_id BIGINT, OUT o_total NUMERIC)
LANGUAGE plpgsql AS $$
DECLARE
    v_savings  NUMERIC(14,2);
    v_checking NUMERIC(14,2);
BEGIN
    PERFORM a_name FROM accounts WHERE a_id = p_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no account %', p_id;
    END IF;
    SELECT s_balance INTO v_savings FROM savings WHERE s_id = p_id;
    SELECT c_balance INTO v_checking FROM checking WHERE c_id = p_id;
    o_total := v_savings + v_checking;
END $$;

CREATE PROCEDURE deposit_checking(p_id BIGINT, p_amount NUMERIC)
LANGUAGE plpgsql AS $$
DECLARE
    v_amount NUMERIC(14,2) := p_amount;
BEGIN
    IF v_amount < 0 THEN
        RAISE EXCEPTION 'a deposit is not negative';
    END IF;
    PERFORM a_name FROM accounts WHERE a_id = p_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no account %', p_id;
    END IF;
    UPDATE checking SET c_balance = c_balance + v_amount WHERE c_id = p_id;
END $$;

CREATE PROCEDURE transact_savings(p_id BIGINT, p_amount NUMERIC)
LANGUAGE plpgsql AS $$
DECLARE
    v_amount  NUMERIC(14,2) := p_amount;
    v_balance NUMERIC(14,2);
BEGIN
    PERFORM a_name FROM accounts WHERE a_id = p_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no account %', p_id;
    END IF;
    SELECT s_balance INTO v_balance FROM savings WHERE s_id = p_id;
    IF v_balance + v_amount < 0 THEN
        RAISE EXCEPTION 'insufficient savings of account %', p_id;
    END IF;
    UPDATE savings SET s_balance = s_balance + v_amount WHERE s_id = p_id;
END $$;

CREATE PROCEDURE amalgamate(p_from BIGINT, p_to BIGINT)
LANGUAGE plpgsql AS $$
DECLARE
    v_savings  NUMERIC(14,2);
    v_checking NUMERIC(14,2);
BEGIN
    PERFORM a_name FROM accounts WHERE a_id = p_from;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no account %', p_from;
    END IF;
    PERFORM a_name FROM accounts WHERE a_id = p_to;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no account %', p_to;
    END IF;
    SELECT s_balance INTO v_savings FROM savings WHERE s_id = p_from;
    SELECT c_balance INTO v_checking FROM checking WHERE c_id = p_from;
    UPDATE savings SET s_balance = 0 WHERE s_id = p_from;
    UPDATE checking SET c_balance = 0 WHERE c_id = p_from;
    UPDATE checking SET c_balance = c_balance + v_savings + v_checking WHERE c_id = p_to;
END $$;

-- o_taken is the amount with the penalty for an overdraft.
CREATE PROCEDURE write_check(p_id BIGINT, p_amount NUMERIC, OUT o_taken NUMERIC)
LANGUAGE plpgsql AS $$
DECLARE
    v_amount   NUMERIC(14,2) := p_amount;
    v_savings  NUMERIC(14,2);
    v_checking NUMERIC(14,2);
BEGIN
    PERFORM a_name FROM accounts WHERE a_id = p_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no account %', p_id;
    END IF;
    SELECT s_balance INTO v_savings FROM savings WHERE s_id = p_id;
    SELECT c_balance INTO v_checking FROM checking WHERE c_id = p_id;
    IF v_savings + v_checking < v_amount THEN
        v_amount := v_amount + 1;
    END IF;
    UPDATE checking SET c_balance = c_balance - v_amount WHERE c_id = p_id;
    o_taken := v_amount;
END $$;

CREATE PROCEDURE send_payment(p_from BIGINT, p_to BIGINT, p_amount NUMERIC)
LANGUAGE plpgsql AS $$
DECLARE
    v_amount  NUMERIC(14,2) := p_amount;
    v_balance NUMERIC(14,2);
BEGIN
    PERFORM a_name FROM accounts WHERE a_id = p_from;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no account %', p_from;
    END IF;
    PERFORM a_name FROM accounts WHERE a_id = p_to;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no account %', p_to;
    END IF;
    SELECT c_balance INTO v_balance FROM checking WHERE c_id = p_from;
    IF v_balance < v_amount THEN
        RAISE EXCEPTION 'insufficient funds of account %', p_from;
    END IF;
    UPDATE checking SET c_balance = c_balance - v_amount WHERE c_id = p_from;
    UPDATE checking SET c_balance = c_balance + v_amount WHERE c_id = p_to;
END $$;

-- Checks.

-- In cents.
CREATE PROCEDURE sum_of_balances(OUT o_sum BIGINT)
LANGUAGE plpgsql AS $$
DECLARE
    v_savings  NUMERIC;
    v_checking NUMERIC;
BEGIN
    SELECT sum(s_balance) INTO v_savings FROM savings;
    SELECT sum(c_balance) INTO v_checking FROM checking;
    o_sum := (v_savings + v_checking) * 100;
END $$;

-- The number of missing or surplus rows, and of savings below zero.
CREATE PROCEDURE check_accounts(p_customers BIGINT, OUT o_wrong BIGINT)
LANGUAGE plpgsql AS $$
DECLARE
    v_accounts  BIGINT;
    v_savings   BIGINT;
    v_checking  BIGINT;
    v_overdrawn BIGINT;
BEGIN
    SELECT count(*) INTO v_accounts FROM accounts;
    SELECT count(*) INTO v_savings FROM savings;
    SELECT count(*) INTO v_checking FROM checking;
    SELECT count(*) INTO v_overdrawn FROM savings WHERE s_balance < 0;
    o_wrong := abs(v_accounts - p_customers) + abs(v_savings - p_customers) + abs(v_checking - p_customers)
             + v_overdrawn;
END $$;
