//! Decides what is deleted from the content store. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use muster_base::duration_millis;
use muster_wire::Millis;
use muster_wire::catalog::content::{ContentAddress, ContentKey, FileEntry};

use crate::store::BucketEntry;

/// Younger entries are kept: a catalog that names them may not be stored yet.
const SPARED_AGE: Duration = Duration::from_hours(24);

/// One entry of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundEntry {
    pub(super) key: ContentKey,
    /// The revision that a deletion names.
    pub(super) revision: u64,
    pub(super) bytes: u64,
    is_young: bool,
    /// Whether the chunks that it reaches are known.
    is_readable: bool,
}

/// What the store has, as far as it was read.
#[derive(Debug)]
pub(super) struct CollectionPlan<'a> {
    marked: &'a BTreeSet<ContentAddress>,
    now: Millis,
    found: HashMap<ContentKey, FoundEntry>,
    reached: HashSet<ContentAddress>,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct PlannedDeletions {
    /// First the files, so that no file ever lacks a chunk.
    pub(super) files: Vec<FoundEntry>,
    /// Then the chunks.
    pub(super) chunks: Vec<FoundEntry>,
    pub(super) kept: Vec<FoundEntry>,
    /// Files that are kept, but are missing or unreadable. Their chunks are unknown, so no chunk is deleted.
    pub(super) broken: Vec<ContentAddress>,
}

impl<'a> CollectionPlan<'a> {
    pub(super) fn new(marked: &'a BTreeSet<ContentAddress>, now: Millis) -> Self {
        Self { marked, now, found: HashMap::new(), reached: HashSet::new() }
    }

    /// Adds an entry. A later one of the same key replaces it. Keys of other kinds are left alone.
    pub(super) fn add_entry(&mut self, entry: &BucketEntry) {
        let (Some(key), Some(value)) = (ContentKey::parse(&entry.key), entry.value.as_deref())
        else {
            return;
        };
        let is_young = self.now.saturating_sub(entry.created) < duration_millis(SPARED_AGE);
        let mut is_readable = true;
        if let ContentKey::File(file) = key
            && (is_young || self.marked.contains(&file))
        {
            match FileEntry::decode(value) {
                Ok(FileEntry::Whole(_)) => {}
                Ok(FileEntry::Chunked(list)) => self.reached.extend(list.chunks()),
                Err(_) => is_readable = false,
            }
        }
        let (revision, bytes) = (entry.revision, value.len() as u64);
        self.found.insert(key, FoundEntry { key, revision, bytes, is_young, is_readable });
    }

    pub(super) fn finish(self) -> PlannedDeletions {
        let mut planned = PlannedDeletions::default();
        let is_found = |file: &&ContentAddress| self.found.contains_key(&ContentKey::File(**file));
        planned.broken.extend(self.marked.iter().filter(|file| !is_found(file)));
        for entry in self.found.values() {
            match entry.key {
                ContentKey::File(file) if entry.is_young || self.marked.contains(&file) => {
                    planned.kept.push(*entry);
                    planned.broken.extend((!entry.is_readable).then_some(file));
                }
                ContentKey::Chunk(chunk) if entry.is_young || self.reached.contains(&chunk) => {
                    planned.kept.push(*entry);
                }
                ContentKey::File(_) => planned.files.push(*entry),
                ContentKey::Chunk(_) => planned.chunks.push(*entry),
            }
        }
        planned.broken.sort_unstable();
        if !planned.broken.is_empty() {
            planned.kept.append(&mut planned.chunks);
        }
        planned
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use muster_wire::catalog::content::{CHUNK_BYTES, ChunkList};

    use super::*;

    const DAY: Millis = 24 * 60 * 60 * 1000;
    const NOW: Millis = 100 * DAY;

    fn address(name: &str) -> ContentAddress {
        ContentAddress::of(name.as_bytes())
    }

    fn entry(key: ContentKey, value: impl Into<Bytes>, created: Millis) -> BucketEntry {
        BucketEntry { key: key.to_string(), value: Some(value.into()), revision: 1, created }
    }

    fn file_of_chunks(name: &str, chunks: [&str; 2], created: Millis) -> BucketEntry {
        let list = ChunkList::new(CHUNK_BYTES as u64 + 1, chunks.map(address).into()).unwrap();
        let value = FileEntry::Chunked(list).encode().unwrap();
        entry(ContentKey::File(address(name)), value, created)
    }

    fn chunk(name: &str, created: Millis) -> BucketEntry {
        entry(ContentKey::Chunk(address(name)), "x", created)
    }

    fn plan(marked: &[&str], entries: &[BucketEntry]) -> PlannedDeletions {
        let marked = marked.iter().map(|name| address(name)).collect();
        let mut plan = CollectionPlan::new(&marked, NOW);
        for entry in entries {
            plan.add_entry(entry);
        }
        plan.finish()
    }

    fn keys(entries: &[FoundEntry]) -> HashSet<ContentKey> {
        entries.iter().map(|entry| entry.key).collect()
    }

    fn chunks(names: &[&str]) -> HashSet<ContentKey> {
        names.iter().map(|name| ContentKey::Chunk(address(name))).collect()
    }

    #[test]
    fn chunks_of_marked_and_of_young_files_are_kept() {
        let (old, young) = (NOW - DAY, NOW - DAY + 1);
        let planned = plan(
            &["marked"],
            &[
                file_of_chunks("marked", ["a", "b"], old),
                file_of_chunks("young", ["b", "c"], young),
                file_of_chunks("old", ["c", "d"], old),
                chunk("a", old),
                chunk("b", old),
                chunk("c", old),
                chunk("d", old),
                chunk("e", young),
            ],
        );
        assert_eq!(keys(&planned.files), HashSet::from([ContentKey::File(address("old"))]));
        assert_eq!(keys(&planned.chunks), chunks(&["d"]));
        assert_eq!((planned.kept.len(), planned.broken.len()), (6, 0));
    }

    #[test]
    fn no_chunk_is_deleted_while_a_kept_file_is_missing_or_unreadable() {
        let unreadable = entry(ContentKey::File(address("marked")), "\u{7f}", 0);
        let missing = plan(&["marked"], &[chunk("a", 0)]);
        let unreadable = plan(&["marked"], &[chunk("a", 0), unreadable]);
        for planned in [missing, unreadable] {
            assert_eq!(planned.broken, [address("marked")]);
            assert_eq!((planned.chunks.len(), planned.files.len()), (0, 0));
            assert!(keys(&planned.kept).is_superset(&chunks(&["a"])));
        }
        // An unreadable file that nothing needs is deleted.
        let planned =
            plan(&[], &[entry(ContentKey::File(address("old")), "\u{7f}", 0), chunk("a", 0)]);
        assert_eq!((planned.files.len(), planned.chunks.len()), (1, 1));
    }

    #[test]
    fn entry_that_was_written_again_meanwhile_is_young() {
        let mut again = chunk("a", NOW);
        again.revision = 2;
        let planned = plan(&[], &[chunk("a", 0), again]);
        assert_eq!((planned.chunks.len(), planned.kept.len()), (0, 1));
        assert_eq!(planned.kept[0].revision, 2);
    }

    #[test]
    fn keys_of_other_kinds_are_left_alone() {
        let mut other = chunk("a", 0);
        other.key = "other.x".to_owned();
        let planned = plan(&[], &[other]);
        assert_eq!((planned.chunks.len(), planned.files.len(), planned.kept.len()), (0, 0, 0));
    }
}
