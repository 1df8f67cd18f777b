//! Tasks that share one thread: each calls a procedure and awaits its commit. No thread is blocked, and one
//! write of the log makes the calls of many tasks durable.
//!
//! `cargo run --release -p reprise --example async_counter`

use reprise::{Config, Database, Error, params};
use std::time::Instant;

const DEFINITIONS: &str = "
CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
INSERT INTO counters VALUES ('visits', 0);

CREATE PROCEDURE visit(OUT total BIGINT) LANGUAGE plpgsql AS $$
BEGIN
    UPDATE counters SET value = value + 1 WHERE name = 'visits' RETURNING value INTO total;
END $$;
";

const TASKS: i64 = 8;
const CALLS: i64 = 250;

/// Counts visits, each of which is durable before the next one.
async fn visits(db: Database) -> Result<i64, Error> {
    let mut session = db.session()?;
    let visit = session.prepare("CALL visit(NULL)")?;
    let mut last = 0;
    for _ in 0..CALLS {
        let done = session.execute(&visit, params![])?;
        done.commit.await?;
        last = done.rows[0][0].to_string().parse().unwrap_or(last);
    }
    Ok(last)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let folder = std::env::temp_dir().join(format!("reprise-async-example-{}", std::process::id()));
    let db = Database::open(&folder, Config::default())?;
    db.session()?.execute_script(DEFINITIONS)?;
    let begun = Instant::now();
    let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(visits(db.clone()))).collect();
    let mut greatest = 0;
    for task in tasks {
        greatest = greatest.max(task.await.expect("a task does not panic")?);
    }
    assert_eq!(greatest, TASKS * CALLS);
    println!("{greatest} durable visits in {:.2} s", begun.elapsed().as_secs_f64());
    drop(db);
    let _ = std::fs::remove_dir_all(&folder);
    Ok(())
}
