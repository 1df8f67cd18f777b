//! Blocks whose partitions follow from results of earlier blocks.

use crate::common::{compiled_on, recovered_by, recovered_digest_on};
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Database, Method, ReplayMode, Value};
use std::path::Path;
use std::sync::Arc;

/// The bank of PACMAN: the keys of the block of `current` follow from the spouse that an earlier block
/// reads, of a constant table or of one that calls of the log change.
#[test]
fn keys_that_are_read_cut_the_block_of_the_bank() {
    let bank = include_str!("../../../../../examples/bank.sql");
    let marry = "CREATE PROCEDURE marry(one TEXT, other TEXT) LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE spouse SET spouse = other WHERE name = one;
        END $$;";
    let name = |n: i64| Value::Text(format!("person {n}"));
    for changes in [false, true] {
        let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::default());
        let folder = Path::new("/data");
        let db = Database::open(folder, compiled_on(Arc::clone(&disk))).unwrap();
        let mut session = db.session().unwrap();
        session.execute_script(bank).unwrap();
        for n in 0..40 {
            let rows = format!(
                "INSERT INTO spouse VALUES ('person {n}', 'person {}');
                INSERT INTO current VALUES ('person {n}', 100);
                INSERT INTO saving VALUES ('person {n}', 10);",
                n ^ 1
            );
            session.execute_script(&rows).unwrap();
        }
        session.execute_script("INSERT INTO stats VALUES (1, 0);").unwrap();
        // Of another segment of the log, so that the inserts do not shape the blocks.
        session.execute_script(marry).unwrap();
        for n in 0..400 {
            let person = name(n * 7 % 40);
            let amount = Value::Int(n * 97 % 9000);
            let _ = match n % 5 {
                0 if changes => session.call("marry", &[person, name(n * 11 % 40)]).unwrap(),
                0 | 1 => session.call("deposit", &[person, amount, Value::Int(1)]).unwrap(),
                _ => session.call("transfer", &[person, amount]).unwrap(),
            };
        }
        let live = db.digest().unwrap();
        drop((session, db));
        let recovered = recovered_by(&disk, folder, Method::ClrP, ReplayMode::Pipelined, 4);
        let blocks = recovered.report.breakdown.expect("clr-p counts its blocks").blocks;
        let of_current = blocks.iter().find(|block| block.slices.iter().any(|own| own == "transfer.2"));
        let of_current = of_current.expect("transfers were replayed in slices");
        assert!(of_current.is_deferred && of_current.partitions > 1, "{of_current:?}");
        assert!(of_current.hottest_operations < of_current.operations, "{of_current:?}");
        assert_eq!(recovered_digest_on(&disk, folder), live);
    }
}
