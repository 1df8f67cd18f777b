//! Whatever happens to the files of a folder, what is opened is all that was acknowledged, or nothing: each
//! file and each device deleted, zeroed, cut, restored to each earlier state, taken for another one, or
//! replaced by another database's.
//!
//! Every shape of folder is tried with REPRISE_ALTERATIONS set; a choice of them otherwise.
//!
//! One alteration cannot be told from what a crash leaves, and is the exception that is asserted here: after
//! a kill, the newest batches of a logger that nothing else names may be zeroed (docs/recovery.md).

mod alterations;
mod folders;

use crate::common::on;
use alterations::Altered;
use folders::{History, Moment, Shape};
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Content, Database, Digest, Error, Sequencing};
use std::path::PathBuf;
use std::sync::Arc;

/// How often the folders of a test are made at most.
const MOST_ROUNDS: usize = 8;

/// What a folder on a disk opens to.
fn open_on(shape: &Shape, disk: &CrashingDisk, accept_data_loss: bool) -> Result<Digest, Error> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut config = shape.config(&disk);
    config.accept_data_loss = accept_data_loss;
    let db = Database::open(folders::FOLDER, config)?;
    assert!(accept_data_loss || db.recovery_report().losses.is_empty());
    db.digest()
}

/// What an altered folder opens to.
fn open(shape: &Shape, files: &folders::Files) -> Result<Digest, Error> {
    open_on(shape, &CrashingDisk::holding(files.clone()), false)
}

/// What an altered folder opens to where rows are loaded when they are looked for: that, or the rows that
/// cannot be loaded are an error.
fn open_on_demand(shape: &Shape, files: &folders::Files) -> Result<Digest, Error> {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::holding(files.clone()));
    let mut config = shape.config(&disk);
    (config.on_demand, config.drain_threads) = (true, 0);
    Database::open(folders::FOLDER, config)?.digest()
}

/// Opens a refused folder with what is left. That is a state which was, and the database goes on from it.
fn accept(shape: &Shape, altered: &Altered, digests: &[Digest]) -> Result<(), String> {
    let disk = CrashingDisk::holding(altered.files.clone());
    let found = match open_on(shape, &disk, true) {
        Ok(found) => found,
        Err(error) if error.to_string().contains(folders::FOLDER) => return Ok(()),
        Err(error) => return Err(format!("accepted, but the error names no file: {error}")),
    };
    if !digests.contains(&found) {
        return Err("accepted, but the state never was".into());
    }
    match open_on(shape, &disk, false) {
        Ok(again) if again == found => Ok(()),
        Ok(_) => Err("accepted, but another state the next time".into()),
        Err(error) => Err(format!("accepted, but refused the next time: {error}")),
    }
}

/// Alters the files of a folder in all ways; returns how many alterations there were, and how many of them
/// cannot be told from a crash.
fn check(shape: Shape) -> (usize, usize) {
    let History { moments, digests } = shape.make(0);
    let other = shape.make(5).moments.pop().unwrap().files;
    let Moment { files, digest } = moments.last().unwrap();
    assert_eq!(open(&shape, files).as_ref().ok(), Some(digest), "{shape:?}: unaltered");
    let (mut faults, mut excepted) = (Vec::new(), 0);
    let all = alterations::all(&shape, &moments, &other);
    for altered in &all {
        let fault = match open(&shape, &altered.files) {
            Err(error) if !error.to_string().contains(folders::FOLDER) => {
                Err(format!("the error names no file: {error}"))
            }
            Err(error) if error.hint().is_none() => Err(format!("the error has no remedy: {error}")),
            Err(error) if altered.is_wrong_device && !error.to_string().contains("reprise-device") => {
                Err(format!("the error does not name the device: {error}"))
            }
            Err(error) if error.can_be_accepted() => accept(&shape, altered, &digests),
            Err(_) => Ok(()),
            Ok(found) if found == *digest => Ok(()),
            Ok(found) if !shape.is_closed && alterations::is_like_a_torn_tail(files, &altered.files) => {
                excepted += 1;
                // Under `ssn`, a transaction that counts alone survives without earlier ones of other logs.
                let is_right = shape.sequencing == Sequencing::Ssn || digests.contains(&found);
                if is_right { Ok(()) } else { Err("a torn tail leaves a state that never was".into()) }
            }
            Ok(found) if digests.contains(&found) => Err("accepted in silence: an earlier state".into()),
            Ok(_) => Err("accepted in silence: a state that never was".into()),
        };
        faults.extend(fault.err().map(|fault| format!("{}: {fault}", altered.what)));
        let (loaded, on_demand) = (open(&shape, &altered.files), open_on_demand(&shape, &altered.files));
        let fault = match (loaded, on_demand) {
            (Ok(loaded), Ok(on_demand)) if loaded != on_demand => "another state",
            (Ok(_), Err(_)) => "refused",
            (Err(_), Ok(_)) => "accepted",
            (Err(_), Err(error)) if !error.to_string().contains(folders::FOLDER) => "the error names no file",
            (Err(_), Err(error)) if error.hint().is_none() => "the error has no remedy",
            _ => continue,
        };
        faults.push(format!("{}, on demand: {fault}", altered.what));
    }
    let (count, all) = (faults.len(), all.len());
    assert!(faults.is_empty(), "{shape:?}: {count} of {all} alterations:\n{}", faults.join("\n"));
    (all, excepted)
}

/// Where nothing is logged, only the pepoch file tells which checkpoint is the newest.
#[test]
fn an_older_checkpoint_without_a_log_is_refused() {
    let disk = CrashingDisk::default();
    let open = |disk: &CrashingDisk| {
        let mut config = on(Arc::new(disk.clone()));
        config.content = Content::Off;
        Database::open(folders::FOLDER, config)
    };
    let db = open(&disk).unwrap();
    db.session().unwrap().execute_script("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    db.checkpoint().unwrap();
    let earlier = disk.contents();
    db.session().unwrap().execute_script("INSERT INTO t VALUES (1)").unwrap();
    db.checkpoint().unwrap();
    drop(db);
    let mut files = disk.contents();
    assert!(open(&CrashingDisk::holding(files.clone())).is_ok());
    let belongs = |path: &PathBuf| path.to_string_lossy().contains("/checkpoint");
    files.retain(|path, _| !belongs(path));
    files.extend(earlier.into_iter().filter(|(path, _)| belongs(path)));
    let error =
        open(&CrashingDisk::holding(files)).expect_err("the checkpoint is an earlier one").to_string();
    assert!(error.contains("/db/checkpoint is older than /db/pepoch"), "{error}");
}

fn shapes(sequencing: Sequencing, content: Content) -> impl Iterator<Item = Shape> {
    let devices = [1, 2].into_iter().filter(move |devices| sequencing.admits_devices(*devices).is_ok());
    devices.flat_map(move |devices| {
        (1..=3).flat_map(move |incarnations| {
            [(false, false), (false, true), (true, false), (true, true)].map(
                |(has_checkpoints, is_closed)| Shape {
                    devices,
                    incarnations,
                    has_checkpoints,
                    sequencing,
                    content,
                    is_closed,
                },
            )
        })
    })
}

fn check_all(sequencing: Sequencing, content: Content, is_chosen: impl Fn(&Shape) -> bool) {
    let every = std::env::var_os("REPRISE_ALTERATIONS").is_some();
    // A logger that writes a last empty batch after the other's last record names that record. Whether it
    // does depends on their timing, so folders are made until one of them has the exception.
    let mut excepted = 0;
    for _ in 0..MOST_ROUNDS {
        let mut count = 0;
        for shape in shapes(sequencing, content).filter(|shape| every || is_chosen(shape)) {
            let (altered, like_a_crash) = check(shape);
            count += altered;
            excepted += like_a_crash;
        }
        assert!(count > 100, "{count} alterations");
        if excepted > 0 {
            return;
        }
    }
    panic!("no folder in {MOST_ROUNDS} rounds has the exception");
}

#[test]
fn altered_files_of_epochs_are_refused() {
    check_all(Sequencing::Epoch, Content::Command, |shape| match (shape.incarnations, shape.devices) {
        (1, _) => !shape.is_closed,
        (2, devices) => devices == 2,
        (_, devices) => devices == 2 && shape.has_checkpoints && !shape.is_closed,
    });
}

#[test]
fn altered_files_of_batches_are_refused() {
    for content in [Content::DependencyFine, Content::DependencyCoarse] {
        check_all(Sequencing::Epoch, content, |shape| {
            shape.incarnations == 2 && shape.devices == 2 && shape.has_checkpoints
        });
    }
}

#[test]
fn altered_files_of_one_order_are_refused() {
    check_all(Sequencing::Serial, Content::Command, |shape| shape.incarnations == 2 && shape.has_checkpoints);
}

#[test]
fn altered_files_of_ssn_are_refused() {
    check_all(Sequencing::Ssn, Content::Logical, |shape| {
        shape.incarnations == 2 && shape.devices == 2 && shape.has_checkpoints
    });
}

#[test]
fn altered_files_of_gsn_are_refused() {
    check_all(Sequencing::Gsn, Content::Command, |shape| {
        shape.incarnations == 2 && shape.devices == 2 && shape.has_checkpoints
    });
}
