//! Transactions and the rows that come back beside what they have read.

use super::{ANY, BY_KEY, COMMANDS, POINTS, answer, copy_of, setups, statement};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reprise::Nowhere;

/// A session that is alone meets no conflict: rows that come back beside what its transactions have read are
/// none.
#[test]
fn rows_that_come_back_are_no_conflict() {
    for setup in setups() {
        let folder = setup.folder(200);
        for (seed, kinds) in [ANY, BY_KEY, POINTS].into_iter().enumerate() {
            let copy = copy_of(folder.path());
            let db = setup.open(copy.path(), seed % 2 + 1);
            let (mut session, mut random) = (db.session().unwrap(), SmallRng::seed_from_u64(seed as u64));
            for _ in 0..30 {
                session.begin().unwrap();
                let done = (0..random.random_range(2..8)).try_for_each(|_| {
                    let text = statement(kinds, &mut random);
                    let called = text.strip_prefix("RAISE ").map(|item| format!("CALL raise_twice({item})"));
                    let text = called.unwrap_or(text);
                    answer(&mut session, &text).map(|_| ())
                });
                let committed = done.and_then(|()| {
                    session.commit().map(|_| ()).map_err(|error| format!("{} {error}", error.sqlstate()))
                });
                if let Err(error) = committed {
                    let is_own = ["22", "235"].iter().any(|class| error.starts_with(class));
                    assert!(is_own, "{setup:?}, {seed}: {error}");
                    session.rollback();
                }
            }
        }
    }
}

/// A row that another transaction adds to what was read is a conflict, while rows come back beside it.
#[test]
fn a_row_that_is_added_meanwhile_is_a_conflict() {
    let folder = COMMANDS.folder(200);
    for read in [
        "SELECT count(*) FROM stock WHERE id BETWEEN 90 AND 200",
        "SELECT left_over FROM stock WHERE id = 150",
        "SELECT count(*) FROM labels WHERE found = 150",
        "SELECT id FROM labels WHERE found BETWEEN 140 AND 160 ORDER BY found DESC LIMIT 1",
        // Ranges of many leaves.
        "SELECT count(*) FROM sales WHERE shop = 3",
        "SELECT number FROM sales WHERE shop BETWEEN 1 AND 150 ORDER BY shop, day, number",
        "SELECT number FROM sales WHERE shop BETWEEN 1 AND 150 ORDER BY shop DESC, day DESC, number DESC",
    ] {
        for (key, is_conflict) in [(150, true), (250, false)] {
            let copy = copy_of(folder.path());
            let db = COMMANDS.open(copy.path(), 0);
            let [mut reader, mut writer] = [(); 2].map(|()| db.session().unwrap());
            reader.begin().unwrap();
            answer(&mut reader, read).unwrap();
            // Bring rows back beside what was read, and make a transaction of it that writes.
            answer(&mut reader, "UPDATE stock SET left_over = 0 WHERE id = 89").unwrap();
            answer(&mut reader, "INSERT INTO labels VALUES (7000000, NULL, 130)").unwrap();
            answer(&mut writer, &format!("INSERT INTO stock VALUES ({key}, 0)")).unwrap();
            answer(&mut writer, &format!("INSERT INTO labels VALUES (8000000, NULL, {key})")).unwrap();
            let shop = if is_conflict { 3 } else { key };
            let sale = format!("INSERT INTO sales VALUES ({shop}, DATE '2026-01-15', 8000000, 0)");
            answer(&mut writer, &sale).unwrap();
            let state = reader.commit().map_err(|error| error.sqlstate().to_string());
            assert_eq!(state.is_err(), is_conflict, "{read}, {key}: {state:?}");
        }
    }
}

/// It is also one if the transaction then writes that row. What it adds itself is none.
#[test]
fn a_row_that_is_added_and_written_is_a_conflict() {
    let folder = COMMANDS.folder(200);
    let (one, some) = (
        "SELECT left_over FROM stock WHERE id = 150",
        "SELECT count(*) FROM stock WHERE id BETWEEN 90 AND 200",
    );
    let labels = "SELECT count(*) FROM labels WHERE found = 150";
    let (insert, beside) = ("INSERT INTO stock VALUES (150, 0)", "INSERT INTO stock VALUES (250, 0)");
    let moved = "UPDATE labels SET found = 150 WHERE id = 8";
    for (read, by_other, own, is_conflict) in [
        (one, insert, "UPDATE stock SET left_over = 1 WHERE id = 150", true),
        (some, insert, "DELETE FROM stock WHERE id = 150", true),
        (
            some,
            insert,
            "INSERT INTO stock VALUES (150, 1) ON CONFLICT (id) DO UPDATE SET left_over = 7",
            true,
        ),
        (labels, moved, "UPDATE labels SET about = 'own' WHERE id = 8", true),
        (labels, moved, "DELETE FROM labels WHERE id = 8", true),
        (some, beside, insert, false),
        (labels, "INSERT INTO labels VALUES (8000000, NULL, 151)", moved, false),
    ] {
        let copy = copy_of(folder.path());
        let db = COMMANDS.open(copy.path(), 0);
        let [mut reader, mut writer] = [(); 2].map(|()| db.session().unwrap());
        reader.begin().unwrap();
        answer(&mut reader, read).unwrap();
        answer(&mut writer, by_other).unwrap();
        let wrote = answer(&mut reader, own);
        let committed = reader.commit().map_err(|error| error.sqlstate().to_string());
        assert_eq!(
            wrote.is_err() || committed.is_err(),
            is_conflict,
            "{read}, {own}: {wrote:?}, {committed:?}"
        );
    }
}

/// A transaction that changes the definition of a table which it has read commits, while rows come back.
#[test]
fn a_definition_of_what_was_read_is_no_conflict() {
    let folder = COMMANDS.folder(50);
    let reads = [
        "SELECT left_over FROM stock WHERE id = 150",
        "SELECT count(*) FROM labels WHERE found < 9",
        "SELECT about FROM numbered WHERE id = 9000",
    ];
    for definition in [
        "ALTER TABLE stock ADD COLUMN own INT",
        "ALTER TABLE labels ALTER COLUMN found TYPE BIGINT",
        "DROP TABLE numbered",
        "CREATE INDEX own ON labels (about)",
    ] {
        let copy = copy_of(folder.path());
        let db = COMMANDS.open(copy.path(), 0);
        let mut session = db.session().unwrap();
        session.begin().unwrap();
        reads.iter().for_each(|read| drop(answer(&mut session, read).unwrap()));
        let prepared = session.prepare(definition).unwrap();
        let defined = session.execute_into(&prepared, &[], Box::new(Nowhere)).map(drop);
        defined.unwrap_or_else(|error| panic!("{definition}: {error}"));
        answer(&mut session, "INSERT INTO kinds VALUES (1000, 'own')").unwrap();
        session.commit().map(drop).unwrap_or_else(|error| panic!("{definition}: {error}"));
    }
}
