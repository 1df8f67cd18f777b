//! `reprise bench server`: clients call a workload's procedures over the wire, on any server that speaks
//! PostgreSQL's protocol.

use super::{Latency, latency, prepare, print_latency, print_outcomes};
use crate::clients::histogram;
use crate::options::WorkloadOptions;
use crate::{numbers, progress};
use anyhow::{Context, Result, bail};
use bytes::BytesMut;
use catalog::value_from_datum;
use clap::Args;
use hdrhistogram::Histogram;
use postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use postgres::{CopyInWriter, NoTls, Statement};
use reprise::{Arena, Config, Database, Datum, RowSink, SqlError, Type as ColumnType, Value, params};
use serde::Serialize;
use sql::Schema;
use std::collections::HashMap;
use std::error::Error;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use workload::{Request, Workload};

#[derive(Args)]
pub struct Arguments {
    /// The workload: tpcc, smallbank, ycsb.
    workload: String,
    /// The server: host=ADDRESS port=NUMBER user=NAME dbname=NAME.
    #[arg(long)]
    url: String,
    /// Connections, each with a thread.
    #[arg(long, default_value_t = 8, value_parser = numbers::from::<usize>(1, 10_000))]
    workers: usize,
    /// Seconds to run.
    #[arg(long, default_value_t = 10.0, value_parser = numbers::seconds())]
    seconds: f64,
    #[command(flatten)]
    requests: WorkloadOptions,
    /// Seed of data and requests.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Create the tables and procedures and fill the tables before the run.
    #[arg(long)]
    load: bool,
    /// Print one JSON object on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    workload: String,
    mix: String,
    scale: u32,
    workers: usize,
    server: String,
    seconds: f64,
    throughput_tps: f64,
    committed: u64,
    aborted: u64,
    conflicts: u64,
    latency_us: Latency,
}

/// A parameter in text form, which the server converts to the parameter's type.
#[derive(Debug)]
struct Text(Option<String>);

impl ToSql for Text {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match &self.0 {
            None => Ok(IsNull::Yes),
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

impl From<&Value> for Text {
    fn from(value: &Value) -> Self {
        Self((*value != Value::Null).then(|| value.to_string()))
    }
}

/// The result of one client.
struct ClientResult {
    committed: u64,
    aborted: u64,
    conflicts: u64,
    latency_us: Histogram<u64>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let workload = arguments.requests.workload(&arguments.workload)?;
    let mut first = connect(&arguments.url)?;
    let server = first.query_one("SHOW server_version", &[])?.get(0);
    if arguments.load {
        load(&mut first, &*workload, arguments.seed)?;
    }
    let outputs = outputs(&*workload)?;
    let stop = AtomicBool::new(false);
    let begun = Instant::now();
    let results: Vec<Result<ClientResult>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..arguments.workers)
            .map(|number| {
                let (workload, outputs, stop) = (&*workload, &outputs, &stop);
                scope.spawn(move || client(arguments, workload, outputs, number, stop))
            })
            .collect();
        std::thread::sleep(Duration::from_secs_f64(arguments.seconds));
        stop.store(true, Ordering::Relaxed);
        clients.into_iter().map(|client| client.join().expect("a client does not panic")).collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let mut all = ClientResult { committed: 0, aborted: 0, conflicts: 0, latency_us: histogram() };
    for result in results {
        let result = result?;
        all.committed += result.committed;
        all.aborted += result.aborted;
        all.conflicts += result.conflicts;
        all.latency_us.add(result.latency_us)?;
    }
    let report = Report {
        workload: arguments.workload.clone(),
        mix: arguments.requests.mix.clone(),
        scale: arguments.requests.scale,
        workers: arguments.workers,
        server,
        seconds,
        throughput_tps: all.committed as f64 / seconds,
        committed: all.committed,
        aborted: all.aborted,
        conflicts: all.conflicts,
        latency_us: latency(&all.latency_us),
    };
    if arguments.json {
        println!("{}", serde_json::to_string(&report)?);
        return Ok(());
    }
    println!(
        "{} {} x{}, {} connections to {}: {:.0} transactions a second",
        report.workload, report.mix, report.scale, report.workers, report.server, report.throughput_tps
    );
    print_outcomes(report.committed, report.aborted, report.conflicts);
    print_latency("latency", &report.latency_us);
    Ok(())
}

/// Returns the code and message of a server's error.
fn message(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{}: {}", error.code().code(), error.message()),
        None => error.to_string(),
    }
}

fn connect(url: &str) -> Result<postgres::Client> {
    postgres::Client::connect(url, NoTls).with_context(|| format!("cannot connect to {url}"))
}

/// Returns the number of outputs of each procedure. As in PostgreSQL, a CALL has an argument for each output.
fn outputs(workload: &dyn Workload) -> Result<HashMap<String, usize>> {
    let mut schema = Schema::default();
    for script in workload.definitions() {
        for (statement, ..) in Schema::split(script)? {
            schema = schema.apply(&statement)?.0;
        }
    }
    let count = |parameters: &[procedure::Parameter]| parameters.iter().filter(|one| !one.is_input()).count();
    let counts = schema.procedures().map(|procedure| (procedure.name.clone(), count(&procedure.parameters)));
    Ok(counts.collect())
}

fn client(
    arguments: &Arguments,
    workload: &dyn Workload,
    outputs: &HashMap<String, usize>,
    number: usize,
    stop: &AtomicBool,
) -> Result<ClientResult> {
    let mut client = connect(&arguments.url)?;
    let mut inputs = workload.client(number, arguments.workers, arguments.seed);
    let mut statements: HashMap<&str, Statement> = HashMap::new();
    let mut result = ClientResult { committed: 0, aborted: 0, conflicts: 0, latency_us: histogram() };
    let mut request = Request::default();
    while !stop.load(Ordering::Relaxed) {
        inputs.next(&mut request);
        let statement = match statements.get(request.procedure) {
            Some(statement) => statement.clone(),
            None => {
                let given = (1..=request.arguments.len()).map(|number| format!("${number}"));
                let taken = outputs.get(request.procedure).copied().unwrap_or(0);
                let all: Vec<_> = given.chain(std::iter::repeat_n("NULL".to_owned(), taken)).collect();
                let statement = client.prepare(&format!("CALL {}({})", request.procedure, all.join(", ")))?;
                statements.insert(request.procedure, statement.clone());
                statement
            }
        };
        let texts: Vec<Text> = request.arguments.iter().map(Text::from).collect();
        let parameters: Vec<&(dyn ToSql + Sync)> = texts.iter().map(|text| text as _).collect();
        let begun = Instant::now();
        loop {
            let Err(error) = client.query(&statement, &parameters) else {
                result.committed += 1;
                result.latency_us.record(begun.elapsed().as_micros() as u64)?;
                break;
            };
            match error.code().map(postgres::error::SqlState::code) {
                Some("40001" | "40P01") => result.conflicts += 1,
                // The workload expects some calls to raise an exception.
                Some(code) if code.starts_with("P0") => {
                    result.aborted += 1;
                    break;
                }
                _ => bail!("{}: {}", request.procedure, message(&error)),
            }
        }
    }
    Ok(result)
}

/// Creates the workload's tables and procedures on the server, and copies the rows of a temporary Reprise
/// database into the tables.
fn load(server: &mut postgres::Client, workload: &dyn Workload, seed: u64) -> Result<()> {
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let db = Database::open(temporary.path(), Config::default())?;
    prepare(&db, workload, seed)?;
    let mut session = db.session()?;
    let tables = session.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY table_name",
        params![],
    )?;
    let bar = progress::bar("copying", tables.rows.len() as u64);
    for script in workload.definitions() {
        server.batch_execute(script).map_err(|error| anyhow::anyhow!(message(&error)))?;
    }
    for table in tables.rows.iter().map(|row| &row[0]) {
        let rows = session.prepare(&format!("SELECT * FROM {table}"))?;
        let types: Vec<_> = rows.columns().iter().map(|column| column.ty).collect();
        let lines = Arc::new(Mutex::new(String::new()));
        session.execute_into(&rows, &[], Box::new(Lines { types, lines: Arc::clone(&lines) }))?;
        let mut copy: CopyInWriter<'_> = server.copy_in(&format!("COPY {table} FROM STDIN"))?;
        copy.write_all(lines.lock().unwrap_or_else(PoisonError::into_inner).as_bytes())?;
        copy.finish()?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    server.batch_execute("ANALYZE")?;
    Ok(())
}

/// Writes rows in the text format of COPY.
struct Lines {
    types: Vec<ColumnType>,
    lines: Arc<Mutex<String>>,
}

impl RowSink for Lines {
    fn begin(&mut self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn row(&mut self, values: &[Datum], arena: &Arena) -> Result<(), SqlError> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, (value, ty)) in values.iter().zip(&self.types).enumerate() {
            if index > 0 {
                lines.push('\t');
            }
            match value_from_datum(*value, *ty, arena) {
                Value::Null => lines.push_str("\\N"),
                value => lines.push_str(
                    &value.to_string().replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n"),
                ),
            }
        }
        lines.push('\n');
        Ok(())
    }
}
