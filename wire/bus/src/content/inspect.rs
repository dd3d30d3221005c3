//! Lists the files of the content store, and checks every byte of it.

use std::collections::{BTreeSet, HashMap};

use muster_wire::Millis;
use muster_wire::catalog::content::{
    ContentAddress, ContentDefect, ContentKey, FileEntry, FileVerifier,
};

use super::error::{ContentError, Result};
use super::read_ahead::ChunkReader;
use super::store::ContentStore;
use crate::store::BucketEntry;

/// Bytes of values that are in memory while the bucket is read.
pub(super) const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// A file of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredFile {
    /// Its address.
    pub file: ContentAddress,
    /// Its size in bytes.
    pub bytes: u64,
    /// Number of its chunks; 0 if its entry has the bytes.
    pub chunks: usize,
    /// When its entry was written, by the broker's clock.
    pub stored_at: Millis,
}

/// What a verification has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerificationReport {
    /// Files that were checked.
    pub files: usize,
    /// Chunks that were checked.
    pub chunks: usize,
    /// Bytes of their values.
    pub bytes: u64,
    /// What is missing or altered.
    pub defects: Vec<ContentDefect>,
}

impl ContentStore {
    /// The files of the store, in the order of their addresses. An entry that is invalid is left out; [`Self::verify`] reports it.
    pub async fn list(&self) -> Result<Vec<StoredFile>> {
        let mut files = HashMap::new();
        self.bucket()
            .visit_values("file.*", PAGE_BYTES, |entry| {
                if let Some(stored) = parse_file(&entry) {
                    files.insert(stored.file, stored);
                }
            })
            .await?;
        let mut files: Vec<StoredFile> = files.into_values().collect();
        files.sort_unstable_by_key(|stored| stored.file);
        Ok(files)
    }

    /// Reads everything, and reports what is altered or missing. Chunks are read twice: each by itself, and as a part of its files.
    pub async fn verify(&self) -> Result<VerificationReport> {
        let mut scan = ContentScan::default();
        self.bucket().visit_values(">", PAGE_BYTES, |entry| scan.check_entry(&entry)).await?;
        let ContentScan { mut report, chunked_files, altered_chunks } = scan;
        let mut stray_chunks = altered_chunks;
        for file in chunked_files {
            self.verify_chunks(file, &mut report, &mut stray_chunks).await?;
        }
        let stray_chunks = stray_chunks.into_iter();
        report.defects.extend(stray_chunks.map(|chunk| ContentDefect::StrayChunkAltered { chunk }));
        Ok(report)
    }

    /// Checks all chunks of a file. Those that it has are no strays.
    async fn verify_chunks(
        &self,
        file: ContentAddress,
        report: &mut VerificationReport,
        stray_chunks: &mut BTreeSet<ContentAddress>,
    ) -> Result<()> {
        let value = self.read_value(ContentKey::File(file)).await?;
        // It was deleted or written again meanwhile.
        let Some(Ok(FileEntry::Chunked(list))) = value.as_deref().map(FileEntry::decode) else {
            return Ok(());
        };
        let defects_before = report.defects.len();
        let mut reader = ChunkReader::new(self, file, list.chunks().iter().copied());
        let mut verifier = FileVerifier::new(file, &list);
        for &chunk in list.chunks() {
            let Some(bytes) = reader.next().await else { break };
            stray_chunks.remove(&chunk);
            match bytes {
                Ok(bytes) if ContentAddress::of(&bytes) == chunk => {
                    // After a defect, the file is not accepted as a whole.
                    let _ = verifier.accept_chunk(&bytes);
                }
                Ok(_) => report.defects.push(ContentDefect::ChunkAltered { file, chunk }),
                Err(ContentError::Defect(defect)) => report.defects.push(defect),
                Err(error) => return Err(error),
            }
        }
        if report.defects.len() == defects_before
            && let Err(defect) = verifier.finish()
        {
            report.defects.push(defect);
        }
        Ok(())
    }
}

/// What each entry shows by itself.
#[derive(Default)]
struct ContentScan {
    report: VerificationReport,
    chunked_files: BTreeSet<ContentAddress>,
    altered_chunks: BTreeSet<ContentAddress>,
}

impl ContentScan {
    fn check_entry(&mut self, entry: &BucketEntry) {
        let (Some(key), Some(value)) = (ContentKey::parse(&entry.key), entry.value.as_deref())
        else {
            return;
        };
        self.report.bytes += value.len() as u64;
        match key {
            ContentKey::File(file) => {
                self.report.files += 1;
                self.check_file(file, value);
            }
            ContentKey::Chunk(chunk) => {
                self.report.chunks += 1;
                if ContentAddress::of(value) != chunk {
                    self.altered_chunks.insert(chunk);
                }
            }
        }
    }

    fn check_file(&mut self, file: ContentAddress, value: &[u8]) {
        match FileEntry::decode(value) {
            Ok(FileEntry::Whole(bytes)) if ContentAddress::of(bytes) == file => {}
            Ok(FileEntry::Whole(_)) => {
                self.report.defects.push(ContentDefect::FileAltered { file });
            }
            Ok(FileEntry::Chunked(_)) => {
                self.chunked_files.insert(file);
            }
            Err(source) => self.report.defects.push(ContentDefect::EntryInvalid { file, source }),
        }
    }
}

fn parse_file(entry: &BucketEntry) -> Option<StoredFile> {
    let Some(ContentKey::File(file)) = ContentKey::parse(&entry.key) else { return None };
    let decoded = FileEntry::decode(entry.value.as_deref()?).ok()?;
    let chunks = match &decoded {
        FileEntry::Whole(_) => 0,
        FileEntry::Chunked(list) => list.chunks().len(),
    };
    Some(StoredFile { file, bytes: decoded.size(), chunks, stored_at: entry.created })
}
