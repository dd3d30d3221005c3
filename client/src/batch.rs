//! Takes answers from a subscription by the handful: verified together, a signature costs a third of what it costs alone, and the more there
//! are the less. So who finds one waits a moment for others, unless it is all that is awaited. Judges nothing.

use std::time::Duration;

use muster_bus::{BusMessage, BusSubscription};
use tokio::time::{Instant, timeout_at};

/// Most that are verified together: enough for the equation to pay, few enough for the screen to move.
pub(crate) const MAX_BATCH_SIZE: usize = 2048;

/// So many are worth no further waiting.
const SUFFICIENT_BATCH_SIZE: usize = 256;

/// How long the first of them waits for others: nothing to a person, and many answers of a large fleet.
const BATCH_WINDOW: Duration = Duration::from_millis(10);

/// The first, and what comes within a moment of it; of no more than `awaited` the last is not waited for.
pub(crate) async fn collect_batch(
    first: BusMessage,
    replies: &mut BusSubscription,
    awaited: usize,
) -> Vec<BusMessage> {
    let latest = Instant::now() + BATCH_WINDOW;
    let enough = awaited.min(SUFFICIENT_BATCH_SIZE);
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
        match timeout_at(latest, replies.next()).await {
            Ok(Some(message)) => messages.push(message),
            Ok(None) | Err(_) => return messages,
        }
    }
}
