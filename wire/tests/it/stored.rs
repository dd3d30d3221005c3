//! Stored requests: only the reference reads them, and nothing altered is read.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_wire::limits::MAX_REQUEST_BYTES;
use muster_wire::stored_request::{MAX_STORED_BYTES, RequestReference, StoredRequestError};
use muster_wire::stores::REQUESTS_BUCKET;
use proptest::prelude::*;

#[test]
fn key_and_value_are_those_of_another_implementation() {
    let reference = RequestReference::parse(&[7; 32]).unwrap();
    assert_eq!(reference.bucket_key(), "1sgTDag7NNcXQHO8hUniPw");
    let value = reference.encrypt_request(b"{}").unwrap();
    assert_eq!(URL_SAFE_NO_PAD.encode(value), "TPlD5Zy10PjwBu51S66TbgaH");
}

#[test]
fn reference_has_32_bytes_and_is_not_printed() {
    for size in [0, 31, 33, 4096] {
        assert!(RequestReference::parse(&vec![1; size]).is_none(), "{size}");
    }
    let reference = RequestReference::parse(&[255; 32]).unwrap();
    assert_eq!(format!("{reference:?}"), "RequestReference { .. }");
    let other = RequestReference::generate().unwrap();
    assert_ne!(other.as_bytes(), RequestReference::generate().unwrap().as_bytes());
}

#[test]
fn largest_request_fits_the_bucket_and_a_larger_one_is_refused() {
    let reference = RequestReference::generate().unwrap();
    let stored = reference.encrypt_request(&vec![b'x'; MAX_REQUEST_BYTES]).unwrap();
    assert_eq!(stored.len(), MAX_STORED_BYTES);
    assert!(stored.len() < usize::try_from(REQUESTS_BUCKET.max_value_bytes).unwrap());
    let size = MAX_REQUEST_BYTES + 1;
    let error = reference.encrypt_request(&vec![b'x'; size]).unwrap_err();
    assert_eq!(error, StoredRequestError::TooLarge(size));
    let error = reference.decrypt_request(&vec![0; MAX_STORED_BYTES + 1]).unwrap_err();
    assert_eq!(error, StoredRequestError::Decrypt);
}

proptest! {
    #[test]
    fn stored_request_is_read_unless_it_was_altered(
        key in any::<[u8; 32]>(),
        request in prop::collection::vec(any::<u8>(), 0..600),
        position in any::<prop::sample::Index>(),
        flip in 1_u8..,
    ) {
        let reference = RequestReference::parse(&key).unwrap();
        let mut stored = reference.encrypt_request(&request).unwrap();
        prop_assert_eq!(reference.decrypt_request(&stored).unwrap(), request);
        let position = position.index(stored.len());
        stored[position] ^= flip;
        prop_assert_eq!(reference.decrypt_request(&stored), Err(StoredRequestError::Decrypt));
        let mut other = key;
        other[usize::from(flip) % 32] ^= flip;
        let other = RequestReference::parse(&other).unwrap();
        prop_assert_ne!(other.bucket_key(), reference.bucket_key());
    }
}
