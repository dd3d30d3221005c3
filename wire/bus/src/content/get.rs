//! Fetches a file: checks each chunk, then the whole file, and gives it its name last. An interrupted fetch is continued.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use muster_files::{PartialFile, replace_file};
use muster_wire::catalog::content::{
    ChunkList, ContentAddress, ContentDefect, ContentKey, FileEntry, FileVerifier, chunk_offset,
};
use tokio::task::spawn_blocking;

use super::error::{ContentError, Result};
use super::read_ahead::ChunkReader;
use super::store::ContentStore;

/// Who needs other permission bits changes them afterwards.
const FETCHED_FILE_MODE: u32 = 0o600;

/// What a fetch has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchedFile {
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Chunks that were read from the store; 0 for a small file.
    pub fetched_chunks: usize,
    /// Chunks that an interrupted fetch had left.
    pub kept_chunks: usize,
}

impl ContentStore {
    /// Fetches a file of at most `limit` bytes, and replaces the file at this path. Its directory must belong to the caller, and only one fetch at a time may
    /// write there. A fetch that was interrupted leaves its chunks in a [`PartialFile`]; the next one checks and keeps them.
    pub async fn get_file(
        &self,
        file: ContentAddress,
        path: &Path,
        limit: u64,
    ) -> Result<FetchedFile> {
        let value = self.read_value(ContentKey::File(file)).await?;
        let value = value.ok_or(ContentDefect::FileMissing { file })?;
        let entry = FileEntry::decode(&value)
            .map_err(|source| ContentDefect::EntryInvalid { file, source })?;
        let bytes = entry.size();
        if bytes > limit {
            return Err(ContentError::TooLarge { file, bytes, limit });
        }
        match entry {
            FileEntry::Whole(content) if ContentAddress::of(content) != file => {
                Err(ContentDefect::FileAltered { file }.into())
            }
            FileEntry::Whole(content) => {
                let (path, content) = (path.to_owned(), value.slice_ref(content));
                let target = path.clone();
                let written =
                    run_blocking(move || replace_file(&target, &content, FETCHED_FILE_MODE)).await;
                written.map_err(|source| ContentError::Target { path, source })?;
                Ok(FetchedFile { bytes, fetched_chunks: 0, kept_chunks: 0 })
            }
            FileEntry::Chunked(list) => self.get_chunks(file, list, path).await,
        }
    }

    /// Reads a file of at most `limit` bytes that is small enough to be stored without chunks.
    pub async fn read_file(&self, file: ContentAddress, limit: usize) -> Result<Bytes> {
        let value = self.read_value(ContentKey::File(file)).await?;
        let value = value.ok_or(ContentDefect::FileMissing { file })?;
        let entry = FileEntry::decode(&value)
            .map_err(|source| ContentDefect::EntryInvalid { file, source })?;
        match entry {
            FileEntry::Whole(content) if content.len() <= limit => {
                if ContentAddress::of(content) != file {
                    return Err(ContentDefect::FileAltered { file }.into());
                }
                Ok(value.slice_ref(content))
            }
            entry => {
                let limit = u64::try_from(limit).unwrap_or(u64::MAX);
                Err(ContentError::TooLarge { file, bytes: entry.size(), limit })
            }
        }
    }

    async fn get_chunks(
        &self,
        file: ContentAddress,
        list: ChunkList,
        path: &Path,
    ) -> Result<FetchedFile> {
        let failed = |source| ContentError::Target { path: path.to_owned(), source };
        let target = ChunkTarget::open(path, list).await.map_err(failed)?;
        let list = Arc::clone(&target.list);
        let present = target.find_chunks().await.map_err(failed)?;
        let chunks = list.chunks().iter().zip(&present);
        let lacking: Vec<ContentAddress> =
            chunks.filter(|(_, present)| !**present).map(|(chunk, _)| *chunk).collect();
        let fetched_chunks = lacking.len();
        let mut reader = ChunkReader::new(self, file, lacking.into_iter());
        let mut verifier = FileVerifier::new(file, &list);
        for (index, is_present) in present.into_iter().enumerate() {
            if is_present {
                let bytes = target.read_chunk(index).await.map_err(failed)?;
                verifier.accept_chunk(&bytes)?;
            } else if let Some(bytes) = reader.next().await {
                let bytes = bytes?;
                verifier.accept_chunk(&bytes)?;
                target.write_chunk(index, bytes).await.map_err(failed)?;
            }
        }
        if let Err(defect) = verifier.finish() {
            // The chunks are those of the list, so the next fetch would keep them.
            target.discard().await.map_err(failed)?;
            return Err(defect.into());
        }
        target.commit().await.map_err(failed)?;
        let kept_chunks = list.chunks().len() - fetched_chunks;
        Ok(FetchedFile { bytes: list.size(), fetched_chunks, kept_chunks })
    }
}

/// The file that is written, off the runtime's threads.
struct ChunkTarget {
    file: Arc<PartialFile>,
    list: Arc<ChunkList>,
}

impl ChunkTarget {
    async fn open(path: &Path, list: ChunkList) -> io::Result<Self> {
        let path = path.to_owned();
        let file = run_blocking(move || PartialFile::open(&path)).await?;
        Ok(Self { file: Arc::new(file), list: Arc::new(list) })
    }

    /// Which chunks an interrupted fetch has left, in the order of the file.
    async fn find_chunks(&self) -> io::Result<Vec<bool>> {
        let (file, list) = (Arc::clone(&self.file), Arc::clone(&self.list));
        run_blocking(move || {
            let is_present = |(index, chunk): (usize, &ContentAddress)| {
                let part = file.read_part(chunk_offset(index), list.chunk_bytes(index))?;
                Ok(part.is_some_and(|part| ContentAddress::of(&part) == *chunk))
            };
            list.chunks().iter().enumerate().map(is_present).collect()
        })
        .await
    }

    async fn read_chunk(&self, index: usize) -> io::Result<Vec<u8>> {
        let (file, size) = (Arc::clone(&self.file), self.list.chunk_bytes(index));
        let part = run_blocking(move || file.read_part(chunk_offset(index), size)).await?;
        part.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    async fn write_chunk(&self, index: usize, bytes: Bytes) -> io::Result<()> {
        let file = Arc::clone(&self.file);
        run_blocking(move || file.write_part(chunk_offset(index), &bytes)).await
    }

    async fn commit(self) -> io::Result<()> {
        run_blocking(move || self.file.commit(self.list.size())).await
    }

    async fn discard(self) -> io::Result<()> {
        run_blocking(move || self.file.discard()).await
    }
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}
