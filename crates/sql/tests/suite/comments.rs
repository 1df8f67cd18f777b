//! Comments follow their objects, through images too.

use sql::Schema;

const SCHEMA: &str = "CREATE SCHEMA other;
    CREATE TABLE t (a INT PRIMARY KEY, b INT CHECK (b > 0), c INT);
    CREATE INDEX t_b ON t (b);
    CREATE VIEW v AS SELECT a FROM t;
    CREATE FUNCTION f() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
    CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f();
    COMMENT ON SCHEMA other IS '1'; COMMENT ON TABLE t IS '2'; COMMENT ON COLUMN t.b IS '3';
    COMMENT ON CONSTRAINT t_b_check ON t IS '4'; COMMENT ON CONSTRAINT t_pkey ON t IS '5';
    COMMENT ON INDEX t_b IS '6'; COMMENT ON TRIGGER g ON t IS '7'; COMMENT ON FUNCTION f() IS '8';
    COMMENT ON COLUMN v.a IS '9';
    CREATE TYPE temper AS ENUM ('x'); COMMENT ON TYPE temper IS '90';";

/// Applies a script after the schema; returns the comments in the order of their texts, each as the class,
/// the number and the column of its object.
fn comments_after(script: &str) -> Vec<String> {
    let mut schema = Schema::default();
    for (statement, ..) in Schema::split(&format!("{SCHEMA}{script}")).expect("syntax") {
        schema = schema.apply(&statement).unwrap_or_else(|error| panic!("{statement}: {error}")).0;
        let image = schema.to_image().expect("an image");
        assert!(Schema::from_image(&image).expect("it is read").defines_the_same_as(&schema), "{statement}");
    }
    let mut texts: Vec<String> = schema.comments().map(|(about, text)| format!("{text} {about}")).collect();
    texts.sort();
    texts
}

#[test]
fn comments_go_with_their_objects() {
    let all = comments_after("");
    assert_eq!(all.len(), 10, "{all:?}");
    let changed = comments_after(
        "DROP VIEW v; ALTER TABLE t RENAME COLUMN b TO d; ALTER TABLE t RENAME TO u;
         ALTER TABLE u ADD COLUMN e INT; ALTER TABLE u ALTER COLUMN c TYPE BIGINT;
         ALTER TABLE u RENAME CONSTRAINT t_b_check TO positive; ALTER INDEX t_b RENAME TO by_d;
         ALTER TRIGGER g ON u RENAME TO h; ALTER TYPE temper RENAME TO humour;",
    );
    let expected = [
        "1 schema other",
        "2 relation u",
        "3 column u.d",
        "4 constraint positive of u",
        "5 constraint t_pkey of u",
        "6 relation by_d",
        "7 trigger h of u",
        "8 routine f",
        "90 type humour",
    ];
    assert_eq!(changed, expected);
    let dropped = comments_after("DROP VIEW v; ALTER TABLE t DROP COLUMN b; DROP TRIGGER g ON t;");
    assert_eq!(
        dropped,
        ["1 schema other", "2 relation t", "5 constraint t_pkey of t", "8 routine f", "90 type temper"]
    );
    let none =
        comments_after("DROP VIEW v; DROP TABLE t; DROP FUNCTION f; DROP SCHEMA other; DROP TYPE temper");
    assert!(none.is_empty(), "{none:?}");
}
