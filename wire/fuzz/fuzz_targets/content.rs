//! Entries of files in the content store: decoding does not panic, and what is decoded encodes to the same bytes and describes whole files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::catalog::content::{
    CHUNK_BYTES, ContentAddress, ContentKey, FileEntry, FileVerifier, MAX_CHUNKS,
};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Some(key) = ContentKey::parse(text) {
            assert_eq!(key.to_string(), text);
        }
        if let Ok(address) = text.parse::<ContentAddress>() {
            assert_eq!(address.to_string(), text);
        }
    }
    let Ok(entry) = FileEntry::decode(bytes) else { return };
    assert_eq!(entry.encode().expect("it was decoded"), bytes);
    match &entry {
        FileEntry::Whole(content) => assert!(content.len() <= CHUNK_BYTES),
        FileEntry::Chunked(list) => {
            let count = list.chunks().len();
            assert!((2..=MAX_CHUNKS).contains(&count));
            let sizes = (0..count).map(|index| list.chunk_bytes(index));
            assert!(sizes.clone().all(|size| size > 0));
            assert_eq!(sizes.map(|size| size as u64).sum::<u64>(), list.size());
            let mut verifier = FileVerifier::new(ContentAddress::of(bytes), list);
            assert!(verifier.accept_chunk(bytes).is_err() && verifier.finish().is_err());
        }
    }
});
