//! Log devices of every kind: what was acknowledged is there again.

use crate::common::Durably as _;
use crate::common::{on, recovered_digest_of, small};
use reprise::disk::CrashingDisk;
use reprise::{Content, Database, DeviceOptions, Error, LogIo, Sequencing, params};
use std::path::Path;
use std::sync::Arc;

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
                        let commit = session.call("put", params![(n * 7 + thread) % 500, n]).unwrap().commit;
                        if n % 100 == 0 {
                            commit.wait().unwrap();
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

/// A database whose log devices are these folders.
fn open_with_devices(folder: &Path, devices: &[&Path]) -> Result<Database, Error> {
    let mut config = small();
    config.log_devices = Some(devices.iter().map(|device| device.to_path_buf()).collect());
    Database::open(folder, config)
}

#[test]
fn devices_are_not_shared() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let (log, link) = (path("log"), path("link"));
    std::fs::create_dir(&log).unwrap();
    std::os::unix::fs::symlink(&log, &link).unwrap();
    for devices in [[&*log, &*log], [&*log, &*link]] {
        let error = open_with_devices(&path("twice"), &devices).expect_err("one folder is two devices");
        assert_eq!(error.sqlstate(), "55006", "{error}");
        assert!(error.to_string().contains("is named twice"), "{error}");
        std::fs::remove_dir_all(path("twice")).unwrap();
    }
    let first = open_with_devices(&path("first"), &[&log]).unwrap();
    first.session().unwrap().execute_script(SCHEMA).unwrap();
    let second = || open_with_devices(&path("second"), &[&*link]).expect_err("the device is the first one's");
    assert!(second().to_string().contains("link"), "{}", second());
    drop(first);
    assert!(second().to_string().contains("link"), "{}", second());
    // One that has a device of its own finds another database's in its place.
    drop(open_with_devices(&path("third"), &[&path("other")]).unwrap());
    std::fs::remove_dir_all(path("other")).unwrap();
    std::os::unix::fs::symlink(&log, path("other")).unwrap();
    let error = open_with_devices(&path("third"), &[&path("other")]).expect_err("it is the first one's");
    assert!(error.to_string().contains("belongs to database"), "{error}");
    let first = open_with_devices(&path("first"), &[&log]).unwrap();
    // Devices that have moved are named, before anything is said to be missing on them.
    drop(first);
    std::fs::rename(&log, path("moved")).unwrap();
    let error = open_with_devices(&path("first"), &[&path("moved")]).expect_err("the device has moved");
    assert!(error.to_string().contains("was made with the log devices"), "{error}");
    std::fs::rename(path("moved"), &log).unwrap();
    let first = open_with_devices(&path("first"), &[&log]).unwrap();
    // A backup takes no device that holds the log of another database, not even of the one that it is a
    // backup of.
    first.session().unwrap().call_durably("put", params![1, 1]).unwrap();
    let live = first.digest().unwrap();
    first.backup(path("backup")).unwrap();
    drop(first);
    for marked in [true, false] {
        let marker = std::fs::read(log.join("reprise-device")).unwrap();
        if !marked {
            std::fs::remove_file(log.join("reprise-device")).unwrap();
        }
        let error = open_with_devices(&path("backup"), &[&log]).expect_err("the device is the first one's");
        assert!(
            error.to_string().contains("another database")
                || error.to_string().contains("belongs to database"),
            "{error}"
        );
        std::fs::write(log.join("reprise-device"), marker).unwrap();
    }
    assert_eq!(open_with_devices(&path("first"), &[&log]).unwrap().digest().unwrap(), live);
    assert_eq!(open_with_devices(&path("backup"), &[&path("own")]).unwrap().digest().unwrap(), live);
}

/// A device's folder and those above it, made when the database is, are there after a loss of power.
#[test]
fn new_folders_of_devices_are_durable() {
    for seed in 0..32 {
        let disk = CrashingDisk::default();
        let config = |disk: &CrashingDisk| {
            let mut config = on(Arc::new(disk.clone()));
            config.log_devices = Some(vec!["/volumes/one/log".into(), "/volumes/two/log".into()]);
            config
        };
        let db = Database::open("/data/db", config(&disk)).unwrap();
        db.session().unwrap().execute_script(SCHEMA).unwrap();
        let live = db.digest().unwrap();
        let after = disk.after_crash(seed);
        drop(db);
        let db = Database::open("/data/db", config(&after)).unwrap_or_else(|error| panic!("{seed}: {error}"));
        assert_eq!(db.digest().unwrap(), live, "seed {seed}");
    }
}
