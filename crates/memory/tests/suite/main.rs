//! The promises of the account, one test each, in a process that counts its allocations.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use memory::{Account, CREDIT, Grant, Metered, Refused, apart, process_bytes, thread_bytes, thread_ends};
use std::alloc::System;
use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[global_allocator]
static ALLOCATOR: Metered<System> = Metered::new(System);

/// Serializes tests that compare the bytes of the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const MIB: usize = 1 << 20;

#[test]
fn what_is_allocated_is_counted() {
    let _alone = alone();
    let (before, own) = (process_bytes(), thread_bytes());
    let mut bytes = black_box(vec![1u8; 10 * MIB]);
    assert!(thread_bytes() - own >= 10 * MIB as isize);
    bytes.reserve_exact(20 * MIB);
    assert!(thread_bytes() - own >= 30 * MIB as isize);
    assert!(process_bytes() - before >= 29 * MIB);
    let elsewhere = std::thread::spawn(move || {
        drop(bytes);
        thread_ends();
    });
    elsewhere.join().unwrap();
    assert!(process_bytes() < before + MIB, "another thread has freed it");
    let kept = apart(|| black_box(vec![1u8; 10 * MIB]));
    assert!(thread_bytes() - own < 31 * MIB as isize, "it is not the statement's");
    assert!(process_bytes() - before > 9 * MIB, "but the process has it");
    drop(kept);
}

#[test]
fn a_statement_ends_at_its_limit() {
    let _alone = alone();
    let mut grant = Grant::default();
    grant.limit_to(None, 4 * MIB);
    grant.begin();
    grant.check().unwrap();
    assert_eq!(grant.ask(5 * MIB), Err(Refused::Statement { limit: 4 * MIB }), "asked ahead");
    let mut kept = Vec::new();
    while grant.check().is_ok() {
        kept.push(black_box(vec![0u8; 1000]));
        assert!(kept.len() < 5_000, "it does not end");
    }
    assert!(kept.len() > 3_500, "it ends at {} kB", kept.len());
    drop(kept);
    grant.begin();
    grant.check().unwrap();
}

#[test]
fn all_statements_together_end_at_the_limit_of_the_account() {
    let _alone = alone();
    let account = Arc::new(Account::new(64 * MIB));
    assert!(account.has_room(64 * MIB), "nothing is counted before it is open");
    account.open(0);
    let mut grant = Grant::default();
    grant.limit_to(Some(Arc::clone(&account)), usize::MAX);
    grant.begin();
    grant.ask(60 * MIB).unwrap();
    let thread = std::thread::spawn(|| {
        let kept = black_box(vec![1u8; 40 * MIB]);
        thread_ends();
        kept
    });
    let kept = thread.join().unwrap();
    grant.begin();
    assert!(account.is_tight());
    assert_eq!(grant.ask(60 * MIB), Err(Refused::Server { limit: 64 * MIB }));
    grant.ask(CREDIT).unwrap();
    account.add_spare(40 * MIB);
    grant.ask(60 * MIB).unwrap();
    account.use_spare(40 * MIB);
    drop(kept);
    grant.ask(60 * MIB).unwrap();
}
