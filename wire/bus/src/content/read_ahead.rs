//! Reads chunks of a file in their order, some of them ahead.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use muster_wire::catalog::content::{ContentAddress, ContentDefect, ContentKey};
use tokio::time::Instant;

use super::error::Result;
use super::store::ContentStore;
use super::window::ChunkWindow;

/// A read, with the time that it takes.
type PendingRead<'a> = BoxFuture<'a, (Duration, Result<Bytes>)>;

/// Chunks of one file. Those that were read ahead are in memory.
pub(super) struct ChunkReader<'a, I> {
    store: &'a ContentStore,
    file: ContentAddress,
    wanted: I,
    pending: FuturesOrdered<PendingRead<'a>>,
    window: ChunkWindow,
}

impl<'a, I: Iterator<Item = ContentAddress>> ChunkReader<'a, I> {
    pub(super) fn new(store: &'a ContentStore, file: ContentAddress, wanted: I) -> Self {
        let (pending, window) = (FuturesOrdered::new(), ChunkWindow::new());
        Self { store, file, wanted, pending, window }
    }

    /// The bytes of the next chunk, which are not checked; `None` after the last one. A chunk that is missing does not end the others.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes>> {
        while self.window.has_room(self.pending.len())
            && let Some(chunk) = self.wanted.next()
        {
            self.pending.push_back(Box::pin(read_chunk(self.store, self.file, chunk)));
        }
        let (took, bytes) = self.pending.next().await?;
        self.window.record_answer(took);
        Some(bytes)
    }
}

async fn read_chunk(
    store: &ContentStore,
    file: ContentAddress,
    chunk: ContentAddress,
) -> (Duration, Result<Bytes>) {
    let started = Instant::now();
    let value = store.read_value(ContentKey::Chunk(chunk)).await;
    let missing = || ContentDefect::ChunkMissing { file, chunk }.into();
    (started.elapsed(), value.and_then(|value| value.ok_or_else(missing)))
}
