//! Verifies a batch of replies, on several processors if the batch is large enough. The results are in the order of the replies.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use muster_base::unix_millis_now;
use muster_bus::Bytes;
use muster_wire::sign::{MessageRefusal, OpenReply, open_replies};

use crate::call::ReplySelector;
use crate::client_inner::ClientInner;

/// Minimum replies per processor; for smaller shares the handover costs more than it saves. With 512 the processor time per reply was hardly lower on
/// two threads of one core, and a call to a thousand nodes took a tenth longer because of the last replies.
const MIN_SHARE_SIZE: usize = 64;

/// Maximum processors, to leave the others to the other programs of the machine. Two threads of one core count as two: together they cost a twelfth
/// more processor time, and open the last of ten thousand replies a twelfth sooner.
const MAX_PROCESSORS: usize = 8;

type OpenedReplies = Vec<Result<OpenReply, MessageRefusal>>;

/// Opens the replies to a request.
pub(crate) async fn open_reply_batch(
    client: &Arc<ClientInner>,
    selector: &ReplySelector,
    replies: Vec<Bytes>,
) -> OpenedReplies {
    let processors = available_parallelism().map_or(1, NonZero::get);
    let chunk_size = share_size(replies.len(), processors);
    let (client, selector) = (Arc::clone(client), selector.clone());
    let work = move |replies: &[Bytes]| {
        let expected = selector.as_expected();
        open_replies(replies, &expected, &client.trust(), &client.tokens, unix_millis_now())
    };
    run_in_shares(&replies, chunk_size, work).await
}

/// Number of replies per processor.
fn share_size(replies: usize, processors: usize) -> usize {
    replies.div_ceil(processors.min(MAX_PROCESSORS)).max(MIN_SHARE_SIZE)
}

/// Runs the work for each share concurrently; a single share runs on the current task.
async fn run_in_shares<T, R>(
    items: &[T],
    chunk_size: usize,
    work: impl Fn(&[T]) -> Vec<R> + Clone + Send + 'static,
) -> Vec<R>
where
    T: Clone + Send + 'static,
    R: Send + 'static,
{
    if items.len() <= chunk_size {
        return work(items);
    }
    let spawn_chunk = |chunk: &[T]| {
        let (chunk, work) = (chunk.to_vec(), work.clone());
        tokio::task::spawn_blocking(move || work(&chunk))
    };
    let tasks: Vec<_> = items.chunks(chunk_size).map(spawn_chunk).collect();
    let mut results = Vec::with_capacity(items.len());
    for (task, chunk) in tasks.into_iter().zip(items.chunks(chunk_size)) {
        // A runtime that is shutting down cancels the task, so do the work here.
        results.extend(task.await.unwrap_or_else(|_| work(chunk)));
    }
    results
}

#[cfg(test)]
mod tests {
    use super::{MAX_PROCESSORS, MIN_SHARE_SIZE, run_in_shares, share_size};

    #[test]
    fn share_size_follows_from_items_and_processors() {
        assert_eq!(share_size(2048, 1), 2048);
        assert_eq!(share_size(2048, 2), 1024);
        assert_eq!(share_size(2049, 4), 513);
        assert_eq!(share_size(2048, 1000), 2048 / MAX_PROCESSORS);
        assert_eq!(share_size(100, 8), MIN_SHARE_SIZE);
        assert_eq!(share_size(0, 8), MIN_SHARE_SIZE);
    }

    #[tokio::test]
    async fn results_keep_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        let doubled: Vec<u32> = items.iter().map(|item| 2 * item).collect();
        for share in [1, 7, 99, 100, 101] {
            let double = |items: &[u32]| items.iter().map(|item| 2 * item).collect();
            assert_eq!(run_in_shares(&items, share, double).await, doubled, "{share}");
        }
    }
}
