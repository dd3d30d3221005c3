//! The greatest length of a string, counted in characters as a reader counts them, not bytes.

use super::ValueViolation;

/// A limit of 0 is no limit, as in `MCollective`.
pub(super) fn check_max_length(limit: u64, text: &str) -> Result<(), ValueViolation> {
    let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    if limit == 0 || length <= limit {
        Ok(())
    } else {
        Err(ValueViolation::TooLong(limit))
    }
}
