//! One run, logged as every content at once: what each log takes, and how fast each method brings it back.
//!
//! `cargo run --release -p reprise --example compare_logs -- 200000` calls a procedure of one insert
//! this many times.
//! Paper: command logging §V-C (bytes of a record, replay rates of a transaction of one insert).

use recovery::{RecoveryConfig, recover};
use reprise::{Config, Content, Database, Method, Progress, params};
use std::error::Error;

const SCHEMA: &str = "
CREATE TABLE votes (phone BIGINT PRIMARY KEY, state TEXT NOT NULL, contestant INT NOT NULL,
    at BIGINT NOT NULL);
CREATE PROCEDURE vote(p_phone BIGINT, p_state TEXT, p_contestant INT) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO votes VALUES (p_phone, p_state, p_contestant, p_phone % 86400);
END $$;
";

fn main() -> Result<(), Box<dyn Error>> {
    let calls: i64 = std::env::args().nth(1).map_or(Ok(20_000), |calls| calls.parse())?;
    let folder = tempfile::tempdir()?;
    let mut config = Config::default();
    config.shadow_logs = vec![Content::Logical, Content::Physical, Content::Physiological];
    let db = Database::open(folder.path(), config)?;
    let mut session = db.session()?;
    session.execute_script(SCHEMA)?;
    let mut last = None;
    for call in 0..calls {
        let phone = 2_000_000_000 + call * 7_919 % 1_000_000_007;
        last = Some(session.call("vote", params![phone, "MA", (call % 6) as i32])?);
    }
    last.map_or(Ok(()), |done| done.commit.wait())?;
    let live = db.digest()?;
    let logs = db.log_statistics();
    drop((session, db));
    for (content, statistics) in logs {
        let log = if content == Content::Command {
            folder.path().to_path_buf()
        } else {
            folder.path().join(format!("shadow-{content}"))
        };
        let bytes = statistics.record_bytes as f64 / calls as f64;
        for method in Method::of(content) {
            let settings = RecoveryConfig { method: *method, ..RecoveryConfig::default() };
            let recovered = recover(&Config::default().disk, &log, &settings, &Progress::default())?;
            let digest = recovered.tables.digest().ok_or("all worker slots are taken")?;
            let same = if digest == live { "the same state" } else { "ANOTHER STATE" };
            let rate = recovered.report.replay_tps();
            println!("{content}: {bytes:.1} bytes a transaction, {method} {rate:.0} a second, {same}");
        }
    }
    Ok(())
}
