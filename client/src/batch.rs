//! Collects replies from a subscription into batches. Verification of a batch costs about a third per signature of single verification, and less the
//! larger the batch. So the first reply waits at most 10 ms for others, unless all awaited replies are in. Verifies nothing itself.

use std::time::Duration;

use muster_bus::{BusMessage, BusSubscription};
use tokio::time::{Instant, timeout_at};

/// Maximum replies per batch: large enough for batch verification to pay, small enough for regular screen updates.
pub(crate) const MAX_BATCH_SIZE: usize = 2048;

/// A batch of this size does not wait for more replies.
const SUFFICIENT_BATCH_SIZE: usize = 256;

/// Maximum wait after the first reply of a batch: imperceptible to a user, but enough for many replies of a large fleet.
const BATCH_WINDOW: Duration = Duration::from_millis(10);

/// Returns the first reply and those that arrive within `BATCH_WINDOW`. Stops early when `awaited` replies are in.
pub(crate) async fn collect_batch(
    first: BusMessage,
    replies: &mut BusSubscription,
    outstanding: usize,
) -> Vec<BusMessage> {
    let deadline = Instant::now() + BATCH_WINDOW;
    let enough = outstanding.min(SUFFICIENT_BATCH_SIZE);
    let mut messages = vec![first];
    loop {
        while messages.len() < MAX_BATCH_SIZE
            && let Some(message) = replies.try_next()
        {
            messages.push(message);
        }
        if messages.len() >= enough {
            return messages;
        }
        match timeout_at(deadline, replies.next()).await {
            Ok(Some(message)) => messages.push(message),
            Ok(None) | Err(_) => return messages,
        }
    }
}
