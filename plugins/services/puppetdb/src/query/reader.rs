//! What the parts of a query may be, counted while it is read.

use muster_filter::{MAX_QUERY_CONDITIONS, MAX_QUERY_DEPTH, MAX_QUERY_REGEXES};

use super::error::{Result, invalid};

/// How much of its limits a query uses.
#[derive(Debug, Default)]
pub(super) struct QueryReader {
    depth: usize,
    conditions: usize,
    regexes: usize,
}

impl QueryReader {
    /// Begins a condition or a subquery.
    pub(super) fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        self.conditions += 1;
        if self.depth > MAX_QUERY_DEPTH {
            return invalid(format!("a query has at most {MAX_QUERY_DEPTH} levels"));
        }
        if self.conditions > MAX_QUERY_CONDITIONS {
            return invalid(format!("a query has at most {MAX_QUERY_CONDITIONS} conditions"));
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn count_regex(&mut self) -> Result<()> {
        self.regexes += 1;
        if self.regexes > MAX_QUERY_REGEXES {
            return invalid(format!("a query has at most {MAX_QUERY_REGEXES} regular expressions"));
        }
        Ok(())
    }
}
