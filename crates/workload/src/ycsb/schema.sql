-- YCSB (Cooper et al., SoCC 2010): one table of a key and ten fields of 100 bytes.

CREATE TABLE usertable (
    ycsb_key BIGINT NOT NULL,
    field0   VARCHAR(100) NOT NULL,
    field1   VARCHAR(100) NOT NULL,
    field2   VARCHAR(100) NOT NULL,
    field3   VARCHAR(100) NOT NULL,
    field4   VARCHAR(100) NOT NULL,
    field5   VARCHAR(100) NOT NULL,
    field6   VARCHAR(100) NOT NULL,
    field7   VARCHAR(100) NOT NULL,
    field8   VARCHAR(100) NOT NULL,
    field9   VARCHAR(100) NOT NULL,
    PRIMARY KEY (ycsb_key)
);
