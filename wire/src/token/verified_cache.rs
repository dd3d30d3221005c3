//! File format of verified tokens, so that a caller's next command need not verify them again.
//!
//! ```text
//! 0                        24                    56          96         ...   -64
//! | "muster.vouched.v1" .. | trust's fingerprint | entry 1   | entry 2  | ... | signature |
//!
//! entry: SHA-256 of the token (32), the token's expiry in milliseconds, little endian (8)
//! ```
//!
//! The magic is padded with NUL. The signature covers everything before it, by the caller's own key. Files of other writers or
//! of another trust are ignored. Only the issuer's signature check is saved: form, validity period, account, role and revocation
//! are checked at each use.

use std::collections::HashMap;

use ed25519_dalek::{Signature, Verifier as _};

use super::cache::TokenDigest;
use super::nkey::{KeyPair, PublicKey};
use crate::{Millis, limits};

const FILE_MAGIC: &[u8; 24] = b"muster.vouched.v1\0\0\0\0\0\0\0";
const ENTRY_BYTES: usize = 40;
const HEADER_AND_SIGNATURE_BYTES: usize = FILE_MAGIC.len() + 32 + Signature::BYTE_SIZE;

/// Largest file that is read, in bytes.
pub const MAX_FILE_BYTES: usize =
    HEADER_AND_SIGNATURE_BYTES + limits::MAX_VERIFIED_TOKENS * ENTRY_BYTES;

/// Expiry of verified tokens, by token hash.
pub(super) type VerifiedTokens = HashMap<TokenDigest, Millis>;

/// Encodes the tokens verified under this trust. Tokens beyond the limit are omitted.
pub(super) fn encode_verified_tokens(
    fingerprint: &[u8; 32],
    tokens: impl ExactSizeIterator<Item = (TokenDigest, Millis)>,
    key: &KeyPair,
) -> Vec<u8> {
    let count = tokens.len().min(limits::MAX_VERIFIED_TOKENS);
    let mut bytes = Vec::with_capacity(HEADER_AND_SIGNATURE_BYTES + count * ENTRY_BYTES);
    bytes.extend_from_slice(FILE_MAGIC);
    bytes.extend_from_slice(fingerprint);
    for (digest, until) in tokens.take(count) {
        bytes.extend_from_slice(&digest);
        bytes.extend_from_slice(&until.to_le_bytes());
    }
    let signature = key.sign(&bytes);
    bytes.extend_from_slice(&signature.to_bytes());
    bytes
}

/// Decodes a file signed by this key for this trust, without expired tokens; `None` for any other content.
pub(super) fn decode_verified_tokens(
    bytes: &[u8],
    fingerprint: &[u8; 32],
    key: PublicKey,
    now: Millis,
) -> Option<VerifiedTokens> {
    if bytes.len() > MAX_FILE_BYTES {
        return None;
    }
    let (signed, signature) = bytes.split_last_chunk::<{ Signature::BYTE_SIZE }>()?;
    let entries = signed.strip_prefix(FILE_MAGIC)?.strip_prefix(fingerprint)?;
    let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
    let signature = Signature::from_bytes(signature);
    let is_valid = rest.is_empty() && key.verifying_key().ok()?.verify(signed, &signature).is_ok();
    let parse_entry = |entry: &[u8; ENTRY_BYTES]| {
        let (digest, until) = entry.split_first_chunk::<32>()?;
        let until = Millis::from_le_bytes(until.try_into().ok()?);
        (until >= now).then_some((*digest, until))
    };
    is_valid.then(|| entries.iter().filter_map(parse_entry).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        ENTRY_BYTES, FILE_MAGIC, MAX_FILE_BYTES, VerifiedTokens, decode_verified_tokens,
        encode_verified_tokens,
    };
    use crate::limits;
    use crate::token::{KeyKind, KeyPair};

    fn tokens(count: usize) -> VerifiedTokens {
        let entry = |n: usize| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&n.to_le_bytes());
            (digest, 1000 + n as u64)
        };
        (0..count).map(entry).collect()
    }

    #[test]
    fn cache_is_readable_with_its_key_until_entries_expire() {
        let key = KeyPair::generate(KeyKind::User).unwrap();
        let trust = [7; 32];
        for count in [0, 1, 100] {
            let bytes = encode_verified_tokens(&trust, tokens(count).into_iter(), &key);
            assert_eq!(
                decode_verified_tokens(&bytes, &trust, key.public_key(), 0),
                Some(tokens(count))
            );
        }
        let bytes = encode_verified_tokens(&trust, tokens(10).into_iter(), &key);
        let later = decode_verified_tokens(&bytes, &trust, key.public_key(), 1004).unwrap();
        assert_eq!(later.len(), 6);
    }

    #[test]
    fn other_key_other_trust_or_changed_byte_invalidates_the_cache() {
        let (key, other) = (KeyPair::generate(KeyKind::User), KeyPair::generate(KeyKind::User));
        let (key, other) = (key.unwrap(), other.unwrap());
        let trust = [7; 32];
        let bytes = encode_verified_tokens(&trust, tokens(3).into_iter(), &key);
        assert_eq!(decode_verified_tokens(&bytes, &trust, other.public_key(), 0), None);
        assert_eq!(decode_verified_tokens(&bytes, &[8; 32], key.public_key(), 0), None);
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert_eq!(
                decode_verified_tokens(&changed, &trust, key.public_key(), 0),
                None,
                "{place}"
            );
        }
        for length in 0..bytes.len() {
            assert_eq!(decode_verified_tokens(&bytes[..length], &trust, key.public_key(), 0), None);
        }
    }

    #[test]
    fn number_of_entries_is_limited() {
        let key = KeyPair::generate(KeyKind::User).unwrap();
        let bytes = encode_verified_tokens(
            &[7; 32],
            tokens(limits::MAX_VERIFIED_TOKENS + 9).into_iter(),
            &key,
        );
        assert_eq!(bytes.len(), MAX_FILE_BYTES);
        let read = decode_verified_tokens(&bytes, &[7; 32], key.public_key(), 0).unwrap();
        assert_eq!(read.len(), limits::MAX_VERIFIED_TOKENS);
        let longer = [&bytes[..], &[0; 40]].concat();
        assert_eq!(decode_verified_tokens(&longer, &[7; 32], key.public_key(), 0), None);
    }

    proptest! {
        /// A signed file must consist of whole entries; their contents are arbitrary.
        #[test]
        fn signed_content_is_read_completely_or_refused(content: Vec<u8>, now: u64) {
            let key = KeyPair::from_raw(KeyKind::User, &[9; 32]);
            let mut bytes = [FILE_MAGIC.as_slice(), &[7; 32], &content].concat();
            bytes.extend_from_slice(&key.sign(&bytes).to_bytes());
            let read = decode_verified_tokens(&bytes, &[7; 32], key.public_key(), now);
            prop_assert_eq!(read.is_some(), content.len().is_multiple_of(ENTRY_BYTES));
            let alive = read.unwrap_or_default();
            prop_assert!(alive.len() <= content.len() / ENTRY_BYTES);
            prop_assert!(alive.values().all(|until| *until >= now));
        }
    }
}
