//! The harness: a real nats-server, an organisation made in memory, and daemons with the real pipeline in this process.
//!
//! Everything lives on free loopback ports and in directories of its own, and ends with its owner.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a harness fails loudly"
)]

pub mod cluster;
pub mod command;
pub mod fault_proxy;
pub mod fleet;
pub mod memory;
pub mod nats_server;
pub mod newcomers;
pub mod organisation;
pub mod provisioning;
pub mod published;
pub mod puppet;
pub mod puppet_ca;
pub mod puppetserver;
pub mod raw_nats;
pub mod rpcd;
pub mod tools;
pub mod webhook;

/// Milliseconds since the epoch.
pub fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// Asks again and again until the answer is what was hoped for, which is returned; fails the test with the last answer otherwise.
///
/// For states that must be asked for: `ask` gives `Ok` with what was awaited, or `Err` with what there is instead.
pub async fn await_answer<T, E: std::fmt::Debug>(
    what: &str,
    patience: std::time::Duration,
    mut ask: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let deadline = tokio::time::Instant::now() + patience;
    loop {
        let there = match ask().await {
            Ok(found) => return found,
            Err(there) => there,
        };
        assert!(
            tokio::time::Instant::now() < deadline,
            "never happened: {what}; there is {there:?}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Lets time pass, because the time itself is what is tried: how slow a node is, how long work takes, at which moment somebody is
/// killed. Whoever waits for a state awaits it.
pub async fn let_pass(time: std::time::Duration) {
    tokio::time::sleep(time).await;
}

/// Waits until a state holds; fails the test, with what was awaited, when it never does.
pub async fn await_state(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
