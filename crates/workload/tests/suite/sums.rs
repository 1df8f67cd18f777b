//! Smallbank under every concurrency control, by two threads: the balances add up to what the committed calls
//! have told, after the run and after a recovery.

use reprise::{Config, Database, Error, Scheme, Session, Value};
use workload::{Request, Workload, by_name};

const SESSIONS: usize = 2;
const CALLS: usize = 4_000;
/// Calls of a session that have begun and not ended.
const UNDER_WAY: usize = 50;

fn sum(db: &Database, workload: &dyn Workload) -> i64 {
    let request = workload.sum().unwrap();
    let done = db.session().unwrap().call(request.procedure, &request.arguments).unwrap();
    match done.rows[0][0] {
        Value::Int(sum) => sum,
        ref other => panic!("{other} is no sum"),
    }
}

fn check_conditions(session: &mut Session, workload: &dyn Workload) {
    for condition in workload.conditions() {
        let done = session.call(condition.procedure, &condition.arguments).unwrap();
        assert_eq!(done.rows[0][0], Value::Int(0), "{condition:?}");
    }
}

/// Runs the calls of one session, which become durable; returns what they add.
fn run(db: &Database, workload: &dyn Workload, number: usize) -> i64 {
    let mut session = db.session().unwrap();
    let mut client = workload.client(number, SESSIONS, 7);
    let (mut added, mut last) = (0, None);
    for _ in 0..CALLS / UNDER_WAY {
        let begun: Vec<_> = (0..UNDER_WAY)
            .map(|_| {
                let mut request = Request::default();
                client.next(&mut request);
                (session.begin_call(request.procedure, &request.arguments).unwrap(), request)
            })
            .collect();
        for (call, request) in begun {
            match session.end_call(call) {
                Ok(done) => {
                    added += workload.added(&request, &done.rows.first().cloned().unwrap_or_default());
                    last = Some(done.commit);
                }
                Err(Error::Sql(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
    last.unwrap().wait().unwrap();
    added
}

#[test]
fn balances_add_up_under_every_scheme() {
    for scheme in Scheme::all() {
        let workload = by_name("smallbank", 1, "full").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let config = || {
            let mut config = Config::default();
            config.memory_ahead_bytes = 0;
            config.concurrency = scheme;
            config
        };
        let db = Database::open(folder.path(), config()).unwrap();
        let mut session = db.session().unwrap();
        for script in workload.definitions() {
            session.execute_script(script).unwrap();
        }
        workload.load(&db, 42, &|_, _| {}).unwrap();
        db.checkpoint().unwrap();
        let before = sum(&db, &*workload);
        let added: i64 = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..SESSIONS)
                .map(|number| {
                    scope.spawn({
                        let (db, workload) = (&db, &*workload);
                        move || run(db, workload, number)
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().unwrap()).sum()
        });
        assert_ne!(added, 0);
        assert_eq!(sum(&db, &*workload), before + added, "{scheme}");
        check_conditions(&mut session, &*workload);
        drop((session, db));
        let db = Database::open(folder.path(), config()).unwrap();
        assert_eq!(sum(&db, &*workload), before + added, "{scheme}, recovered");
        check_conditions(&mut db.session().unwrap(), &*workload);
    }
}
