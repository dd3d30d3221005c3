//! JSON that is compressed inside a message: DEFLATE, then base64 without padding. Facts of real machines shrink to about a quarter.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use flate2::read::DeflateDecoder;
use flate2::{Compress, Compression, FlushCompress, Status};
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

/// Compresses values one after the other with one state, whose 300 KB would otherwise be allocated and cleared for each.
#[derive(Debug)]
pub struct JsonCompressor(Compress);

impl Default for JsonCompressor {
    fn default() -> Self {
        Self(Compress::new(Compression::default(), false))
    }
}

impl JsonCompressor {
    /// Compresses a value.
    pub fn compress<T: Serialize + ?Sized>(
        &mut self,
        value: &T,
    ) -> Result<String, CompressedJsonError> {
        let text = serde_json::to_vec(value).map_err(CompressedJsonError::Json)?;
        let mut compressed = Vec::with_capacity(text.len() / 2 + 64);
        self.0.reset();
        let mut state = Status::Ok;
        while state != Status::StreamEnd {
            let read = usize::try_from(self.0.total_in()).unwrap_or(usize::MAX);
            let rest = text.get(read..).unwrap_or_default();
            compressed.reserve(compressed.capacity().max(64));
            state = self
                .0
                .compress_vec(rest, &mut compressed, FlushCompress::Finish)
                .map_err(|error| CompressedJsonError::Compression(error.into()))?;
        }
        Ok(STANDARD_NO_PAD.encode(compressed))
    }
}

/// Compresses a value.
pub fn compress_json<T: Serialize + ?Sized>(value: &T) -> Result<String, CompressedJsonError> {
    JsonCompressor::default().compress(value)
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
