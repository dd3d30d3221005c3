//! The actions of `nettest`, one module each.

pub(crate) mod connect;
pub(crate) mod dns;
pub(crate) mod ping;

use std::time::Duration;

use muster_api::CallContext;

/// The requested timeout, limited by the remaining time of the call.
fn effective_timeout(cx: &CallContext, seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(cx.time_left())
}

/// Rounds to a useful precision in milliseconds.
fn round_millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}
