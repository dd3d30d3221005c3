//! JSON that is compressed inside a message: DEFLATE, then base64 without padding. Facts of real machines shrink to about a quarter.

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Errors of compressed JSON.
#[derive(Debug, thiserror::Error)]
pub enum CompressedJsonError {
    /// The text is not valid base64.
    #[error("the compressed text is not base64")]
    Base64(#[source] base64::DecodeError),
    /// The bytes cannot be compressed or decompressed.
    #[error("cannot decompress the text")]
    Compression(#[source] std::io::Error),
    /// The decompressed text is too large.
    #[error("the decompressed text exceeds {0} bytes")]
    TooLarge(usize),
    /// The value has more than is accepted.
    #[error(transparent)]
    Bound(#[from] crate::record_bounds::RecordBoundError),
    /// The text is not the expected JSON.
    #[error("the decompressed text is not valid JSON of its type")]
    Json(#[source] serde_json::Error),
}

/// Compresses a value.
pub fn compress_json<T: Serialize + ?Sized>(value: &T) -> Result<String, CompressedJsonError> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    let text = serde_json::to_vec(value).map_err(CompressedJsonError::Json)?;
    encoder.write_all(&text).map_err(CompressedJsonError::Compression)?;
    let compressed = encoder.finish().map_err(CompressedJsonError::Compression)?;
    Ok(STANDARD_NO_PAD.encode(compressed))
}

/// Decompresses a value of at most `limit` bytes of JSON. Decompression stops at the limit.
pub fn decompress_json<T: DeserializeOwned>(
    text: &str,
    limit: usize,
) -> Result<T, CompressedJsonError> {
    // One byte more than the limit shows that there is more.
    let json = decompress_beginning(text, limit.saturating_add(1))?;
    if json.len() > limit {
        return Err(CompressedJsonError::TooLarge(limit));
    }
    serde_json::from_slice(&json).map_err(CompressedJsonError::Json)
}

/// Decompresses at most this many bytes.
pub(crate) fn decompress_beginning(
    text: &str,
    most: usize,
) -> Result<Vec<u8>, CompressedJsonError> {
    let compressed = STANDARD_NO_PAD.decode(text).map_err(CompressedJsonError::Base64)?;
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    let mut json = Vec::new();
    let mut decoder = DeflateDecoder::new(compressed.as_slice()).take(most);
    decoder.read_to_end(&mut json).map_err(CompressedJsonError::Compression)?;
    Ok(json)
}
