//! Test harness: a real nats-server, an in-memory organisation, and daemons with the real pipeline in this process.
//!
//! Every server uses a free loopback port and its own directory; both are released when the value is dropped.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a harness failure must fail the test"
)]

pub mod bootstrap;
pub mod cluster;
pub mod command;
pub mod fault_proxy;
pub mod filler;
pub mod fleet;
pub mod ledger;
pub mod memory;
pub mod memory_enrolment_store;
pub mod nats_exporter;
pub mod nats_server;
pub mod organisation;
pub mod program_version;
pub mod prometheus;
pub mod provisioning;
pub mod published_schemas;
pub mod puppet;
pub mod puppet_ca;
pub mod puppet_daemons;
pub mod puppetdb;
pub mod puppetserver;
pub mod raw_nats;
pub mod requests;
pub mod rpcd;
pub mod small_disk;
pub mod tier;
pub mod tls_acceptor;
pub mod tools;
pub mod webhook;

/// Unix time in milliseconds.
pub fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// Polls until `attempt` returns `Ok`, and returns that value; fails the test with the last error after `timeout`.
///
/// For states that must be queried: `attempt` returns `Err` with the state that it found.
pub async fn poll_until_ok<T, E: std::fmt::Debug>(
    what: &str,
    timeout: std::time::Duration,
    mut attempt: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let deadline = tokio::time::Instant::now() + timeout;
    loop {
        let state = match attempt().await {
            Ok(found) => return found,
            Err(state) => state,
        };
        assert!(tokio::time::Instant::now() < deadline, "timed out: {what}; last state: {state:?}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Sleeps where elapsed time is part of the test: how slow a node is, how long work takes, when a process is killed. To
/// wait for a state, use [`await_state`].
pub async fn simulate_delay(time: std::time::Duration) {
    tokio::time::sleep(time).await;
}

/// Polls until `holds` returns true; fails the test after a minute.
pub async fn await_state(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "timed out: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
