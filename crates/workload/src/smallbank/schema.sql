-- Smallbank (Alomari et al., ICDE 2008; H-Store's benchmark of that name).

CREATE TABLE accounts (
    a_id   BIGINT NOT NULL,
    a_name VARCHAR(64) NOT NULL,
    PRIMARY KEY (a_id)
);

CREATE TABLE savings (
    s_id      BIGINT NOT NULL,
    s_balance NUMERIC(14,2) NOT NULL,
    PRIMARY KEY (s_id)
);

CREATE TABLE checking (
    c_id      BIGINT NOT NULL,
    c_balance NUMERIC(14,2) NOT NULL,
    PRIMARY KEY (c_id)
);
