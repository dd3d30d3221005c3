//! Reads a file as its parts, for those who pass it on: nothing is written to a disk.

use bytes::Bytes;
use muster_wire::catalog::content::{
    ChunkList, ContentAddress, ContentDefect, ContentKey, FileEntry, FileVerifier,
};
use tokio::sync::mpsc;

use super::error::{ContentError, Result};
use super::read_ahead::ChunkReader;
use super::store::ContentStore;

/// A file of the store whose entry was read.
#[derive(Debug)]
pub struct OpenContent {
    store: ContentStore,
    file: ContentAddress,
    bytes: u64,
    entry: OpenEntry,
}

#[derive(Debug)]
enum OpenEntry {
    Whole(Bytes),
    Chunked(ChunkList),
}

impl ContentStore {
    /// Opens a file of at most `limit` bytes.
    pub async fn open_file(&self, file: ContentAddress, limit: u64) -> Result<OpenContent> {
        let value = self.read_value(ContentKey::File(file)).await?;
        let value = value.ok_or(ContentDefect::FileMissing { file })?;
        let entry = FileEntry::decode(&value)
            .map_err(|source| ContentDefect::EntryInvalid { file, source })?;
        let bytes = entry.size();
        if bytes > limit {
            return Err(ContentError::TooLarge { file, bytes, limit });
        }
        let entry = match entry {
            FileEntry::Whole(content) if ContentAddress::of(content) != file => {
                return Err(ContentDefect::FileAltered { file }.into());
            }
            FileEntry::Whole(content) => OpenEntry::Whole(value.slice_ref(content)),
            FileEntry::Chunked(list) => OpenEntry::Chunked(list),
        };
        Ok(OpenContent { store: self.clone(), file, bytes, entry })
    }
}

impl OpenContent {
    /// Size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sends the parts in their order. Each is verified, and the last one is sent after the whole file is. Ends early when the receiver is dropped.
    pub async fn send_parts(self, parts: mpsc::Sender<Bytes>) -> Result<()> {
        let list = match self.entry {
            OpenEntry::Whole(content) => {
                let _ = parts.send(content).await;
                return Ok(());
            }
            OpenEntry::Chunked(list) => list,
        };
        let mut reader = ChunkReader::new(&self.store, self.file, list.chunks().iter().copied());
        let mut verifier = FileVerifier::new(self.file, &list);
        let mut held: Option<Bytes> = None;
        while let Some(chunk) = reader.next().await {
            let chunk = chunk?;
            verifier.accept_chunk(&chunk)?;
            if let Some(previous) = held.replace(chunk)
                && parts.send(previous).await.is_err()
            {
                return Ok(());
            }
        }
        verifier.finish()?;
        if let Some(last) = held {
            let _ = parts.send(last).await;
        }
        Ok(())
    }
}
