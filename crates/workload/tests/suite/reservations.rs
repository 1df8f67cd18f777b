//! What a transaction of several operations reserves: exactly its rows.

use procedure::analysis::{Reservation, Reservations};
use workload::Settings;

#[test]
fn a_transaction_of_several_operations_reserves_single_rows() {
    let settings = Settings { scale: 1, mix: "f".into(), operations: 10, skew: Some(0.8) };
    let mut schema = sql::Schema::default();
    for script in settings.workload("ycsb").unwrap().definitions() {
        for (statement, ..) in sql::Schema::split(script).unwrap() {
            schema = schema.apply(&statement).unwrap().0;
        }
    }
    let mut all = Reservations::of_all([&**schema.procedure("ycsb_transaction").unwrap()].into_iter());
    let reservations = all.remove(0).unwrap();
    let is_a_row = |one: &&Reservation| one.granule.prefix.len() == 1;
    // Read and update have a reservation each that names a row, and a wide one for very many rounds.
    assert_eq!(reservations.iter().filter(is_a_row).count(), 2);
    assert_eq!(reservations.iter().count(), 4);
}
