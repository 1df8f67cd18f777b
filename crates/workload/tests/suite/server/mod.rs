//! A PostgreSQL server of a test's own: a cluster in a temporary folder that listens on a socket there.

use postgres::{Client as Postgres, NoTls};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// A PostgreSQL of one's own.
pub(crate) struct Server {
    programs: PathBuf,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts one; `None` where no PostgreSQL is installed.
    pub(crate) fn start() -> Option<Self> {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let programs = versions.filter_map(|v| Some(v.ok()?.path().join("bin"))).max()?;
        let folder = tempfile::tempdir().unwrap();
        let server = Self { programs, folder };
        if server.is_root() {
            // PostgreSQL refuses to run as root; its package made a user for it.
            assert!(
                Command::new("chown").arg("postgres").arg(server.folder.path()).status().unwrap().success()
            );
        }
        std::fs::set_permissions(server.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let data = server.folder.path().join("data");
        server.run("initdb", &format!("-D {} --locale=C -E UTF8 -A trust -U reprise", data.display()));
        let options = format!(
            "-c listen_addresses= -c unix_socket_directories={} -c fsync=off -c timezone=UTC",
            server.folder.path().display()
        );
        let log = server.folder.path().join("log");
        server.run("pg_ctl", &format!("-D {} -l {} -w -o '{options}' start", data.display(), log.display()));
        Some(server)
    }

    fn is_root(&self) -> bool {
        Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
    }

    fn run(&self, program: &str, arguments: &str) {
        let line = format!("{}/{program} {arguments}", self.programs.display());
        let mut command = if self.is_root() {
            let mut command = Command::new("su");
            command.args(["postgres", "-s", "/bin/sh", "-c", &line]);
            command
        } else {
            let mut command = Command::new("sh");
            command.args(["-c", &line]);
            command
        };
        let output =
            command.current_dir("/").stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        assert!(output.status().unwrap().success(), "{line}");
    }

    /// What a client connects with.
    pub(crate) fn address(&self) -> String {
        format!("host={} user=reprise dbname=postgres", self.folder.path().display())
    }

    pub(crate) fn connect(&self) -> Postgres {
        Postgres::connect(&self.address(), NoTls).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let data = self.folder.path().join("data");
        self.run("pg_ctl", &format!("-D {} -m immediate stop", data.display()));
    }
}
