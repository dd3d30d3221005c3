//! One file for each action.

mod connect;
mod dns;
mod ping;

pub(crate) use connect::NettestConnectAction;
pub(crate) use dns::NettestDnsAction;
pub(crate) use ping::NettestPingAction;

use std::time::Duration;

use muster_api::CallContext;
use tokio::time::Instant;

/// What is left of the call's time for the answer.
const REPLY_MARGIN: Duration = Duration::from_secs(1);

/// So many seconds, or what the call still has.
fn effective_timeout(cx: &CallContext, seconds: u64) -> Duration {
    let left = cx.deadline.saturating_duration_since(Instant::now());
    Duration::from_secs(seconds).min(left.saturating_sub(REPLY_MARGIN).max(left / 2))
}

/// Milliseconds with the precision that is worth something.
fn round_millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1000.0
}
