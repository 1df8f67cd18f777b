//! Folders of every format so far open, by every method that their log has, and go on.
//!
//! `tests/golden` has one text file a folder, made by the release that wrote the format: a line
//! `file <length> <path>` for each file, then a line `<offset> <hexadecimal bytes>` for each 32 bytes of it
//! that are not zero. Format 4 is made again by `REPRISE_GOLDEN=1 cargo test -p reprise --test suite golden`.

use crate::common::Durably as _;
use crate::common::on;
use procedure::SEMANTICS;
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Config, Content, Database, Digest, Sequencing, params};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FOLDER: &str = "/db";
const CHUNK: usize = 32;
const SECTOR: usize = 512;
/// Where the header of a log file has the semantics.
const SEMANTICS_AT: usize = 80;
/// The semantics of the kept folders of format 4.
const FORMAT_4: u32 = 3;

const SCHEMA: &str = "
CREATE TABLE accounts (id INT PRIMARY KEY, amount INT NOT NULL, note TEXT);
CREATE INDEX by_amount ON accounts (amount);
CREATE TABLE sums (id INT PRIMARY KEY, n INT NOT NULL, total BIGINT NOT NULL);
INSERT INTO sums VALUES (1, 0, 0);
CREATE PROCEDURE book(p_id INT, p_amount INT) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE accounts SET amount = amount + p_amount WHERE id = p_id % 5;
    IF NOT FOUND THEN INSERT INTO accounts VALUES (p_id % 5, p_amount, 'account'); END IF;
    IF p_id % 7 = 6 THEN DELETE FROM accounts WHERE id = p_id % 3; END IF;
    UPDATE sums SET n = n + 1, total = total + p_amount WHERE id = 1;
END $$;
";

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn archive(files: &Files) -> String {
    let mut text = String::new();
    let is_kept =
        |path: &Path| path.extension().is_none_or(|e| e != "tmp" && e != "lock") && !path.ends_with("lock");
    for (path, bytes) in files.iter().filter(|(path, _)| is_kept(path)) {
        let name = path.strip_prefix(FOLDER).unwrap().display();
        writeln!(text, "file {} {name}", bytes.len()).unwrap();
        for (place, chunk) in bytes.chunks(CHUNK).enumerate() {
            if chunk.iter().any(|byte| *byte != 0) {
                let digits: String = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
                writeln!(text, "{} {digits}", place * CHUNK).unwrap();
            }
        }
    }
    text
}

fn extract(text: &str) -> Files {
    let mut files = Files::new();
    let mut path = PathBuf::new();
    for line in text.lines() {
        if let Some(file) = line.strip_prefix("file ") {
            let (length, name) = file.split_once(' ').unwrap();
            path = Path::new(FOLDER).join(name);
            files.insert(path.clone(), vec![0; length.parse().unwrap()]);
            continue;
        }
        let (offset, digits) = line.split_once(' ').unwrap();
        let offset: usize = offset.parse().unwrap();
        let bytes = files.get_mut(&path).unwrap();
        for place in 0..digits.len() / 2 {
            bytes[offset + place] = u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).unwrap();
        }
    }
    files
}

fn config(disk: Arc<dyn Disk>, content: Content, sequencing: Sequencing) -> Config {
    let mut config = on(disk);
    (config.content, config.sequencing) = (content, sequencing);
    config.log_devices = Some(vec!["log0".into(), "log1".into()]);
    config
}

/// Does in an empty folder what the folders hold; leaves it as a kill does, or closes it.
fn make(content: Content, sequencing: Sequencing, closes: bool) -> (Files, Digest) {
    let disk = CrashingDisk::default();
    let mut made = None;
    for incarnation in 0..2 {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let db = Database::open(FOLDER, config(shared, content, sequencing)).unwrap();
        let mut sessions = [db.session().unwrap(), db.session().unwrap()];
        if incarnation == 0 {
            sessions[0].execute_script(SCHEMA).unwrap();
        }
        for call in 0..10 {
            let id = incarnation * 10 + call;
            let session = &mut sessions[call as usize % 2];
            session.log_by_value(id % 3 == 1);
            session.call_durably("book", params![id, id * 7]).unwrap();
            if id == 4 {
                db.checkpoint().unwrap();
            }
        }
        let digest = db.digest().unwrap();
        made = Some((disk.contents(), digest.clone()));
        drop(sessions);
        if closes {
            db.close().unwrap();
            made = Some((disk.contents(), digest));
        }
    }
    made.unwrap()
}

/// What is logged in a folder, as its name says.
fn kind_of(name: &str) -> (Content, Sequencing) {
    match name.rsplit_once('-').unwrap().1 {
        "ssn" => (Content::Logical, Sequencing::Ssn),
        "gsn" => (Content::Command, Sequencing::Gsn),
        content => (content.parse().unwrap(), Sequencing::Epoch),
    }
}

#[test]
fn folders_of_every_format_open() {
    if std::env::var_os("REPRISE_GOLDEN").is_some() {
        // `physical` has parts of version 10.
        for name in ["command", "logical", "slots-physical", "physiological", "ssn", "gsn"] {
            let name = format!("format-4-{name}");
            let (content, sequencing) = kind_of(&name);
            let text = archive(&make(content, sequencing, false).0);
            std::fs::write(golden().join(format!("{name}.txt")), text).unwrap();
        }
    }
    let expected = make(Content::Command, Sequencing::Epoch, false).1;
    let mut formats = [0; 5];
    for file in std::fs::read_dir(golden()).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let files = extract(&std::fs::read_to_string(&path).unwrap());
        let logs = files.iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "rlog"));
        let version = logs.map(|(_, bytes)| bytes[8]).max().unwrap();
        assert!(name.starts_with(&format!("format-{version}-")), "{name} has version {version}");
        formats[usize::from(version)] += 1;
        // Its calls do under these semantics what they did when it was written.
        let files = if version < 4 { files } else { with_semantics(files, FORMAT_4, SEMANTICS) };
        let (content, sequencing) = kind_of(&name);
        for on_demand in [false, true] {
            let disk = CrashingDisk::holding(files.clone());
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            // The second time the folder is one of the newest format.
            for opening in 0..2 {
                let mut config = config(Arc::clone(&shared), content, sequencing);
                config.on_demand = on_demand;
                let db = Database::open(FOLDER, config).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(db.digest().unwrap(), expected, "{name}");
                assert!(opening > 0 || db.recovery_report().transactions > 0, "{name}: the log is replayed");
            }
            let adopted = disk.contents();
            let pepoch = String::from_utf8(adopted[&Path::new(FOLDER).join("pepoch")].clone()).unwrap();
            assert!(pepoch.starts_with("reprise pepoch 3\ndatabase "), "{name}: {pepoch}");
        }
    }
    assert!(formats[1..].iter().all(|count| *count > 0), "a folder of each format: {formats:?}");
}

/// Calls whose records have results: of a scan, of a branch, of an operation that writes, and of rounds of a
/// loop, of which some end early.
const RECORDED: &str = "
CREATE TABLE queue (shop INT, number INT, buyer INT NOT NULL, PRIMARY KEY (shop, number));
INSERT INTO queue SELECT n % 3, n, n % 7 FROM generate_series(0, 59) AS n;
CREATE TABLE shops (shop INT PRIMARY KEY, buyer INT NOT NULL);
INSERT INTO shops VALUES (0, 1), (1, 2), (2, 3);
CREATE TABLE buyers (shop INT, id INT, paid INT NOT NULL, PRIMARY KEY (shop, id));
INSERT INTO buyers SELECT n % 3, n / 3, 0 FROM generate_series(0, 29) AS n;
CREATE PROCEDURE serve(but INT, known INT) LANGUAGE plpgsql AS $$
DECLARE first INT; own INT; chosen INT; BEGIN
    FOR at IN 0..2 LOOP
        CONTINUE WHEN at = but;
        SELECT number INTO first FROM queue WHERE shop = at ORDER BY number LIMIT 1;
        DELETE FROM queue WHERE shop = at AND number = first;
        UPDATE shops SET buyer = (buyer * 3 + 1) % 10 WHERE shop = at RETURNING buyer INTO own;
        UPDATE buyers SET paid = (paid * 3 + own) % 1000 WHERE shop = at AND id = own;
    END LOOP;
    IF known IS NULL THEN
        SELECT buyer INTO chosen FROM shops WHERE shop = 1;
    ELSE
        chosen := known;
    END IF;
    UPDATE buyers SET paid = (paid * 5 + 1) % 1000 WHERE shop = 1 AND id = chosen;
END $$;
";

/// Folders whose calls follow `Witnessed::Keys` and `Witnessed::Rounds`. The last one is made again by
/// `REPRISE_GOLDEN=1`, as those of format 4.
#[test]
fn recorded_results_are_read_as_they_were_written() {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden-witnesses");
    let open = |disk: &CrashingDisk, on_demand: bool| {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut config = config(shared, Content::Command, Sequencing::Epoch);
        (config.on_demand, config.drain_threads) = (on_demand, 1);
        Database::open(FOLDER, config).unwrap()
    };
    let disk = CrashingDisk::default();
    let db = open(&disk, false);
    let mut session = db.session().unwrap();
    session.execute_script(RECORDED).unwrap();
    for call in 0..12 {
        let known = (call % 2 == 0).then_some(call % 10);
        session.call_durably("serve", params![call % 5 - 1, known]).unwrap();
    }
    let digest = db.digest().unwrap();
    if std::env::var_os("REPRISE_GOLDEN").is_some() {
        std::fs::write(folders.join("rounds.txt"), archive(&disk.contents())).unwrap();
    }
    for (name, on_demand) in ["keys", "rounds"].into_iter().flat_map(|name| [(name, false), (name, true)]) {
        let text = std::fs::read_to_string(folders.join(name).with_extension("txt")).unwrap();
        // Its calls do under these semantics what they did when it was written.
        let files = with_semantics(extract(&text), FORMAT_4, SEMANTICS);
        let db = open(&CrashingDisk::holding(files), on_demand);
        assert!(db.recovery_report().transactions >= 12, "the log is replayed");
        assert_eq!(db.digest().unwrap(), digest, "{name}, on demand: {on_demand}");
    }
}

/// Changes the semantics that log files name.
fn with_semantics(mut files: Files, written: u32, semantics: u32) -> Files {
    for (_, bytes) in files.iter_mut().filter(|(path, _)| path.extension().is_some_and(|e| e == "rlog")) {
        let known = &mut bytes[SEMANTICS_AT..SEMANTICS_AT + 4];
        assert_eq!(known, written.to_le_bytes());
        known.copy_from_slice(&semantics.to_le_bytes());
        // Neither salt nor number: it is the first sector of a header.
        let seed = crc32c::crc32c(&0u64.to_le_bytes());
        let checksum = crc32c::crc32c_append(seed, &bytes[..SECTOR - 4]);
        bytes[SECTOR - 4..SECTOR].copy_from_slice(&checksum.to_le_bytes());
    }
    files
}

#[test]
fn a_log_of_other_semantics_is_not_replayed() {
    for (content, sequencing) in [
        (Content::Command, Sequencing::Epoch),
        (Content::Command, Sequencing::Gsn),
        (Content::Logical, Sequencing::Ssn),
        (Content::Physiological, Sequencing::Epoch),
    ] {
        let what = format!("{content}, {sequencing}");
        let open = |files: Files| {
            let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::holding(files));
            Database::open(FOLDER, config(Arc::clone(&disk), content, sequencing)).map(|db| (db, disk))
        };
        let (killed, _) = make(content, sequencing, false);
        let error =
            open(with_semantics(killed, SEMANTICS, SEMANTICS + 1)).map(|(db, _)| db).expect_err(&what);
        assert!(error.to_string().contains("must be replayed under semantics"), "{what}: {error}");
        assert!(error.to_string().contains(".rlog"), "{what}: {error}");
        assert!(error.hint().unwrap().contains("stop it cleanly"), "{what}: {error}");
        assert!(!error.can_be_accepted(), "{what}");
        let (closed, digest) = make(content, sequencing, true);
        let (db, disk) = open(with_semantics(closed, SEMANTICS, SEMANTICS + 1))
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(db.digest().unwrap(), digest, "{what}");
        db.session().unwrap().call_durably("book", params![30, 1]).unwrap();
        let digest = db.digest().unwrap();
        drop(db);
        let db = Database::open(FOLDER, config(disk, content, sequencing)).unwrap();
        assert_eq!(db.digest().unwrap(), digest, "{what}: opened again");
    }
}
