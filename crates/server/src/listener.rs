//! Listeners for clients: at an address, or at a Unix domain socket, whose name is that of PostgreSQL's, so
//! that `psql -h FOLDER` finds it.
//!
//! After a crash: a socket file on which no process listens is left behind; the next server replaces it.
//! Held by: `sockets` in `crates/server/tests/suite`.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Accepts the connections of clients.
#[derive(Debug)]
#[non_exhaustive]
pub enum Listener {
    /// At an address.
    Tcp(TcpListener),
    /// At a Unix domain socket.
    Unix(UnixListener),
}

/// A connection that is not authenticated yet.
pub(crate) enum Connection {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

/// The ends of a connection.
#[derive(Default)]
pub(crate) struct Peer {
    /// A copy of the descriptor; `None` if the system has no free one.
    pub(crate) descriptor: Option<OwnedFd>,
    /// The client's address; `None` at a Unix domain socket.
    pub(crate) client: Option<SocketAddr>,
    /// The address at which the client has connected.
    pub(crate) server: Option<SocketAddr>,
}

/// The file of a Unix domain socket, which is removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl Listener {
    /// Listens on the socket `.s.PGSQL.PORT` in a folder, to which every user of this machine may connect who
    /// may enter the folder. Runs in a runtime.
    ///
    /// # Errors
    /// `AddrInUse`: another server listens there, or the file is no socket. The errors of the system: the
    /// folder does not exist, or its path is too long for a socket.
    pub fn on_socket(folder: &Path, port: u16) -> io::Result<(Self, SocketFile)> {
        let path = folder.join(format!(".s.PGSQL.{port}"));
        if is_stale(&path) {
            std::fs::remove_file(&path)?;
        }
        let listener = UnixListener::bind(&path)?;
        let file = SocketFile(path);
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o777))?;
        Ok((Self::Unix(listener), file))
    }

    pub(crate) async fn accept(&self) -> io::Result<Connection> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, client) = listener.accept().await?;
                Connection::Tcp(stream, client)
            }
            Self::Unix(listener) => Connection::Unix(listener.accept().await?.0),
        })
    }
}

/// Returns whether a path is a socket on which no process listens.
fn is_stale(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let connected = std::os::unix::net::UnixStream::connect(path);
    is_socket && connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

impl Connection {
    /// Returns the name of the client, for messages.
    pub(crate) fn client(&self) -> String {
        match self {
            Self::Tcp(_, client) => client.to_string(),
            Self::Unix(_) => "a client of the socket".into(),
        }
    }

    pub(crate) fn is_of_this_machine(&self) -> bool {
        match self {
            Self::Tcp(_, client) => client.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    pub(crate) fn peer(&self) -> Peer {
        let (descriptor, client, server) = match self {
            Self::Tcp(stream, client) => (stream.as_fd(), Some(*client), stream.local_addr().ok()),
            Self::Unix(stream) => (stream.as_fd(), None, None),
        };
        Peer { descriptor: descriptor.try_clone_to_owned().ok(), client, server }
    }
}

impl SocketFile {
    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that stays is stale, and the next server replaces it.
        let _ = std::fs::remove_file(&self.0);
    }
}
