//! The control socket of a served data folder, by which the program asks the server for a backup.
//!
//! The server listens on the Unix socket `control` in its data folder, which only the folder's owner may
//! connect to. A request is one line of JSON, `{"backup": FOLDER}`; the answer is one line, `{"done": …}` or
//! `{"error": {"message": TEXT, "hint": TEXT}}`.
//! After a crash: a socket file that no process listens on is left behind; the next server replaces it.

use anyhow::{Context, Result, bail};
use reprise::{Backup, Database};
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

const SOCKET: &str = "control";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Request {
    Backup(PathBuf),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Response {
    Done(Report),
    Error(ServerError),
}

/// An error of the server.
#[derive(Serialize, Deserialize, Debug)]
pub struct ServerError {
    message: String,
    /// The remedy.
    pub hint: Option<String>,
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ServerError {}

/// A finished backup, as JSON.
#[derive(Serialize, Deserialize)]
pub struct Report {
    pub folder: PathBuf,
    pub rows: u64,
    pub bytes: u64,
    pub digest: String,
    pub seconds: f64,
}

impl From<&Backup> for Report {
    fn from(backup: &Backup) -> Self {
        Self {
            folder: backup.folder.clone(),
            rows: backup.rows,
            bytes: backup.bytes,
            digest: backup.digest.to_string(),
            seconds: backup.elapsed.as_secs_f64(),
        }
    }
}

/// Listens in a data folder that this process has open, on a thread of its own, until the process ends.
///
/// # Errors
/// The socket cannot be made; the path may be too long for one.
pub fn listen(folder: &Path, database: Database) -> Result<()> {
    let path = folder.join(SOCKET);
    let _ = std::fs::remove_file(&path);
    let in_file = || format!("cannot listen on {}", path.display());
    let listener = UnixListener::bind(&path).with_context(in_file)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).with_context(in_file)?;
    let serve = move || {
        for stream in listener.incoming().flatten() {
            if let Err(error) = answer(&stream, &database) {
                tracing::warn!(%error, "a request on the control socket failed: {error}");
            }
        }
    };
    std::thread::Builder::new().name("control".into()).spawn(serve)?;
    Ok(())
}

fn answer(stream: &UnixStream, database: &Database) -> Result<()> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let Request::Backup(target) = serde_json::from_str(&line).context("the request is malformed")?;
    let response = match database.backup(&target) {
        Ok(backup) => Response::Done(Report::from(&backup)),
        Err(error) => {
            let hint = error.hint().map(str::to_owned);
            Response::Error(ServerError { message: error.to_string(), hint })
        }
    };
    let mut stream = stream;
    writeln!(stream, "{}", serde_json::to_string(&response)?)?;
    Ok(())
}

/// Asks the server that has a data folder open for a backup; `None` when no server listens there.
///
/// # Errors
/// The backup failed; the server has gone.
pub fn request_backup(folder: &Path, target: &Path) -> Result<Option<Report>> {
    let Ok(stream) = UnixStream::connect(folder.join(SOCKET)) else { return Ok(None) };
    let request = Request::Backup(std::path::absolute(target)?);
    let mut writer = &stream;
    writeln!(writer, "{}", serde_json::to_string(&request)?)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    if line.is_empty() {
        bail!("the server that has {} open ended before the backup was complete", folder.display());
    }
    match serde_json::from_str(&line)? {
        Response::Done(report) => Ok(Some(report)),
        Response::Error(error) => Err(error.into()),
    }
}
