//! The record of a log's last checkpoint, stored outside the log: `NUMBER:HASH`, and the log's path in the second line.

use std::fmt;
use std::str::FromStr;

use super::findings::{AuditAnchor, AuditAnchorError};

/// The position of a log at its last checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadRecord {
    /// The checkpoint.
    pub anchor: AuditAnchor,
    /// The log's path on its node; `None` in records of older versions.
    pub log: Option<String>,
}

impl fmt::Display for HeadRecord {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.anchor)?;
        self.log.iter().try_for_each(|log| writeln!(out, "{log}"))
    }
}

impl FromStr for HeadRecord {
    type Err = AuditAnchorError;

    fn from_str(text: &str) -> Result<Self, AuditAnchorError> {
        let mut lines = text.lines();
        let anchor = lines.next().unwrap_or_default().trim().parse()?;
        let log = lines.next().filter(|log| !log.is_empty());
        Ok(Self { anchor, log: log.map(str::to_owned) })
    }
}
