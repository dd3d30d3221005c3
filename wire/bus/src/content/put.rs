//! Stores a file: its chunks, then its entry.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use muster_wire::catalog::content::{
    CHUNK_BYTES, ChunkList, ContentAddress, ContentDigest, ContentKey, FileEntry,
};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::Instant;

use super::error::{ContentError, Result};
use super::store::ContentStore;
use super::window::ChunkWindow;

/// A write, with the time that it takes.
type PendingWrite<'a> = BoxFuture<'a, (Duration, Result<()>)>;

impl ContentStore {
    /// Stores what the reader returns, and returns its address. Every chunk is acknowledged by the broker before the file's entry is written. At most 16 MiB
    /// are in memory.
    ///
    /// If the file with the expected address was stored a short time ago, nothing is read. If what is read has another address, the file gets no entry.
    pub async fn put_file(
        &self,
        mut reader: impl AsyncRead + Unpin,
        expected: Option<ContentAddress>,
    ) -> Result<ContentAddress> {
        if let Some(file) = expected
            && self.was_stored_lately(file).await?
        {
            return Ok(file);
        }
        let first = read_chunk(&mut reader).await?;
        let mut next = read_chunk(&mut reader).await?;
        if next.is_empty() {
            return self
                .put_entry(ContentAddress::of(&first), &FileEntry::Whole(&first), expected)
                .await;
        }
        let mut upload = ChunkUpload::new(self);
        upload.add_chunk(first).await?;
        while !next.is_empty() {
            upload.add_chunk(next).await?;
            next = read_chunk(&mut reader).await?;
        }
        let (file, list) = upload.finish().await?;
        self.put_entry(file, &FileEntry::Chunked(list), expected).await
    }

    async fn put_entry(
        &self,
        file: ContentAddress,
        entry: &FileEntry<'_>,
        expected: Option<ContentAddress>,
    ) -> Result<ContentAddress> {
        if let Some(expected) = expected.filter(|expected| *expected != file) {
            return Err(ContentError::Changed { expected, found: file });
        }
        let key = ContentKey::File(file);
        if !self.is_known(key) {
            let value = entry.encode().map_err(ContentError::Unstorable)?;
            self.store_value(key, value.into()).await?;
        }
        Ok(file)
    }

    /// Whether the file is in the store, and so new that its chunks are kept without another write.
    async fn was_stored_lately(&self, file: ContentAddress) -> Result<bool> {
        let key = ContentKey::File(file);
        if self.is_known(key) {
            return Ok(true);
        }
        let Some(entry) = self.read_entry(key).await? else { return Ok(false) };
        let is_intact = match entry.value.as_deref().map(FileEntry::decode) {
            Some(Ok(FileEntry::Whole(bytes))) => ContentAddress::of(bytes) == file,
            Some(Ok(FileEntry::Chunked(_))) => true,
            Some(Err(_)) | None => false,
        };
        let was_stored = is_intact && self.is_fresh(&entry);
        if was_stored {
            self.remember(key);
        }
        Ok(was_stored)
    }
}

/// The chunks of one file, some of them on their way.
struct ChunkUpload<'a> {
    store: &'a ContentStore,
    digest: ContentDigest,
    /// A chunk that occurs twice in the file is written once.
    begun: HashSet<ContentAddress>,
    pending: FuturesUnordered<PendingWrite<'a>>,
    window: ChunkWindow,
}

impl<'a> ChunkUpload<'a> {
    fn new(store: &'a ContentStore) -> Self {
        Self {
            store,
            digest: ContentDigest::default(),
            begun: HashSet::new(),
            pending: FuturesUnordered::new(),
            window: ChunkWindow::new(),
        }
    }

    async fn add_chunk(&mut self, bytes: Bytes) -> Result<()> {
        let chunk = self.digest.add_chunk(&bytes).map_err(ContentError::Unstorable)?;
        let key = ContentKey::Chunk(chunk);
        if !self.begun.insert(chunk) || self.store.is_known(key) {
            return Ok(());
        }
        while !self.window.has_room(self.pending.len()) {
            self.await_write().await?;
        }
        self.pending.push(Box::pin(write_chunk(self.store, key, bytes)));
        Ok(())
    }

    /// Waits until all chunks are stored.
    async fn finish(mut self) -> Result<(ContentAddress, ChunkList)> {
        while !self.pending.is_empty() {
            self.await_write().await?;
        }
        self.digest.finish().map_err(ContentError::Unstorable)
    }

    async fn await_write(&mut self) -> Result<()> {
        let Some((took, written)) = self.pending.next().await else { return Ok(()) };
        self.window.record_answer(took);
        written
    }
}

async fn write_chunk(
    store: &ContentStore,
    key: ContentKey,
    bytes: Bytes,
) -> (Duration, Result<()>) {
    let started = Instant::now();
    let written = store.store_value(key, bytes).await;
    (started.elapsed(), written)
}

/// The next chunk; empty at the end.
async fn read_chunk(reader: &mut (impl AsyncRead + Unpin)) -> Result<Bytes> {
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    let read = reader.take(CHUNK_BYTES as u64).read_to_end(&mut chunk).await;
    read.map_err(ContentError::Source)?;
    Ok(chunk.into())
}
