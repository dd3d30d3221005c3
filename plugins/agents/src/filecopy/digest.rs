//! SHA-256 of a file, read in parts, so that the memory does not grow with the file.

use muster_api::ActionError;
use muster_api::base::encode_hex;
use muster_api::system::SystemResult;
use muster_api::system::command::CancelFlag;
use sha2::{Digest as _, Sha256};

/// Bytes that are read at once.
const READ_BYTES: usize = 1024 * 1024;

/// Computes the digest of the content that `read` returns for offsets, and its length. Ends early if the call is cancelled.
pub(crate) fn digest_content(
    read: impl Fn(u64, usize) -> SystemResult<Vec<u8>>,
    cancel: &CancelFlag,
) -> Result<(String, u64), ActionError> {
    let (mut digest, mut offset) = (Sha256::new(), 0_u64);
    loop {
        if cancel.is_cancelled() {
            return Err(ActionError::cancelled());
        }
        let part = read(offset, READ_BYTES)?;
        if part.is_empty() {
            return Ok((encode_hex(digest.finalize()), offset));
        }
        digest.update(&part);
        offset += part.len() as u64;
    }
}
