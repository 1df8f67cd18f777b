//! Texts as bodies of procedures that two databases run, one compiled and one interpreted: their answers are
//! the same. A page behind each larger block of memory faults, so that code which leaves a frame is found.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reprise::disk::CrashingDisk;
use reprise::{Compile, Config, Database, Error, Session, Value};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
/// Blocks from this size on end before a page that faults.
const FENCED: usize = 256;

struct Fenced;

/// Returns the bytes from the beginning of a block's pages to the page that faults.
fn inside(layout: Layout) -> Option<usize> {
    (layout.size() >= FENCED && layout.align() <= 16).then(|| layout.size().next_multiple_of(PAGE))
}

// SAFETY: a block of the system's allocator, or the end of pages of its own.
unsafe impl GlobalAlloc for Fenced {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(bytes) = inside(layout) else {
            // SAFETY: passed on.
            return unsafe { System.alloc(layout) };
        };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new pages, whose last one is made inaccessible; the block lies before it.
        unsafe {
            let pages = libc::mmap(std::ptr::null_mut(), bytes + PAGE, protection, kind, -1, 0);
            if pages == libc::MAP_FAILED {
                return std::ptr::null_mut();
            }
            let pages = pages.cast::<u8>();
            libc::mprotect(pages.add(bytes).cast(), PAGE, libc::PROT_NONE);
            pages.add(bytes - layout.size().next_multiple_of(16))
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(bytes) = inside(layout) else {
            // SAFETY: passed on.
            return unsafe { System.dealloc(block, layout) };
        };
        // SAFETY: `alloc` has placed the block at the end of as many pages.
        unsafe {
            let pages = block.add(layout.size().next_multiple_of(16)).sub(bytes);
            libc::munmap(pages.cast(), bytes + PAGE);
        }
    }
}

#[global_allocator]
static ALLOCATOR: Fenced = Fenced;

const TABLES: &str = "
    CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT, c NUMERIC(10, 2), d DOUBLE PRECISION);
    CREATE TABLE u (x INT, y TEXT, v BIGINT NOT NULL CHECK (v < 1000), PRIMARY KEY (x, y));
    INSERT INTO t VALUES (1, 2, 'three', 4.5, 0.5), (2, NULL, NULL, NULL, NULL), (7, 70, '', 7.77, '1e300');
    INSERT INTO u VALUES (1, 'a', 10), (1, 'b', 20), (2, 'a', 30);
";

fn open(compile: Compile) -> Session {
    let mut config = Config::default();
    config.disk = Arc::new(CrashingDisk::default());
    (config.memory_bytes, config.memory_ahead_bytes) = (256 << 20, 0);
    (config.log_file_bytes, config.compile) = (1 << 20, compile);
    let mut session = Database::open("/fuzz", config).and_then(|db| db.session()).expect("the disk is empty");
    session.execute_script(TABLES).expect("the tables are in order");
    session
}

/// Returns the answers of calls of a procedure; `None` if it is refused, or takes too long.
fn answers(session: &mut Session, text: &str) -> Option<Vec<String>> {
    session.execute_script(text).ok()?;
    let array = || Value::Array(vec![Value::Int(3), Value::Null, Value::Int(-1)]);
    let arguments = [
        [Value::Int(1), Value::Text("a".into()), array()],
        [Value::Int(-7), Value::Null, Value::Null],
        [Value::Int(2), Value::Text("ä%_".into()), Value::Array(Vec::new())],
    ];
    let answer = |arguments: &[Value; 3]| {
        session.ends_at(Some(Instant::now() + Duration::from_millis(300)));
        let called = session.call("p", arguments);
        session.ends_at(None);
        match called {
            Err(Error::Sql(error)) if error.sqlstate == "57014" => None,
            Ok(done) => Some(format!("{:?} {:?}", done.rows, session.take_notices())),
            Err(error) => Some(format!("{error:?} {:?}", session.take_notices())),
        }
    };
    arguments.iter().map(answer).collect()
}

static SIDES: Mutex<Option<[Session; 2]>> = Mutex::new(None);

fuzz_target!(|body: &str| {
    // What counts time or draws random numbers has no one answer.
    let varies = ["now", "random", "current_", "clock", "local", "timeofday", "recovery", "commit", "rollb"];
    let lower = body.to_lowercase();
    if varies.iter().any(|word| lower.contains(word)) {
        return;
    }
    let mut sides = SIDES.lock().unwrap_or_else(PoisonError::into_inner);
    let sides = sides.get_or_insert_with(|| [open(Compile::AtOnce), open(Compile::Never)]);
    let head = "CREATE OR REPLACE PROCEDURE p(x INT, y TEXT, INOUT z INT[]) LANGUAGE plpgsql";
    let text = format!("{head} AS $fuzz$ {body} $fuzz$");
    let [native, interpreted] = sides.each_mut().map(|side| answers(side, &text));
    if let (Some(native), Some(interpreted)) = (native, interpreted) {
        assert_eq!(native, interpreted);
    } else {
        *sides = [open(Compile::AtOnce), open(Compile::Never)];
    }
});
