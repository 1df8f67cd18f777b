CREATE TABLE region (id INT PRIMARY KEY, code TEXT UNIQUE);
CREATE TABLE city (
    id SERIAL PRIMARY KEY,
    region INT REFERENCES region ON DELETE CASCADE,
    name VARCHAR(20) NOT NULL,
    size NUMERIC(8,2) CHECK (size > 0),
    at TIMESTAMPTZ
);
CREATE INDEX city_name ON city (name, size);
CREATE VIEW big AS SELECT * FROM city WHERE size > 10;
CREATE FUNCTION f(a INT, b TEXT) RETURNS INT LANGUAGE plpgsql AS $$ BEGIN RETURN 1; END $$;
\d city
\d region
\d city_name
\d city_id_seq
\d big
\di city*
\dv
\ds
\df
