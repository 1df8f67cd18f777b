//! Whatever happens to the files of a folder, what is opened is all that was acknowledged, or nothing: each file and each
//! device deleted, zeroed, cut, restored to each earlier state, taken for another one, or replaced by another database's.
//!
//! One alteration cannot be told from what a crash leaves, and is the exception that is asserted here: after a kill, the
//! newest batches of a logger that nothing else names may be zeroed (docs/recovery.md).

mod alterations;
mod folders;

use folders::{Moment, Shape};
use reprise::disk::{CrashingDisk, Disk};
use reprise::{Database, Digest, Sequencing};
use std::sync::Arc;

/// What an altered folder opens to.
fn open(shape: &Shape, files: &folders::Files) -> Result<Digest, String> {
    let disk: Arc<dyn Disk> = Arc::new(CrashingDisk::holding(files.clone()));
    let db = Database::open(folders::FOLDER, shape.config(&disk)).map_err(|error| error.to_string())?;
    Ok(db.digest().unwrap())
}

/// Alters the files of a folder in all ways; returns how many alterations there were, and how many of them no one can tell
/// from a crash.
fn check(shape: Shape) -> (usize, usize) {
    let history = shape.make(0);
    let other = shape.make(5).pop().unwrap().files;
    let Moment { files, digest } = history.last().unwrap();
    assert_eq!(open(&shape, files).as_ref(), Ok(digest), "{shape:?}: unaltered");
    let (mut silent, mut excepted) = (Vec::new(), 0);
    let all = alterations::all(&shape, &history, &other);
    for altered in &all {
        match open(&shape, &altered.files) {
            Err(error) if error.contains(folders::FOLDER) => {}
            Err(error) => silent.push(format!("{}: the error names no file: {error}", altered.what)),
            Ok(found) if found == *digest => {}
            Ok(found) => {
                let is_a_prefix = history.iter().any(|moment| moment.digest == found);
                let is_like_a_crash = alterations::is_like_a_torn_tail(files, &altered.files);
                if is_like_a_crash && !shape.is_closed {
                    excepted += 1;
                } else {
                    let state = if is_a_prefix { "an earlier state" } else { "a state that never was" };
                    silent.push(format!("{}: {state}", altered.what));
                }
            }
        }
    }
    assert!(
        silent.is_empty(),
        "{shape:?}: {} of {} alterations are accepted in silence:\n{}",
        silent.len(),
        all.len(),
        silent.join("\n")
    );
    (all.len(), excepted)
}

fn shapes(sequencing: Sequencing) -> impl Iterator<Item = Shape> {
    let devices = [1, 2].into_iter().filter(move |devices| sequencing.admits_devices(*devices).is_ok());
    devices.flat_map(move |devices| {
        (1..=3).flat_map(move |incarnations| {
            [(false, false), (false, true), (true, false), (true, true)].map(|(has_checkpoints, is_closed)| {
                Shape { devices, incarnations, has_checkpoints, sequencing, is_closed }
            })
        })
    })
}

fn check_all(sequencing: Sequencing, is_chosen: impl Fn(&Shape) -> bool) {
    let every = std::env::var_os("REPRISE_ALTERATIONS").is_some();
    let (mut count, mut excepted) = (0, 0);
    for shape in shapes(sequencing).filter(|shape| every || is_chosen(shape)) {
        let (altered, like_a_crash) = check(shape);
        count += altered;
        excepted += like_a_crash;
    }
    assert!(count > 100, "{count} alterations");
    assert!(excepted > 0, "the exception is one");
}

#[test]
fn altered_files_of_epochs_are_refused() {
    check_all(Sequencing::Epoch, |_| true);
}

#[test]
fn altered_files_of_one_order_are_refused() {
    check_all(Sequencing::Serial, |shape| shape.incarnations == 2);
}

#[test]
fn altered_files_of_ssn_are_refused() {
    check_all(Sequencing::Ssn, |shape| shape.incarnations == 2 && shape.devices == 2);
}

#[test]
fn altered_files_of_gsn_are_refused() {
    check_all(Sequencing::Gsn, |shape| shape.incarnations == 2 && shape.devices == 2);
}
