//! Types of columns besides numbers, texts and times, and generated columns: whatever their values are, and
//! however definitions change between calls, every log recovers to one state by every method, from
//! checkpoints, too.

use crate::common::Durably as _;
use crate::common::{SHADOWS, open, recovered_digest, small};
use reprise::{Content, Database, Digest, Session, params};
use std::path::Path;

/// Runs calls around changes of definitions and a checkpoint, and returns the digest.
fn played(folder: &Path, shadows: &[Content], script: &str, rounds: &[&str]) -> Digest {
    let mut config = small();
    config.shadow_logs = shadows.to_vec();
    let db = Database::open(folder, config).unwrap();
    let mut session = db.session().unwrap();
    session.execute_script(script).unwrap();
    let call = |session: &mut Session, from: i32| {
        for id in from..from + 25 {
            session.call_durably("put", params![id]).unwrap();
        }
    };
    for (place, change) in rounds.iter().enumerate() {
        call(&mut session, place as i32 * 25);
        if place == rounds.len() / 2 {
            db.checkpoint().unwrap();
        }
        session.execute_script(change).unwrap();
    }
    call(&mut session, rounds.len() as i32 * 25);
    db.digest().unwrap()
}

/// Plays the calls with changes of layouts under a command log, and with those of indexes beside shadow logs,
/// which cannot hold that rows get another layout. Each folder recovers to the state that was there.
pub(crate) fn comes_back(script: &str, layouts: &[&str], indexes: &[&str]) {
    for (shadows, rounds) in [(&[][..], layouts), (&SHADOWS, indexes)] {
        let folder = tempfile::tempdir().unwrap();
        let live = played(folder.path(), shadows, script, rounds);
        assert_eq!(recovered_digest(folder.path()), live);
        assert_eq!(open(folder.path()).digest().unwrap(), live);
    }
}

/// Documents differ in depth, in their numbers' scales and in NULL; conditions and updates look into them.
#[test]
fn documents_come_back() {
    let script = "CREATE TABLE t (id INT PRIMARY KEY, j JSONB, t JSON NOT NULL, n INT);
         CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$
         DECLARE d JSONB := jsonb_build_object('id', p, 'half', p / 2.0, 'list', ARRAY[p, p + 1]);
                 r JSONB;
         BEGIN
             INSERT INTO t VALUES (p, CASE WHEN p % 5 > 0 THEN d END, to_json(p::text || ' \"x\"'), p % 3);
             SELECT j INTO r FROM t WHERE id = p - 1;
             UPDATE t SET j = coalesce(r, '{}') || jsonb_set(d, '{list,0}', to_jsonb(p * 1.50)), t = d
                 WHERE id = p - 2;
             UPDATE t SET n = n + 1 WHERE id BETWEEN p - 4 AND p AND j @> '{\"list\": [3]}';
             DELETE FROM t WHERE id = (r ->> 'id')::int - 20 AND j ? 'half';
         END $$;";
    // Shadow logs cannot hold that rows get another layout.
    let layouts: &[&str] = &[
        "ALTER TABLE t ADD COLUMN more JSONB NOT NULL DEFAULT '{\"a\":  1.0}'",
        "ALTER TABLE t ADD CHECK (more ? 'a'); ALTER TABLE t ADD COLUMN last JSON",
        "ALTER TABLE t ALTER COLUMN t TYPE JSONB USING t::jsonb",
    ];
    let indexes: &[&str] = &["CREATE INDEX t_n ON t (n)"];
    comes_back(script, layouts, indexes);
}

/// A call before a change of a domain is replayed although its value no longer is one, or was not one before.
#[test]
fn domains_change_between_calls() {
    let script = "CREATE DOMAIN odd AS INT CHECK (VALUE % 2 = 1) NOT NULL;
         CREATE DOMAIN word VARCHAR(9) CONSTRAINT word_long CHECK (length(VALUE) > 1);
         CREATE TABLE t (id INT PRIMARY KEY, n odd, w word, o INT);
         CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$
         BEGIN
             BEGIN
                 INSERT INTO t VALUES (p, CASE WHEN p % 7 > 0 THEN p END, repeat('x', p % 5), 0);
             EXCEPTION WHEN check_violation OR not_null_violation THEN
                 INSERT INTO t VALUES (p, 2 * p + 1, NULL, 1);
             END;
             UPDATE t SET n = n + 2, w = w || 'y' WHERE id = p - 3 AND length(w) < 6;
         END $$;";
    let changes: &[&str] = &[
        "ALTER DOMAIN odd DROP NOT NULL",
        "ALTER DOMAIN word DROP CONSTRAINT word_long",
        "ALTER DOMAIN odd DROP CONSTRAINT odd_check; ALTER DOMAIN word RENAME TO name_of",
    ];
    let layouts: &[&str] = &[
        "ALTER DOMAIN odd DROP NOT NULL",
        "ALTER TABLE t ADD COLUMN more word",
        "ALTER DOMAIN odd DROP CONSTRAINT odd_check; ALTER TABLE t DROP COLUMN more",
    ];
    comes_back(script, layouts, changes);
    let folder = tempfile::tempdir().unwrap();
    played(folder.path(), &[], script, &changes[..2]);
    let db = open(folder.path());
    let mut session = db.session().unwrap();
    let error = session.execute_script("INSERT INTO t VALUES (-1, 2, 'z', 0)").unwrap_err();
    assert_eq!(error.sqlstate(), "23514");
}

/// Casts to domains, and parameters, variables, results and defaults of domains, are checked by a replay as
/// they were by the call, whose domains had other constraints and defaults.
#[test]
fn domains_of_values_change_between_calls() {
    let script = "CREATE DOMAIN low AS INT CHECK (VALUE < 1000) DEFAULT 7;
         CREATE DOMAIN word VARCHAR(9) CONSTRAINT word_long CHECK (length(VALUE) > 1);
         CREATE TABLE t (id INT PRIMARY KEY, n low, w word, o INT);
         CREATE FUNCTION fired() RETURNS TRIGGER LANGUAGE plpgsql AS $$
         BEGIN
             IF NEW.id % 4 = 0 THEN NEW.n := NEW.n * 2; END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER fires BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION fired();
         CREATE FUNCTION twice(a low) RETURNS low LANGUAGE plpgsql AS $$ BEGIN RETURN a * 2; END $$;
         CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$
         DECLARE v low := 3; x word; r t;
         BEGIN
             BEGIN
                 v := twice(p * 11);
                 x := repeat('x', p % 5);
                 INSERT INTO t VALUES (p, v, x, (v % 30)::low);
             EXCEPTION WHEN check_violation OR not_null_violation THEN
                 INSERT INTO t (id, w, o) VALUES (p, 'caught', v);
             END;
             SELECT * INTO r FROM t WHERE id = p - 2;
             BEGIN
                 r.n := r.n * 3;
                 UPDATE t SET n = r.n, o = o + 1 WHERE id = r.id;
             EXCEPTION WHEN check_violation THEN
                 UPDATE t SET n = DEFAULT WHERE id = r.id AND (n - 1)::low < 900;
             END;
         END $$;";
    let changes: &[&str] = &[
        "ALTER DOMAIN low SET DEFAULT 11",
        "ALTER DOMAIN word DROP CONSTRAINT word_long; ALTER DOMAIN low DROP DEFAULT",
        "ALTER DOMAIN low DROP CONSTRAINT low_check",
    ];
    let layouts: &[&str] = &[
        "ALTER DOMAIN low ADD CONSTRAINT most CHECK (VALUE < 2000); ALTER TABLE t ADD COLUMN more low",
        "ALTER DOMAIN low SET DEFAULT 11; ALTER DOMAIN low DROP CONSTRAINT low_check",
        "CREATE TABLE u AS SELECT id, n, 5::low AS five FROM t; ALTER DOMAIN low ADD CHECK (VALUE > -5)",
    ];
    comes_back(script, layouts, changes);
}

/// A call before a change of an enumeration is replayed with the labels that there were, one after it with
/// those that there are.
#[test]
fn enumerations_change_between_calls() {
    let folder = tempfile::tempdir().unwrap();
    let live = played(
        folder.path(),
        &SHADOWS,
        "CREATE TYPE mood AS ENUM ('low', 'high');
         CREATE TABLE t (id INT PRIMARY KEY, m mood, n INT NOT NULL DEFAULT 0);
         CREATE INDEX t_m ON t (m, id);
         CREATE TABLE of (m mood PRIMARY KEY, n INT NOT NULL);
         CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$
         DECLARE all_of mood[] := enum_range(NULL::mood); own mood;
         BEGIN
             own := all_of[p % array_length(all_of, 1) + 1];
             INSERT INTO t VALUES (p, CASE WHEN p % 7 > 0 THEN own END);
             BEGIN
                 UPDATE t SET m = 'middle' WHERE id = p - 2;
             EXCEPTION WHEN invalid_text_representation THEN
                 UPDATE t SET n = n + 1 WHERE id = p - 2;
             END;
             UPDATE t SET n = n + 10 WHERE m > 'low' AND id > p - 5;
             INSERT INTO of VALUES (own, 1) ON CONFLICT (m) DO UPDATE SET n = of.n + 1;
         END $$;",
        &[
            "ALTER TYPE mood ADD VALUE 'middle' BEFORE 'high'",
            "ALTER TYPE mood ADD VALUE 'least' BEFORE 'low'; ALTER TYPE mood ADD VALUE 'most'",
            "ALTER TYPE mood RENAME VALUE 'least' TO 'lowest'; CREATE TYPE passing AS ENUM ('x')",
            "ALTER TYPE passing RENAME TO another; DROP TYPE another; CREATE INDEX t_n ON t (n, m)",
        ],
    );
    assert_eq!(recovered_digest(folder.path()), live);
    assert_eq!(open(folder.path()).digest().unwrap(), live);
}

/// Generated columns, in indexes and keys, of rows that statements, triggers and foreign keys change.
#[test]
fn generated_columns_come_back() {
    let script = "CREATE TABLE kind (code TEXT PRIMARY KEY, n INT NOT NULL DEFAULT 0);
         INSERT INTO kind VALUES ('a'), ('b'), ('c');
         CREATE TABLE t (id INT PRIMARY KEY, kind TEXT REFERENCES kind ON UPDATE CASCADE ON DELETE SET NULL,
             price NUMERIC(8,2), amount INT NOT NULL DEFAULT 1,
             total NUMERIC(12,2) GENERATED ALWAYS AS (price * amount) STORED,
             label TEXT NOT NULL GENERATED ALWAYS AS (coalesce(kind, '-') || '/' || id) STORED UNIQUE);
         CREATE INDEX t_total ON t (total);
         CREATE TABLE pair (a INT, b INT, c INT GENERATED ALWAYS AS (a * 100 + b) STORED PRIMARY KEY);
         CREATE FUNCTION raised() RETURNS TRIGGER LANGUAGE plpgsql AS $$
         BEGIN NEW.b := NEW.b + coalesce(NEW.c, 1); RETURN NEW; END $$;
         CREATE TRIGGER raised BEFORE INSERT OR UPDATE ON pair FOR EACH ROW EXECUTE FUNCTION raised();
         CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO t (id, kind, price)
                 VALUES (p, chr(97 + p % 3), CASE WHEN p % 4 > 0 THEN p / 3.0 END);
             UPDATE t SET amount = amount + p % 5 WHERE id = p - 1;
             UPDATE t SET price = total + 1 WHERE id = p - 3;
             UPDATE t SET amount = 2, kind = NULL WHERE total BETWEEN p AND p + 2 AND id <> p;
             INSERT INTO t (id, price) VALUES (p - 2, 7)
                 ON CONFLICT (id) DO UPDATE SET price = t.total + excluded.total;
             INSERT INTO pair (a, b) VALUES (p, p % 10);
             UPDATE pair SET b = b + 1 WHERE a = p - 1;
             IF p % 20 = 0 THEN
                 UPDATE kind SET code = code || p WHERE code LIKE 'b%';
                 UPDATE t SET kind = 'a' WHERE kind IS NULL AND label > '-/';
                 INSERT INTO kind VALUES ('b'), ('gone' || p);
                 UPDATE t SET kind = 'gone' || p WHERE id = p - 1;
                 DELETE FROM kind WHERE code = 'gone' || p;
             END IF;
         END $$;";
    let layouts: &[&str] = &[
        "CREATE UNIQUE INDEX t_dear ON t (upper(kind), id) WHERE price > 20",
        "ALTER TABLE t ADD COLUMN half NUMERIC GENERATED ALWAYS AS (price / 2) STORED",
        "ALTER TABLE pair ADD COLUMN d TEXT GENERATED ALWAYS AS (a || ':' || b) STORED UNIQUE",
        "CREATE UNIQUE INDEX pair_some ON pair (lower(d), b DESC) WHERE a > 5 AND b IS NOT NULL",
        "ALTER TABLE t ADD COLUMN e INT DEFAULT 5, ALTER COLUMN half DROP EXPRESSION",
        "DROP INDEX t_dear; CREATE INDEX ON t ((total + 1), amount)",
    ];
    // What gets another layout under shadow logs has no rows.
    let indexes: &[&str] = &[
        "CREATE INDEX t_both ON t (label, total); CREATE TABLE u (a INT, b TEXT);
         CREATE UNIQUE INDEX ON u (lower(b)) WHERE a > 0; INSERT INTO u VALUES (1, 'A'), (0, 'a')",
        "ALTER TABLE u RENAME TO w; INSERT INTO w VALUES (0, 'A')",
    ];
    let wrong = "SELECT id FROM t WHERE total IS DISTINCT FROM (price * amount)::numeric(12,2)
             OR label <> coalesce(kind, '-') || '/' || id
         UNION ALL SELECT a FROM pair WHERE c <> a * 100 + b";
    for (shadows, rounds) in [(&[][..], layouts), (&SHADOWS, indexes)] {
        let folder = tempfile::tempdir().unwrap();
        let live = played(folder.path(), shadows, script, rounds);
        assert_eq!(recovered_digest(folder.path()), live);
        let db = open(folder.path());
        assert_eq!(db.digest().unwrap(), live);
        let mut session = db.session().unwrap();
        assert_eq!(session.query(wrong).unwrap().rows.len(), 0);
        let by_expression = session.query("SELECT id FROM t WHERE total + 1 >= 0 OR total IS NULL").unwrap();
        assert_eq!(by_expression.rows.len(), session.query("SELECT id FROM t").unwrap().rows.len());
        let by_index = session.query("SELECT id FROM t WHERE total >= 0 OR total IS NULL").unwrap();
        assert_eq!(by_index.rows.len(), session.query("SELECT id FROM t").unwrap().rows.len());
    }
}

/// Arrays of every type of elements, as keys and in indexes too; elements, slices and whole arrays change.
#[test]
fn arrays_come_back() {
    let script =
        "CREATE TABLE t (id INT PRIMARY KEY, a INT[] NOT NULL DEFAULT '{}', t TEXT[], m NUMERIC(8,2)[],
             x NUMERIC[], d DATE[], u UUID[], f DOUBLE PRECISION[], b BOOLEAN[], y BYTEA[], j JSONB[],
             at TIMESTAMPTZ[], s SMALLINT[]);
         CREATE INDEX t_a ON t (a, id);
         CREATE TABLE of (k TEXT[], n INT, m NUMERIC(8,2)[], v INT NOT NULL, PRIMARY KEY (k, n), UNIQUE (m));
         CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$
         DECLARE own TEXT[] := ARRAY[(p % 4)::text, NULL, 'n']; found INT[]; total NUMERIC(8,2)[];
         BEGIN
             INSERT INTO t (id, a, t, m, x, d, u, f, b, y, j, at, s)
                 VALUES (p, ARRAY[p, NULL, p % 3], CASE WHEN p % 5 > 0 THEN own END,
                 ARRAY[p / 4.0], ARRAY[p * 1.250, NULL], ARRAY[DATE '2024-01-01' + p],
                 ARRAY[('00000000-0000-0000-0000-0000000000' || lpad((p % 100)::text, 2, '0'))::uuid],
                 ARRAY[p / 8.0, 'NaN'::double precision], ARRAY[p % 2 = 0, NULL],
                 ARRAY[decode(lpad(to_hex(p), 4, '0'), 'hex')], ARRAY[to_jsonb(p), NULL], ARRAY[now()], '{}');
             SELECT a INTO found FROM t WHERE id = p - 1;
             UPDATE t SET a = found || p, t[2] = 'set', x = x || NULL WHERE id = p - 2 AND t IS NOT NULL;
             UPDATE t SET a[2:3] = ARRAY[p, 7], m[1] = m[1] + 1, d = '{}' WHERE id BETWEEN p - 4 AND p - 3;
             UPDATE t SET s = array_append(s, 1::smallint) WHERE a > ARRAY[p - 5] AND a <= ARRAY[p, 1];
             INSERT INTO of VALUES (own, p % 7, ARRAY[p, NULL], 1)
                 ON CONFLICT (k, n) DO UPDATE SET v = of.v + 1, m[2] = of.v RETURNING m INTO total;
             DELETE FROM of WHERE k = own AND n = (p + 3) % 7 AND total[1] > 30;
             DELETE FROM t WHERE id = found[1] - 20 AND 'n' = ANY (t);
         END $$;";
    let layouts: &[&str] = &[
        "ALTER TABLE t ADD COLUMN more TEXT[] NOT NULL DEFAULT '{a,NULL}'",
        "ALTER TABLE t ALTER COLUMN s TYPE BIGINT[]; ALTER TABLE t ADD CHECK (more[1] = 'a')",
        "ALTER TABLE t ALTER COLUMN x TYPE NUMERIC(12,3)[]; ALTER TABLE t ALTER COLUMN at TYPE TIMESTAMP[]",
    ];
    let indexes: &[&str] = &["CREATE INDEX t_t ON t (t)", "CREATE UNIQUE INDEX t_x ON t (d, m, id)"];
    comes_back(script, layouts, indexes);
}

/// Intervals differ in each field; those that are equal have different fields.
#[test]
fn intervals_come_back() {
    let script = "CREATE TABLE t (id INT PRIMARY KEY, v INTERVAL, n INTERVAL NOT NULL,
             at TIMESTAMPTZ NOT NULL, l INTERVAL[], c INT NOT NULL DEFAULT 0,
             h TIME, UNIQUE (h, id));
         CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$
         DECLARE own INTERVAL := p * INTERVAL '1 day 02:00'; found INTERVAL; total INTERVAL;
         BEGIN
             INSERT INTO t (id, v, n, at, l) VALUES (p, CASE WHEN p % 5 > 0 THEN own END,
                 make_date(2024, 1, 31) + own - TIMESTAMP '2023-06-05',
                 now() - own, ARRAY[own, NULL, justify_days(own)]);
             SELECT v, n INTO found, total FROM t WHERE id = p - 1;
             UPDATE t SET v = coalesce(found, '1 mon') + n / 3, l[2] = -total WHERE id = p - 2;
             UPDATE t SET n = CASE WHEN p % 2 = 0 THEN INTERVAL '1 mon' ELSE '30 days' END WHERE id = p - 3;
             UPDATE t SET c = c + 1 WHERE n = '720:00:00' AND id BETWEEN p - 8 AND p;
             UPDATE t SET h = now()::TIME + own - found WHERE id BETWEEN p - 2 AND p;
             DELETE FROM t WHERE id = extract(day FROM found)::INT - 15 AND v > l[1];
         END $$;";
    let layouts: &[&str] = &[
        "ALTER TABLE t ADD COLUMN more INTERVAL NOT NULL DEFAULT '1-2 3'",
        "ALTER TABLE t ADD CHECK (more > '1 year')",
        "ALTER TABLE t ALTER COLUMN v TYPE INTERVAL USING v * 2; CREATE UNIQUE INDEX t_v ON t (v, id)",
    ];
    let indexes: &[&str] =
        &["CREATE INDEX t_c ON t (c)", "CREATE INDEX t_n ON t (n, v); CREATE INDEX ON t (l)"];
    comes_back(script, layouts, indexes);
}

/// Numbers without a precision are keys: equal ones have different scales, which rows keep.
#[test]
fn numbers_come_back() {
    let script = "CREATE TABLE price (n NUMERIC PRIMARY KEY, m NUMERIC(30,4), c INT NOT NULL DEFAULT 0,
             UNIQUE (m, n));
         CREATE TABLE t (id INT PRIMARY KEY, n NUMERIC REFERENCES price ON UPDATE CASCADE ON DELETE SET NULL,
             a NUMERIC[]);
         CREATE INDEX t_n ON t (n, id);
         CREATE INDEX t_more ON t ((n + 1));
         CREATE INDEX t_a ON t (a);
         CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$
         DECLARE own NUMERIC := (p % 7 - 3) * CASE WHEN p % 2 = 0 THEN 1.50 ELSE 1.5000 END; found NUMERIC;
         BEGIN
             INSERT INTO price (n, m) VALUES (own, own / 3)
                 ON CONFLICT (n) DO UPDATE SET c = price.c + 1, m = price.m + own;
             INSERT INTO t VALUES (p, CASE WHEN p % 5 > 0 THEN own * 1.0 END, ARRAY[own, NULL, p]);
             SELECT n INTO found FROM price WHERE n = own;
             UPDATE t SET a = ARRAY[found, p / 3.0] WHERE id = p - 1;
             UPDATE price SET n = n * 1.00 WHERE n = found;
             UPDATE t SET a[2] = found WHERE n > -2 AND n <= 1.5 AND id BETWEEN p - 4 AND p;
             UPDATE price SET c = c + 10 WHERE n BETWEEN own AND 3 AND m IS NOT NULL;
             IF p % 10 = 0 THEN
                 UPDATE price SET n = n + p * 100.10 WHERE n = found;
                 DELETE FROM price WHERE n BETWEEN 2000 AND 3000.5;
                 DELETE FROM t WHERE a > ARRAY[3.0] AND id < p - 10;
             END IF;
         END $$;";
    let layouts: &[&str] = &[
        "ALTER TABLE price ADD COLUMN more NUMERIC DEFAULT 1.10",
        "CREATE INDEX price_more ON price (more, n DESC); ALTER TABLE t ALTER COLUMN a TYPE NUMERIC(36,6)[]",
        "ALTER TABLE price ALTER COLUMN m TYPE NUMERIC",
    ];
    let indexes: &[&str] = &["CREATE INDEX price_c ON price (c, n)", "CREATE INDEX t_both ON t (n, a)"];
    comes_back(script, layouts, indexes);
}

/// Numbers of more than 36 digits, NaN and the infinities grow and shrink in rows, keys and arrays.
#[test]
fn wide_numbers_come_back() {
    let script = "CREATE TABLE price (n NUMERIC PRIMARY KEY, m NUMERIC, w NUMERIC(60,10), r NUMERIC(3,-2),
             x NUMERIC(30,4), UNIQUE (m, n));
         CREATE TABLE t (id INT PRIMARY KEY, n NUMERIC REFERENCES price ON UPDATE CASCADE ON DELETE SET NULL,
             note TEXT NOT NULL DEFAULT '', a NUMERIC[], g NUMERIC GENERATED ALWAYS AS (n * 1.50) STORED);
         CREATE INDEX t_n ON t (n, id);
         CREATE INDEX t_more ON t ((n + 1));
         CREATE INDEX t_a ON t (a);
         CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$
         DECLARE own NUMERIC := CASE p % 9 WHEN 0 THEN 'NaN'::numeric WHEN 1 THEN 'Infinity'
                 WHEN 2 THEN '-Infinity' WHEN 3 THEN 1e40 WHEN 4 THEN -1e-40
                 WHEN 5 THEN 10 ^ (p % 50)::numeric WHEN 6 THEN 1e400 ELSE p % 9 END; found NUMERIC;
         BEGIN
             INSERT INTO price (n, m, w, r, x) VALUES (own, own / 3, 1e45 / 7 + p, p % 900 * 100, 'NaN')
                 ON CONFLICT (n) DO UPDATE SET w = price.w / 1e5, x = p, r = price.r + 51,
                     m = CASE WHEN price.m < 1e500 THEN price.m * 1e7 ELSE p END;
             INSERT INTO t VALUES (p, CASE WHEN p % 5 > 0 THEN own * 1.0 END, p::text, ARRAY[own, NULL, p]);
             SELECT n INTO found FROM price WHERE n = own;
             UPDATE t SET a = ARRAY[found, p / 3e40], note = note || 'x' WHERE id = p - 1;
             UPDATE price SET n = n * 1.00 WHERE n = found AND n < 1e100;
             UPDATE t SET a[2] = found WHERE n > 1e39 AND id BETWEEN p - 4 AND p;
             UPDATE price SET m = m / 1e30 WHERE n BETWEEN own AND 'Infinity' AND m IS NOT NULL;
             IF p % 10 = 0 THEN
                 UPDATE price SET n = p * 1e50 WHERE n = found;
                 UPDATE price SET m = 1 WHERE m = 'NaN';
                 DELETE FROM price WHERE n = 'Infinity';
                 DELETE FROM t WHERE a > ARRAY[1e300] AND id < p - 10;
             END IF;
         END $$;";
    let layouts: &[&str] = &[
        "ALTER TABLE price ADD COLUMN more NUMERIC DEFAULT 1e99",
        "CREATE INDEX price_more ON price (more, n DESC); ALTER TABLE price ALTER w TYPE NUMERIC(80,20)",
        "ALTER TABLE price ALTER COLUMN r TYPE NUMERIC",
    ];
    let indexes: &[&str] = &["CREATE INDEX price_w ON price (w, n)", "CREATE INDEX t_both ON t (n, a)"];
    comes_back(script, layouts, indexes);
}

/// Values of REAL are rounded in each step, in columns, keys and arrays.
#[test]
fn reals_come_back() {
    let script = "CREATE TABLE kind (r REAL PRIMARY KEY, n INT NOT NULL DEFAULT 0);
         CREATE TABLE t (id INT PRIMARY KEY, r REAL, s REAL NOT NULL DEFAULT 0.1, f DOUBLE PRECISION,
             k REAL REFERENCES kind ON UPDATE CASCADE, a REAL[],
             g REAL GENERATED ALWAYS AS (r * 3 + s) STORED);
         CREATE UNIQUE INDEX t_r ON t (r, id);
         CREATE INDEX t_g ON t (g) WHERE s > 0;
         CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$
         DECLARE own REAL := p / 3.0; total REAL; most FLOAT4[];
         BEGIN
             INSERT INTO kind (r) VALUES (p % 4 + 0.1) ON CONFLICT (r) DO UPDATE SET n = kind.n + 1;
             INSERT INTO t (id, r, f, k, a) VALUES (p, CASE WHEN p % 5 > 0 THEN own END, own,
                 p % 4 + 0.1, ARRAY[own, NULL, 'NaN', p]);
             SELECT sum(s), array_agg(r) INTO total, most FROM t WHERE id BETWEEN p - 3 AND p;
             UPDATE t SET s = total * 0.3::real, a = most WHERE id = p - 1;
             UPDATE t SET r = f, f = r WHERE r > own - 2::real AND r <= own - 1::real;
             UPDATE t SET s = s + own WHERE g = total OR r = own;
             UPDATE kind SET r = r + p WHERE r = 3.1::real AND n = 3;
             DELETE FROM t WHERE r = (own - 15)::real;
         END $$;";
    let layouts: &[&str] = &[
        "ALTER TABLE t ADD COLUMN more REAL NOT NULL DEFAULT 1.1",
        "ALTER TABLE t ALTER COLUMN f TYPE REAL; ALTER TABLE t ADD CHECK (more < 2)",
        "ALTER TABLE kind ADD COLUMN more REAL[] DEFAULT '{0.1,NULL}'",
    ];
    let indexes: &[&str] = &["CREATE INDEX t_a ON t (a)", "CREATE INDEX t_s ON t (s, r DESC)"];
    comes_back(script, layouts, indexes);
}

/// Routines that call themselves, tell listeners and leave out locked rows are logged by value, also where
/// they are replaced between calls.
#[test]
fn routines_that_call_themselves_come_back() {
    let script = "CREATE TABLE t (id INT PRIMARY KEY, up INT, v BIGINT);
         CREATE FUNCTION fib(n INT) RETURNS BIGINT LANGUAGE plpgsql AS $$ BEGIN
             IF n < 2 THEN RETURN n; END IF; RETURN fib(n - 1) + fib(n - 2); END $$;
         CREATE PROCEDURE spread(p INT, depth INT) LANGUAGE plpgsql AS $$ BEGIN
             IF depth > 0 THEN
                 INSERT INTO t (id, up, v) VALUES (p * 8 + depth, p, fib(depth + 3));
                 UPDATE t SET v = v + 1 WHERE id = (p - 1) * 8 + depth;
                 CALL spread(p, depth - 1);
             END IF;
         END $$;
         CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$ DECLARE own INT; BEGIN
             CALL spread(p, 1 + p % 4);
             NOTIFY told;
             PERFORM pg_notify('told', p::text);
             SELECT id INTO own FROM t WHERE v % 2 = 0 ORDER BY v, id LIMIT 1 FOR UPDATE SKIP LOCKED;
             DELETE FROM t WHERE id = own AND p % 7 = 0;
         END $$;";
    let replaced = "CREATE OR REPLACE FUNCTION fib(n INT) RETURNS BIGINT LANGUAGE plpgsql AS $$ BEGIN
             IF n < 3 THEN RETURN 1; END IF; RETURN fib(n - 1) * 2 + fib(n - 3); END $$";
    let layouts: &[&str] = &[replaced, "ALTER TABLE t ADD COLUMN w INT DEFAULT 1"];
    let indexes: &[&str] = &[replaced, "CREATE INDEX t_v ON t (v)"];
    comes_back(script, layouts, indexes);
}

/// MERGE inserts, changes, moves and deletes rows with foreign keys, in routines and in statements.
#[test]
fn merged_rows_come_back() {
    let script = "CREATE TABLE kind (id INT PRIMARY KEY); INSERT INTO kind SELECT generate_series(0, 3);
         CREATE TABLE t (id INT PRIMARY KEY, n INT CHECK (n > -500), kind INT REFERENCES kind,
             d INT GENERATED ALWAYS AS (n * 2) STORED);
         CREATE INDEX ON t (n);
         CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$ BEGIN
             MERGE INTO t USING (SELECT i, i % 4 AS k FROM generate_series(p, p + 3) AS i) s ON t.id = s.i
                 WHEN MATCHED AND t.n % 7 = 0 THEN DELETE
                 WHEN MATCHED AND s.k = 1 THEN UPDATE SET id = t.id + 1000 * p + 10000, kind = NULL
                 WHEN MATCHED THEN UPDATE SET n = t.n + p, kind = s.k
                 WHEN NOT MATCHED AND s.k = 2 THEN DO NOTHING
                 WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.i, p);
             UPDATE t SET n = n - 1 WHERE id = p;
         END $$;";
    let merged = "MERGE INTO t USING t s ON t.id = s.id + 1 WHEN MATCHED THEN UPDATE SET n = s.n
             WHEN NOT MATCHED AND s.id >= 0 THEN INSERT (id, n) VALUES (-1 - s.id, s.n);
         MERGE INTO kind USING (VALUES (0), (7)) v (i) ON kind.id = i WHEN NOT MATCHED THEN INSERT VALUES (i);
         MERGE INTO t USING (SELECT max(id) AS i FROM t) s ON t.id = s.i WHEN MATCHED THEN DELETE";
    let again = "MERGE INTO t USING t s ON t.id = -s.id WHEN MATCHED AND s.id < 0 THEN DELETE";
    let layouts: &[&str] = &[merged, "ALTER TABLE t ADD COLUMN w INT DEFAULT 1", again];
    let indexes: &[&str] = &[merged, "CREATE INDEX t_d ON t (d)"];
    comes_back(script, layouts, indexes);
}

/// Routines with rows of tables, templates, VARIADIC, defaults that depend on the call, variables that are
/// never NULL, and calls in a circle, also where they are replaced between calls.
#[test]
fn calls_of_all_kinds_of_routines_come_back() {
    let script = "CREATE TABLE t (id INT PRIMARY KEY, name TEXT, v BIGINT, at TIMESTAMP);
         CREATE TABLE seen (id INT PRIMARY KEY, name TEXT, v BIGINT, at TIMESTAMP);
         CREATE FUNCTION weight(r t, VARIADIC more INT[] DEFAULT '{}') RETURNS BIGINT LANGUAGE plpgsql AS $$
         DECLARE s BIGINT NOT NULL := 0; x INT; BEGIN
             FOREACH x IN ARRAY more LOOP s := s + x; END LOOP;
             RETURN s + coalesce(r.v, length(r.name)); END $$;
         CREATE FUNCTION larger(a ANYELEMENT, b ANYELEMENT) RETURNS ANYELEMENT LANGUAGE sql AS $$
             SELECT CASE WHEN a > b THEN a ELSE b END $$;
         CREATE FUNCTION made(p INT, moment TIMESTAMP DEFAULT CURRENT_TIMESTAMP) RETURNS t
         LANGUAGE plpgsql AS $$ DECLARE r t; BEGIN
             r.id := p; r.name := 'n' || p; r.v := larger(p, 9); r.at := moment; RETURN r; END $$;
         CREATE FUNCTION odd(n INT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$ BEGIN RETURN true; END $$;
         CREATE FUNCTION even(n INT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$ BEGIN
             IF n = 0 THEN RETURN true; END IF; RETURN odd(n - 1); END $$;
         CREATE OR REPLACE FUNCTION odd(n INT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$ BEGIN
             IF n = 0 THEN RETURN false; END IF; RETURN even(n - 1); END $$;
         CREATE PROCEDURE keep(r t) LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (r.*); END $$;
         CREATE PROCEDURE count_down(n INT, p INT) LANGUAGE plpgsql AS $$ BEGIN NULL; END $$;
         CREATE PROCEDURE step(n INT, p INT) LANGUAGE plpgsql AS $$ BEGIN
             UPDATE t SET v = v + n WHERE id = p; CALL count_down(n - 1, p); END $$;
         CREATE OR REPLACE PROCEDURE count_down(n INT, p INT) LANGUAGE plpgsql AS $$ BEGIN
             IF n > 0 THEN CALL step(n, p); END IF; END $$;
         CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$
         DECLARE r t; w BIGINT NOT NULL := 0; moment TIMESTAMP := CURRENT_TIMESTAMP; BEGIN
             r := made(p);
             INSERT INTO t SELECT r.*;
             r.at := moment;
             CALL keep(r);
             SELECT weight(t, 1, p) INTO w FROM t WHERE id = p;
             IF even(p) THEN UPDATE t SET v = v + w WHERE id = p; END IF;
             CALL step(p % 3, p);
             IF p % 5 = 0 THEN
                 BEGIN
                     DELETE FROM t WHERE id = p - 1;
                     RAISE SQLSTATE 'U0001' USING TABLE = 't';
                 EXCEPTION WHEN SQLSTATE 'U0001' THEN UPDATE t SET name = SQLERRM WHERE id = p;
                 END;
             END IF;
         END $$;";
    let replaced = "CREATE OR REPLACE FUNCTION larger(a ANYELEMENT, b ANYELEMENT) RETURNS ANYELEMENT
             LANGUAGE sql AS $$ SELECT CASE WHEN a < b THEN a ELSE b END $$;
         CREATE OR REPLACE FUNCTION odd(n INT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$ BEGIN
             IF n = 0 THEN RETURN true; END IF; RETURN even(n - 1); END $$";
    let layouts: &[&str] = &[replaced, "CREATE TABLE other (a INT)"];
    let indexes: &[&str] = &[replaced, "CREATE INDEX t_v ON t (v)"];
    comes_back(script, layouts, indexes);
}

/// Calls write through views, which change between calls: their columns, their conditions and CHECK OPTION.
#[test]
fn views_change_between_calls() {
    let script = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT DEFAULT 'b');
         CREATE VIEW v AS SELECT *, a * 2 AS twice FROM t WHERE a < 50;
         CREATE VIEW w (number, value, word) AS SELECT id, a, b FROM v WHERE a >= 0 WITH CHECK OPTION;
         CREATE PROCEDURE put(p INT) LANGUAGE plpgsql AS $$
         DECLARE n INT;
         BEGIN
             BEGIN
                 INSERT INTO w (number, value) VALUES (p, p * 7 % 60 - 3);
             EXCEPTION WHEN with_check_option_violation THEN
                 INSERT INTO v (id, a) VALUES (p, -1) RETURNING twice INTO n;
             END;
             BEGIN
                 INSERT INTO v (id, a) VALUES (p - 3, n)
                     ON CONFLICT (id) DO UPDATE SET a = excluded.a + v.twice;
                 UPDATE w SET value = value + 1, word = word || p WHERE number = p - 1;
             EXCEPTION WHEN with_check_option_violation THEN
                 UPDATE v SET a = 3 WHERE id = p - 3;
             END;
             UPDATE v SET b = 'z' WHERE twice < p AND id > p - 5;
             DELETE FROM w WHERE number = p - 9;
         END $$;";
    let layouts: &[&str] = &[
        "ALTER TABLE t ADD COLUMN c INT DEFAULT 5",
        "CREATE OR REPLACE VIEW w AS SELECT id AS number, a AS value, b AS word, id FROM v WHERE a > 5",
        "ALTER TABLE t RENAME COLUMN a TO amount; ALTER TABLE t RENAME TO items",
    ];
    let indexes: &[&str] = &[
        "CREATE OR REPLACE VIEW v AS SELECT *, a * 2 AS twice FROM t WHERE a < 40 WITH LOCAL CHECK OPTION",
        "CREATE INDEX t_a ON t (a)",
        "CREATE OR REPLACE VIEW v AS SELECT id, a, b, a * 2 AS twice FROM t",
    ];
    comes_back(script, layouts, indexes);
}
