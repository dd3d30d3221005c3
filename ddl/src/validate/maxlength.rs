//! The maximum length of a string, in characters rather than bytes.

use super::ValueViolation;

/// A limit of 0 means no limit, as in `MCollective`.
pub(super) fn check_max_length(limit: u64, text: &str) -> Result<(), ValueViolation> {
    let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    if limit == 0 || length <= limit {
        Ok(())
    } else {
        Err(ValueViolation::TooLong(limit))
    }
}
