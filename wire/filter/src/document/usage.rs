//! How much of its limits a query uses, counted while it is read.

use crate::error::{Result, expected_at};
use crate::limits::{MAX_QUERY_CONDITIONS, MAX_QUERY_REGEXES};

/// The conditions and values of a query, and how many of them are regular expressions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct QueryUsage {
    pub(super) conditions: usize,
    pub(super) regexes: usize,
}

impl QueryUsage {
    /// Adds a part, and checks the limits.
    pub(super) fn add(&mut self, at: usize, part: Self) -> Result<()> {
        self.conditions += part.conditions;
        self.regexes += part.regexes;
        if self.regexes > MAX_QUERY_REGEXES {
            return expected_at(at, format!("at most {MAX_QUERY_REGEXES} regular expressions"));
        }
        if self.conditions > MAX_QUERY_CONDITIONS {
            let expected = format!("at most {MAX_QUERY_CONDITIONS} conditions and values");
            return expected_at(at, expected);
        }
        Ok(())
    }
}
