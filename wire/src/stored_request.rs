//! A request that its caller stores at the broker once, encrypted, and the reference by which each of its nodes reads it.
//!
//! ```text
//! reference  = 32 random bytes, a new one for each message; sent to each node in place of the message
//! bucket key = base64url of the first 16 bytes of sha256("muster.stored.v1" NUL reference)
//! value      = ChaCha20-Poly1305(reference, nonce 0, the signed request, associated data "muster.stored.v1" NUL)
//! ```
//!
//! All nodes may read the bucket, so a value without its reference must be useless. A reference encrypts one value, so the nonce is
//! constant. Encryption does not replace the signature inside: a node checks a request that it has read like one that it received.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use rand::TryRngCore as _;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::limits::MAX_REQUEST_BYTES;

const STORAGE_DOMAIN: &[u8] = b"muster.stored.v1\0";
/// Bytes of a reference.
const REFERENCE_BYTES: usize = 32;
/// Bytes of the digest in the key of the bucket.
const KEY_DIGEST_BYTES: usize = 16;
/// Bytes that the encryption adds.
const TAG_BYTES: usize = 16;

/// Largest encrypted request, in bytes.
pub const MAX_STORED_BYTES: usize = MAX_REQUEST_BYTES + TAG_BYTES;

/// Errors of encryption and decryption.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoredRequestError {
    /// The operating system's random source failed.
    #[error("the operating system's random source failed")]
    Random,
    /// The request is too large to be stored.
    #[error("the request has {0} bytes; at most {MAX_REQUEST_BYTES} can be stored")]
    TooLarge(usize),
    /// The value was not encrypted with this reference, or was altered.
    #[error("cannot decrypt the stored request: it belongs to another reference, or was altered")]
    Decrypt,
}

/// The reference to one stored request. It is a secret of the caller and of the nodes that the request names.
#[derive(Clone)]
pub struct RequestReference(Zeroizing<[u8; REFERENCE_BYTES]>);

impl std::fmt::Debug for RequestReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestReference").finish_non_exhaustive()
    }
}

impl RequestReference {
    /// A new reference.
    pub fn generate() -> Result<Self, StoredRequestError> {
        let mut bytes = Zeroizing::new([0_u8; REFERENCE_BYTES]);
        rand::rngs::OsRng.try_fill_bytes(&mut *bytes).map_err(|_| StoredRequestError::Random)?;
        Ok(Self(bytes))
    }

    /// Reads the payload of a message; `None` unless it has 32 bytes.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        payload.try_into().ok().map(|bytes| Self(Zeroizing::new(bytes)))
    }

    /// The payload of the message to a node.
    pub fn as_bytes(&self) -> &[u8] {
        &*self.0
    }

    /// The key of the value in the bucket.
    pub fn bucket_key(&self) -> String {
        let digest =
            Sha256::new_with_prefix(STORAGE_DOMAIN).chain_update(self.as_bytes()).finalize();
        URL_SAFE_NO_PAD.encode(digest.get(..KEY_DIGEST_BYTES).unwrap_or_default())
    }

    /// Encrypts a signed request.
    pub fn encrypt_request(&self, request: &[u8]) -> Result<Vec<u8>, StoredRequestError> {
        if request.len() > MAX_REQUEST_BYTES {
            return Err(StoredRequestError::TooLarge(request.len()));
        }
        let payload = Payload { msg: request, aad: STORAGE_DOMAIN };
        self.cipher()
            .encrypt(&Nonce::default(), payload)
            .map_err(|_| StoredRequestError::TooLarge(request.len()))
    }

    /// Decrypts a value of the bucket.
    pub fn decrypt_request(&self, value: &[u8]) -> Result<Vec<u8>, StoredRequestError> {
        if value.len() > MAX_STORED_BYTES {
            return Err(StoredRequestError::Decrypt);
        }
        let payload = Payload { msg: value, aad: STORAGE_DOMAIN };
        self.cipher().decrypt(&Nonce::default(), payload).map_err(|_| StoredRequestError::Decrypt)
    }

    fn cipher(&self) -> ChaCha20Poly1305 {
        ChaCha20Poly1305::new(Key::from_slice(self.as_bytes()))
    }
}
