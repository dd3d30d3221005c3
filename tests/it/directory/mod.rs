//! The directory with the real `rpc` and `rpcd`: what it knows, whom it believes, who is missing, and what happens without it.

#![expect(clippy::indexing_slicing, reason = "tests end by panic")]

mod ansible;
mod clones;
mod expected_checks;
mod fallback;
pub(crate) mod fixture;
mod forget;
mod history;
mod hostile_records;
mod http;
mod http_attacks;
mod http_certificate;
mod http_limits;
mod http_prometheus;
mod http_watch;
mod kills;
mod liveness;
mod metrics;
mod poisoned_records;
mod puppet_attacks;
mod puppet_module;
mod puppet_server;
mod queries;
mod scheduled_checks;
mod ssh;
mod ssh_fixture;
mod ssh_records;
mod state;
mod verify;
mod watch;
