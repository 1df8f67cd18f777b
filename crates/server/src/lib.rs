//! The server: any PostgreSQL client talks to it.
//!
//! Not here: what statements do (`reprise`), the protocol's messages (pgwire).

mod client;
mod handlers;
mod pool;
mod settings;
mod wire;

use handlers::Connection;
use pool::Pool;
use reprise::Database;
use std::io;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Answers clients on a listener until the future is dropped.
///
/// # Errors
/// The listener fails.
pub async fn serve(database: Database, listener: TcpListener) -> io::Result<()> {
    let pool = Arc::new(Pool::new(database));
    loop {
        let (socket, _) = listener.accept().await?;
        let connection = Connection::new(Arc::clone(&pool));
        tokio::spawn(async move {
            // A connection that breaks concerns nobody else: its transaction is rolled back as it goes.
            let _ = pgwire::tokio::process_socket(socket, None, connection).await;
        });
    }
}
