//! What an instance of the directory waits for: records, heartbeats, and changes of its connection.

use futures_util::FutureExt as _;
use muster_bus::{BucketEntry, BucketError, BucketWatch, BusEvent, BusMessage, BusSubscription};
use tokio::sync::broadcast;

/// Records that are read before heartbeats are looked at again.
const MAX_BATCH_ENTRIES: usize = 1024;

/// A loss of the connection, or of messages: heartbeats may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListeningChange {
    Lost,
    Restored,
}

/// This entry and those that the watch has read already, to be opened together.
pub(crate) fn buffered_entries(
    first: BucketEntry,
    watch: &mut BucketWatch,
) -> Result<Vec<BucketEntry>, BucketError> {
    let mut entries = vec![first];
    while entries.len() < MAX_BATCH_ENTRIES
        && !watch.is_current()
        && let Some(next) = watch.next().now_or_never()
    {
        match next? {
            Some(entry) => entries.push(entry),
            None => break,
        }
    }
    Ok(entries)
}

/// The subscription ends with the connection, and then nothing comes.
pub(crate) async fn next_heartbeat(heartbeats: &mut BusSubscription) -> BusMessage {
    match heartbeats.next().await {
        Some(message) => message,
        None => std::future::pending().await,
    }
}

/// The next time that heartbeats may have been lost, or are received again.
pub(crate) async fn next_listening_change(
    events: &mut broadcast::Receiver<BusEvent>,
) -> ListeningChange {
    loop {
        match events.recv().await {
            Ok(BusEvent::Disconnected) => return ListeningChange::Lost,
            Ok(BusEvent::Connected | BusEvent::SlowConsumer)
            | Err(broadcast::error::RecvError::Lagged(_)) => return ListeningChange::Restored,
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            Ok(_) => {}
        }
    }
}
