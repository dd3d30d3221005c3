//! Entries of files in the content store: what was written is read, everything else is refused, and no altered byte is accepted.

use muster_wire::catalog::content::{
    CHUNK_BYTES, ChunkList, ContentAddress, ContentDefect, ContentDigest, ContentEntryError,
    ContentKey, FileEntry, FileVerifier, MAX_CHUNKS, MAX_ENTRY_BYTES, chunk_offset,
};
use muster_wire::stores::CONTENT_BUCKET;
use proptest::prelude::*;

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A number of bytes that differ from chunk to chunk.
fn file_of(size: usize) -> Vec<u8> {
    (0..size).map(|position| u8::try_from(position / 7 % 251).unwrap()).collect()
}

fn digest_of(file: &[u8]) -> (ContentAddress, ChunkList) {
    let mut digest = ContentDigest::default();
    for chunk in file.chunks(CHUNK_BYTES) {
        assert_eq!(digest.add_chunk(chunk).unwrap(), ContentAddress::of(chunk));
    }
    digest.finish().unwrap()
}

#[test]
fn address_is_one_text_in_lower_case() {
    let empty = ContentAddress::of(b"");
    assert_eq!((empty.to_string(), format!("{empty:?}")), (EMPTY.to_owned(), EMPTY.to_owned()));
    assert_eq!(EMPTY.parse::<ContentAddress>().unwrap(), empty);
    let json = serde_json::to_string(&empty).unwrap();
    assert_eq!(json, format!("\"{EMPTY}\""));
    assert_eq!(serde_json::from_str::<ContentAddress>(&json).unwrap(), empty);
    let (short, long) = (&EMPTY[1..], format!("{EMPTY}0"));
    let (upper, other) = (EMPTY.to_uppercase(), EMPTY.replacen('e', "g", 1));
    let multibyte = EMPTY.replacen("e3", "ü", 1);
    for text in ["", short, &long, &upper, &other, &multibyte, &" ".repeat(64)] {
        let error = text.parse::<ContentAddress>().unwrap_err();
        assert!(error.to_string().contains("64 lower-case hexadecimal digits"), "{text}: {error}");
    }
    let error = "x".repeat(4096).parse::<ContentAddress>().unwrap_err();
    assert!(error.to_string().len() < 200, "{error}");
}

#[test]
fn keys_are_those_of_files_and_chunks() {
    let address = ContentAddress::of(b"");
    for (key, text) in [
        (ContentKey::File(address), format!("file.{EMPTY}")),
        (ContentKey::Chunk(address), format!("chunk.{EMPTY}")),
    ] {
        assert_eq!(key.to_string(), text);
        assert_eq!(ContentKey::parse(&text), Some(key));
    }
    let upper = format!("file.{}", EMPTY.to_uppercase());
    let longer = format!("file.{EMPTY}.x");
    for other in ["", "file", "file.", "file.*", EMPTY, &upper, &longer, "other.x"] {
        assert_eq!(ContentKey::parse(other), None, "{other}");
    }
    let other = format!("other.{EMPTY}");
    assert_eq!(ContentKey::parse(&other), None);
}

#[test]
fn largest_entries_fit_a_value_of_the_bucket() {
    // The headers with which the broker compares revisions have less than 100 bytes.
    let limit = usize::try_from(CONTENT_BUCKET.max_value_bytes).unwrap() - 100;
    let largest = vec![7; CHUNK_BYTES];
    let whole = FileEntry::Whole(&largest).encode().unwrap();
    assert_eq!(whole.len(), CHUNK_BYTES + 1);
    let size = chunk_offset(MAX_CHUNKS);
    let list = ChunkList::new(size, vec![ContentAddress::of(b""); MAX_CHUNKS]).unwrap();
    let list = FileEntry::Chunked(list).encode().unwrap();
    assert_eq!(list.len(), MAX_ENTRY_BYTES);
    assert!(whole.len() <= limit && list.len() <= limit);
    assert_eq!(FileEntry::decode(&list).unwrap().size(), size);
    let more = [&list[..], &[0; 32]].concat();
    assert_eq!(FileEntry::decode(&more), Err(ContentEntryError::TooManyChunks));
    let larger = vec![7; CHUNK_BYTES + 1];
    let refused = FileEntry::Whole(&larger).encode().unwrap_err();
    let limit = CHUNK_BYTES + 1;
    assert_eq!(refused, ContentEntryError::TooLarge { bytes: limit + 1, limit });
    let entry = [&[0][..], &larger].concat();
    assert_eq!(FileEntry::decode(&entry), Err(refused));
}

#[test]
fn invalid_entries_are_refused() {
    let list = |size: u64, chunks: usize| {
        let hashes = [1; 32].repeat(chunks);
        [&[1, 1][..], &size.to_be_bytes(), &hashes].concat()
    };
    let chunk = CHUNK_BYTES as u64;
    let wrong = |size, chunks| ContentEntryError::WrongSize { size, chunks };
    assert_eq!(FileEntry::decode(&list(chunk + 1, 2)).unwrap().size(), chunk + 1);
    let mut other_version = list(chunk + 1, 2);
    other_version[1] = 2;
    for (entry, error) in [
        (vec![], ContentEntryError::Empty),
        (vec![2], ContentEntryError::UnknownForm(2)),
        (vec![1], ContentEntryError::Incomplete(1)),
        (list(chunk + 1, 2)[..9].to_vec(), ContentEntryError::Incomplete(9)),
        (list(chunk + 1, 2)[..73].to_vec(), ContentEntryError::Incomplete(73)),
        (other_version, ContentEntryError::UnknownVersion(2)),
        // Small files have no list, and no file has an empty chunk.
        (list(0, 0), wrong(0, 0)),
        (list(chunk, 1), wrong(chunk, 1)),
        (list(chunk + 1, 1), wrong(chunk + 1, 1)),
        (list(2 * chunk, 3), wrong(2 * chunk, 3)),
        (list(u64::MAX, 2), wrong(u64::MAX, 2)),
    ] {
        assert_eq!(FileEntry::decode(&entry), Err(error));
    }
}

#[test]
fn digest_refuses_what_no_list_describes() {
    let mut digest = ContentDigest::default();
    digest.add_chunk(b"small").unwrap();
    assert_eq!(digest.finish(), Err(ContentEntryError::WrongSize { size: 5, chunks: 1 }));
    let mut digest = ContentDigest::default();
    for _ in 0..MAX_CHUNKS {
        digest.add_chunk(b"x").unwrap();
    }
    assert_eq!(digest.add_chunk(b"x"), Err(ContentEntryError::TooManyChunks));
}

#[test]
fn file_is_accepted_only_whole_and_in_order() {
    let bytes = file_of(2 * CHUNK_BYTES + 10);
    let (file, list) = digest_of(&bytes);
    assert_eq!(file, ContentAddress::of(&bytes));
    assert_eq!(
        [0, 1, 2, 3].map(|index| list.chunk_bytes(index)),
        [CHUNK_BYTES, CHUNK_BYTES, 10, 0]
    );
    let chunks: Vec<&[u8]> = bytes.chunks(CHUNK_BYTES).collect();
    let mut verifier = FileVerifier::new(file, &list);
    let altered = Err(ContentDefect::FileAltered { file });
    assert_eq!(verifier.clone().finish(), altered, "no chunk");
    let chunk = list.chunks()[0];
    let refused = Err(ContentDefect::ChunkAltered { file, chunk });
    assert_eq!(verifier.accept_chunk(chunks[1]), refused, "the second one first");
    assert_eq!(verifier.accept_chunk(&chunks[0][1..]), refused, "a part");
    for chunk in &chunks {
        assert_eq!(verifier.clone().finish(), altered, "some are missing");
        verifier.accept_chunk(chunk).unwrap();
    }
    assert_eq!(verifier.clone().accept_chunk(chunks[2]), altered, "one more");
    verifier.finish().unwrap();
    // A list of intact chunks that are not those of the file.
    let mut verifier = FileVerifier::new(ContentAddress::of(b"other"), &list);
    for chunk in &chunks {
        verifier.accept_chunk(chunk).unwrap();
    }
    assert!(matches!(verifier.finish(), Err(ContentDefect::FileAltered { .. })));
}

proptest! {
    #[test]
    fn every_entry_that_is_read_is_written_to_the_same_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(entry) = FileEntry::decode(&bytes) {
            prop_assert_eq!(entry.encode().unwrap(), bytes);
        }
    }

    #[test]
    fn lists_are_read_as_they_were_written(
        hashes in prop::collection::vec(any::<[u8; 32]>(), 2..20),
        last in 1..=CHUNK_BYTES,
        cut in any::<prop::sample::Index>(),
    ) {
        let chunks: Vec<_> = hashes.into_iter().map(ContentAddress::from_bytes).collect();
        let size = chunk_offset(chunks.len() - 1) + last as u64;
        let list = ChunkList::new(size, chunks).unwrap();
        prop_assert_eq!(list.chunk_bytes(list.chunks().len() - 1), last);
        let entry = FileEntry::Chunked(list);
        let bytes = entry.encode().unwrap();
        prop_assert_eq!(FileEntry::decode(&bytes).unwrap(), entry);
        let part = &bytes[..cut.index(bytes.len())];
        prop_assert!(FileEntry::decode(part).is_err());
    }

    #[test]
    fn small_files_are_read_as_they_were_written(content in prop::collection::vec(any::<u8>(), 0..2000)) {
        let entry = FileEntry::Whole(&content);
        let bytes = entry.encode().unwrap();
        prop_assert_eq!(entry.size(), content.len() as u64);
        prop_assert_eq!(FileEntry::decode(&bytes).unwrap(), entry);
    }

    #[test]
    fn altered_byte_of_a_chunk_is_found(position in any::<prop::sample::Index>(), flip in 1_u8..) {
        let mut bytes = file_of(CHUNK_BYTES + 1000);
        let (file, list) = digest_of(&bytes);
        let position = position.index(bytes.len());
        bytes[position] ^= flip;
        let mut verifier = FileVerifier::new(file, &list);
        let results: Vec<_> =
            bytes.chunks(CHUNK_BYTES).map(|chunk| verifier.accept_chunk(chunk)).collect();
        let chunk = list.chunks()[position / CHUNK_BYTES];
        let refused = Err(ContentDefect::ChunkAltered { file, chunk });
        prop_assert!(results.contains(&refused));
    }
}
