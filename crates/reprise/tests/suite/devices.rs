//! Log devices of every kind: what was acknowledged is there again.

use crate::common::{recovered_digest_of, small};
use reprise::{Content, Database, DeviceOptions, LogIo, Sequencing, params};

const SCHEMA: &str = "
CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, pad TEXT NOT NULL);
CREATE PROCEDURE put(p_id INT, p_v INT) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE t SET v = p_v WHERE id = p_id;
    IF NOT FOUND THEN INSERT INTO t VALUES (p_id, p_v, repeat('x', p_v % 300)); END IF;
END $$;
";

#[test]
fn every_kind_of_device_recovers() {
    let kinds = ["buffered", "direct", "memory:300"].map(|text| text.parse::<LogIo>().unwrap());
    let kinds =
        kinds.into_iter().flat_map(|io| [None, Some(200_000_000)].map(|rate| DeviceOptions { io, rate }));
    for (device, (_, sequencing)) in kinds.flat_map(|kind| Sequencing::NAMES.map(|own| (kind, own))) {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let devices = if sequencing == Sequencing::Serial { 1 } else { 2 };
        let config = || {
            let mut config = small();
            config.device = device;
            (config.sequencing, config.content) = (sequencing, Content::Logical);
            config.log_file_bytes = 256 << 10;
            config.log_devices = Some((0..devices).map(|device| format!("log{device}").into()).collect());
            config
        };
        let db = Database::open(folder.path(), config()).unwrap();
        db.session().unwrap().execute_script(SCHEMA).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let mut session = db.session().unwrap();
                scope.spawn(move || {
                    for n in 0..800 {
                        let ticket = session.submit("put", params![(n * 7 + thread) % 500, n]).unwrap();
                        if n % 100 == 0 {
                            ticket.wait().unwrap();
                        }
                    }
                });
            }
            db.checkpoint().unwrap();
        });
        let live = db.digest().unwrap();
        drop(db);
        let what = format!("{device:?}, {sequencing}");
        assert_eq!(recovered_digest_of(Content::Logical, folder.path()), live, "{what}");
        // Opened again with devices of that kind, which read and write what is there.
        let db = Database::open(folder.path(), config()).unwrap();
        assert_eq!(db.digest().unwrap(), live, "{what}");
    }
}

#[test]
fn unknown_kinds_are_refused() {
    for (text, why) in
        [("fast", "known are: buffered, direct"), ("memory:soon", "is no number of nanoseconds")]
    {
        let error = text.parse::<LogIo>().unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
