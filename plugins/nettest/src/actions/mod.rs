//! One file for each action.

mod connect;
mod dns;
mod ping;

pub(crate) use connect::Connect;
pub(crate) use dns::Dns;
pub(crate) use ping::Ping;

use std::time::Duration;

use muster_api::Context;
use tokio::time::Instant;

/// What is left of the call's time for the answer.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// So many seconds, or what the call still has.
fn patience(cx: &Context, seconds: u64) -> Duration {
    let left = cx.deadline.saturating_duration_since(Instant::now());
    Duration::from_secs(seconds).min(left.saturating_sub(LAST_WORDS).max(left / 2))
}

/// Milliseconds with the precision that is worth something.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}
