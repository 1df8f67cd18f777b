//! What can happen to the files of a folder beside a crash: one or several are gone, older, cut, or another
//! one's.

use super::folders::{Files, Moment, Shape, device_folder};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const SECTOR: usize = 512;
/// Batches begin at multiples of this.
const BATCH: usize = 4096;

/// A folder with altered files.
pub struct Altered {
    pub what: String,
    pub files: Files,
    /// Whether a device is gone, or another one is in its place.
    pub is_wrong_device: bool,
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rlog")
}

/// Whether two files are of one kind, so that one may be taken for the other.
fn are_alike(one: &Path, other: &Path) -> bool {
    let is_part = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with("part-");
    let is_marker = |path: &Path| path.ends_with("reprise-device");
    one != other
        && (is_log(one) && is_log(other)
            || is_part(one) && is_part(other)
            || is_marker(one) && is_marker(other))
}

/// All alterations of the last of some moments. `other` is the same moment of another database.
pub fn all(shape: &Shape, history: &[Moment], other: &Files) -> Vec<Altered> {
    let files = &history.last().unwrap().files;
    let mut altered = Vec::new();
    for path in files.keys().filter(|path| !path.ends_with("lock") && !path.ends_with("reprise-device.lock"))
    {
        of_file(files, path, &mut altered);
        replacements(history, other, path, &mut altered);
    }
    of_devices(shape, history, other, &mut altered);
    of_checkpoints(history, other, &mut altered);
    altered.retain(|altered| altered.files != *files);
    altered
}

/// A file is gone, zeroed, or cut at any batch.
fn of_file(files: &Files, path: &Path, altered: &mut Vec<Altered>) {
    let mut add = |what: &str, change: &dyn Fn(&mut Files)| {
        let mut files = files.clone();
        change(&mut files);
        let what = format!("{} {what}", path.display());
        altered.push(Altered { what, files, is_wrong_device: false });
    };
    add("deleted", &|files| drop(files.remove(path)));
    add("zeroed", &|files| files.get_mut(path).unwrap().fill(0));
    let length = files[path].len();
    if !is_log(path) {
        add("halved", &|files| files.get_mut(path).unwrap().truncate(length / 2));
        return;
    }
    for at in (0..length).step_by(BATCH).chain([SECTOR, BATCH + SECTOR]) {
        add(&format!("truncated at {at}"), &|files| files.get_mut(path).unwrap().truncate(at));
        add(&format!("zeroed from {at}"), &|files| files.get_mut(path).unwrap()[at..].fill(0));
    }
}

/// A file is replaced by an earlier state of itself, by another one of its kind, or by one of another
/// database.
fn replacements(history: &[Moment], other: &Files, path: &Path, altered: &mut Vec<Altered>) {
    let files = &history.last().unwrap().files;
    let mut seen = BTreeSet::from([&files[path]]);
    let mut add = |what: String, bytes: &'_ Vec<u8>| {
        let mut files = files.clone();
        files.insert(path.into(), bytes.clone());
        let what = format!("{} replaced by {what}", path.display());
        altered.push(Altered { what, files, is_wrong_device: false });
    };
    for (step, moment) in history.iter().enumerate() {
        if let Some(bytes) = moment.files.get(path).filter(|bytes| seen.insert(bytes)) {
            add(format!("itself after step {step}"), bytes);
        }
    }
    for (neighbour, bytes) in files.iter().filter(|(neighbour, _)| are_alike(path, neighbour)) {
        add(neighbour.display().to_string(), bytes);
    }
    if let Some(bytes) = other.get(path) {
        add("another database's".into(), bytes);
    }
}

/// Replaces a folder in `files` by the folder `source` of `from`.
fn put_folder(files: &mut Files, folder: &Path, from: &Files, source: &Path) {
    files.retain(|path, _| !path.starts_with(folder));
    for (path, bytes) in from.iter().filter(|(path, _)| path.starts_with(source)) {
        files.insert(folder.join(path.strip_prefix(source).unwrap()), bytes.clone());
    }
}

/// A whole device is gone, restored, taken for another one, or another database's.
fn of_devices(shape: &Shape, history: &[Moment], other: &Files, altered: &mut Vec<Altered>) {
    let files = &history.last().unwrap().files;
    let mut add = |what: String, is_wrong_device: bool, change: &dyn Fn(&mut Files)| {
        let mut files = files.clone();
        change(&mut files);
        altered.push(Altered { what, files, is_wrong_device });
    };
    for number in 0..shape.devices {
        let folder = device_folder(number);
        let name = folder.display();
        add(format!("{name} emptied"), true, &|files| files.retain(|path, _| !path.starts_with(&folder)));
        add(format!("{name} of another database"), true, &|files| put_folder(files, &folder, other, &folder));
        for (step, moment) in history.iter().enumerate() {
            let what = format!("{name} as it was after step {step}");
            add(what, false, &|files| put_folder(files, &folder, &moment.files, &folder));
        }
        for neighbour in (0..shape.devices).filter(|own| *own != number).map(device_folder) {
            let what = format!("{} copied over {name}", neighbour.display());
            add(what, true, &|altered| put_folder(altered, &folder, files, &neighbour));
        }
    }
    if shape.devices == 2 {
        add("devices swapped".into(), true, &|altered| {
            put_folder(altered, &device_folder(0), files, &device_folder(1));
            put_folder(altered, &device_folder(1), files, &device_folder(0));
        });
    }
}

/// A whole checkpoint, manifest and parts, is gone, or restored, or another database's.
fn of_checkpoints(history: &[Moment], other: &Files, altered: &mut Vec<Altered>) {
    let files = &history.last().unwrap().files;
    let belongs = |path: &PathBuf| path.to_string_lossy().contains("/checkpoint");
    if !files.keys().any(belongs) {
        return;
    }
    let empty = Files::new();
    let earlier = history.iter().enumerate();
    let earlier = earlier.map(|(step, moment)| (format!("the checkpoint after step {step}"), &moment.files));
    let sources =
        [("no checkpoint".to_owned(), &empty), ("the checkpoint of another database".into(), other)];
    for (what, source) in sources.into_iter().chain(earlier) {
        let mut files = files.clone();
        files.retain(|path, _| !belongs(path));
        files.extend(
            source.iter().filter(|(path, _)| belongs(path)).map(|(path, own)| (path.clone(), own.clone())),
        );
        altered.push(Altered { what, files, is_wrong_device: false });
    }
}

/// Whether the altered files cannot be told from what a crash leaves: at most the newest log files of the
/// newest incarnation end earlier, with a whole batch.
pub fn is_like_a_torn_tail(files: &Files, altered: &Files) -> bool {
    let newest = |path: &Path| {
        let key = |path: &Path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let logger = name.split_once("-w").map(|(_, logger)| logger.to_owned());
            (path.parent().unwrap().to_path_buf(), logger)
        };
        let incarnation = |path: &Path| path.file_name().unwrap().to_string_lossy()[..12].to_owned();
        let logs = || files.keys().filter(|path| is_log(path));
        let last = logs().map(|path| incarnation(path)).max();
        logs().filter(|other| key(other) == key(path)).max() == Some(&path.to_path_buf())
            && last == Some(incarnation(path))
    };
    let is_cut = |path: &PathBuf, bytes: &Vec<u8>| {
        let Some(altered) = altered.get(path) else { return false };
        let same = bytes.iter().zip(altered).take_while(|(one, other)| one == other).count();
        let at = same / BATCH * BATCH;
        is_log(path)
            && newest(path)
            && altered.len() == bytes.len()
            && at >= BATCH
            && altered[at..].iter().all(|byte| *byte == 0)
    };
    let is_in_use = |path: &PathBuf| path.extension().is_none_or(|extension| extension != "tmp");
    let count = |files: &Files| files.keys().filter(|path| is_in_use(path)).count();
    count(files) == count(altered)
        && files
            .iter()
            .filter(|(path, _)| is_in_use(path))
            .all(|(path, bytes)| altered.get(path) == Some(bytes) || is_cut(path, bytes))
}
