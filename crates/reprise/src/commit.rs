//! Commits: executed transactions whose durability the caller waits for.

use crate::inner::Inner;
use crate::{Error, Row};
use logging::Commit as CommitPoint;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A session's reference to its database. The commits of a session share it, so that sessions do not contend
/// for one reference count.
pub(crate) struct SessionDatabase(pub(crate) Arc<Inner>);

/// The point of the log that must be durable before an answer is shown. It covers the transaction itself, and
/// the transactions whose writes it has read.
///
/// A thread waits for it by `wait`; a task awaits it without blocking a thread.
///
/// ```
/// # fn main() -> Result<(), reprise::Error> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # let db = reprise::Database::open(folder.path(), reprise::Config::default())?;
/// # let mut session = db.session()?;
/// session.execute_script("CREATE TABLE visits (at BIGINT PRIMARY KEY)")?;
/// let first = session.execute("INSERT INTO visits VALUES (1)", reprise::params![])?.commit;
/// let second = session.execute("INSERT INTO visits VALUES (2)", reprise::params![])?.commit;
/// second.wait()?; // usually, both are in one batch of the log
/// first.wait()?;
/// assert!(first.is_durable());
/// # Ok(()) }
/// ```
///
/// ```
/// # fn main() -> Result<(), reprise::Error> {
/// # let folder = tempfile::tempdir().expect("a temporary folder");
/// # let db = reprise::Database::open(folder.path(), reprise::Config::default())?;
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
/// # runtime.block_on(async {
/// # let mut session = db.session()?;
/// session.execute_script("CREATE TABLE visits (at BIGINT PRIMARY KEY)")?;
/// session.execute("INSERT INTO visits VALUES (1)", reprise::params![])?.commit.await?;
/// # Ok(()) }) }
/// ```
#[must_use = "a transaction counts only once it is durable: wait for its commit"]
#[derive(Clone)]
pub struct Commit {
    database: Arc<SessionDatabase>,
    point: CommitPoint,
}

impl std::fmt::Debug for Commit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Commit").field(&self.point).finish()
    }
}

impl Commit {
    pub(crate) fn new(database: &Arc<SessionDatabase>, point: CommitPoint) -> Self {
        Self { database: Arc::clone(database), point }
    }

    /// Returns the point of the log that must be durable, for `CommitQueue` and `Database::is_durable`.
    #[inline]
    pub fn point(&self) -> CommitPoint {
        self.point
    }

    /// Returns whether the commit is durable.
    pub fn is_durable(&self) -> bool {
        self.database.0.is_durable(self.point)
    }

    /// Waits until the commit is durable. Blocks this thread.
    ///
    /// # Errors
    /// `Error::Log`: the log failed before the commit was durable.
    pub fn wait(&self) -> Result<(), Error> {
        Ok(self.database.0.wait(self.point)?)
    }
}

impl Future for Commit {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.database.0.poll(self.point, context).map_err(Error::from)
    }
}

/// The answer of a statement or call that was executed.
#[derive(Clone, Debug)]
pub struct Executed {
    /// The rows of a query, or of RETURNING; the outputs of a call as one row.
    pub rows: Vec<Row>,
    /// Number of returned or written rows.
    pub affected: u64,
    /// The commit that must be durable before the answer is shown.
    pub commit: Commit,
}
