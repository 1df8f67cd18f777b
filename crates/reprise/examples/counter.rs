//! Opens a folder, makes a table and a procedure, calls it, closes, opens again, and reads.
//!
//! `cargo run --release -p reprise --example counter`

use reprise::{Config, Database, Error, params};

const DEFINITIONS: &str = "
CREATE TABLE accounts (
    id      INTEGER PRIMARY KEY,
    balance NUMERIC(12,2) NOT NULL CHECK (balance >= 0)
);
INSERT INTO accounts VALUES (1, 100.00), (2, 0);

CREATE PROCEDURE transfer(p_from INTEGER, p_to INTEGER, p_amount NUMERIC, OUT o_left NUMERIC)
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE accounts SET balance = balance - p_amount WHERE id = p_from RETURNING balance INTO o_left;
    UPDATE accounts SET balance = balance + p_amount WHERE id = p_to;
END $$;

CREATE PROCEDURE balance_of(p_id INTEGER, OUT o_balance NUMERIC) LANGUAGE plpgsql AS $$
BEGIN
    SELECT balance INTO o_balance FROM accounts WHERE id = p_id;
END $$;
";

fn main() -> Result<(), Error> {
    let folder = std::env::temp_dir().join(format!("reprise-example-{}", std::process::id()));
    {
        let db = Database::open(&folder, Config::default())?;
        let mut session = db.session()?;
        session.execute_script(DEFINITIONS)?;
        let done = session.call("transfer", params![1, 2, "30.50"])?; // executed now
        done.commit.wait()?; // durable now
        println!("left on account 1: {}", done.rows[0][0]);
        match session.call("transfer", params![1, 2, "1000"]) {
            Err(error) => println!("refused: {error}"),
            Ok(done) => println!("left on account 1: {}", done.rows[0][0]),
        }
    } // closed

    let db = Database::open(&folder, Config::default())?; // recovers, then returns
    println!("{}", db.recovery_report());
    let mut session = db.session()?;
    let balance_of = session.prepare("CALL balance_of($1, NULL)")?;
    for account in [1, 2] {
        let done = session.execute(&balance_of, params![account])?;
        println!("account {account} has {}", done.rows[0][0]);
    }
    let _ = std::fs::remove_dir_all(&folder);
    Ok(())
}
