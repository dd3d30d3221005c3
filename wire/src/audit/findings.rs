//! Results of verifying an audit log.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::chain::LineHash;
use crate::identity::Identity;
use crate::token::PublicKey;

/// The location of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LineLocation {
    /// The index of the file, in the order of the chain; the first is 0.
    pub file: usize,
    /// The line number in that file; the first is 1.
    pub line: u64,
}

/// A line known from outside the log. The log must contain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditAnchor {
    /// Its number.
    pub seq: u64,
    /// Its hash.
    pub hash: LineHash,
}

impl fmt::Display for AuditAnchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

/// A text that is not an anchor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not NUMBER:HASH, as `rpc audit verify` prints it")]
pub struct AuditAnchorError(String);

impl std::str::FromStr for AuditAnchor {
    type Err = AuditAnchorError;

    fn from_str(text: &str) -> Result<Self, AuditAnchorError> {
        let numbers = text.split_once(':');
        let anchor = numbers.and_then(|(seq, hash)| {
            Some(Self { seq: seq.parse().ok()?, hash: hash.parse().ok()? })
        });
        anchor.ok_or_else(|| AuditAnchorError(text.to_owned()))
    }
}

/// The record of a log's last checkpoint, stored outside the log: the anchor, and the log's path in the second line.
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

impl std::str::FromStr for HeadRecord {
    type Err = AuditAnchorError;

    fn from_str(text: &str) -> Result<Self, AuditAnchorError> {
        let mut lines = text.lines();
        let anchor = lines.next().unwrap_or_default().trim().parse()?;
        let log = lines.next().filter(|log| !log.is_empty());
        Ok(Self { anchor, log: log.map(str::to_owned) })
    }
}

/// A defect that an unmodified log does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum AuditFinding {
    /// The line was altered.
    Altered {
        /// The line.
        at: LineLocation,
    },
    /// Lines are missing.
    Missing {
        /// The first line after the missing ones.
        before: LineLocation,
        /// The first missing number.
        from: u64,
        /// The last missing number.
        to: u64,
    },
    /// The line was inserted; the chain does not contain it.
    Inserted {
        /// The line.
        at: LineLocation,
    },
    /// A duplicate or late line number: lines were moved or repeated, or two daemons write to one file.
    OutOfOrder {
        /// The line.
        at: LineLocation,
        /// Its number.
        seq: u64,
    },
    /// The signature is invalid: lines after the last valid checkpoint were altered, and the hashes were recomputed.
    Forged {
        /// The checkpoint.
        at: LineLocation,
    },
    /// The file does not begin with a header: its beginning is missing, or it is not an audit log of this format.
    NoHeader {
        /// The file's first line.
        at: LineLocation,
    },
    /// The header's key is not verified as the node's.
    Untrusted {
        /// The header.
        at: LineLocation,
        /// The reason.
        why: String,
    },
    /// A header or checkpoint of another node.
    OtherNode {
        /// The line.
        at: LineLocation,
        /// The name of that node.
        found: Identity,
    },
    /// A new chain begins after another one: lines between them may be missing.
    NewChain {
        /// The header of the new chain.
        at: LineLocation,
    },
    /// The daemon recorded at its start that lines which it had written were missing.
    Lost {
        /// The daemon's record of it.
        at: LineLocation,
        /// The number of the last line that the daemon had written.
        written: u64,
    },
    /// The daemon could not write records before this line.
    Unrecorded {
        /// The daemon's record of it.
        at: LineLocation,
        /// How many.
        count: u64,
    },
    /// The fragment of a truncated line, after which the daemon continued the log, is missing.
    FragmentMissing {
        /// The daemon's record of the fragment.
        at: LineLocation,
    },
    /// The line differs from the anchor.
    AnchorDiffers {
        /// The line.
        at: LineLocation,
        /// Its number.
        seq: u64,
    },
    /// The line of the anchor is missing.
    AnchorMissing {
        /// Its number.
        seq: u64,
    },
    /// There are no lines to verify.
    Empty,
}

impl AuditFinding {
    /// The location of the finding; `None` if the line is absent.
    pub fn line_location(&self) -> Option<LineLocation> {
        match self {
            Self::Altered { at }
            | Self::Inserted { at }
            | Self::OutOfOrder { at, .. }
            | Self::Forged { at }
            | Self::NoHeader { at }
            | Self::Untrusted { at, .. }
            | Self::OtherNode { at, .. }
            | Self::NewChain { at }
            | Self::Lost { at, .. }
            | Self::Unrecorded { at, .. }
            | Self::FragmentMissing { at }
            | Self::AnchorDiffers { at, .. } => Some(*at),
            Self::Missing { before, .. } => Some(*before),
            Self::AnchorMissing { .. } | Self::Empty => None,
        }
    }
}

impl fmt::Display for AuditFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Altered { .. } => f.write_str("this line was altered"),
            Self::Missing { from, to, .. } if from == to => {
                write!(f, "line number {from} is missing before this one")
            }
            Self::Missing { from, to, .. } => {
                write!(f, "line numbers {from} to {to} are missing before this one")
            }
            Self::Inserted { .. } => f.write_str("this line does not belong here"),
            Self::OutOfOrder { seq, .. } => {
                write!(f, "line number {seq} is duplicate or out of order")
            }
            Self::Forged { .. } => f.write_str(
                "the signature is invalid: lines after the last valid checkpoint were altered",
            ),
            Self::NoHeader { .. } => {
                f.write_str("the file does not begin with a header: its beginning is missing")
            }
            Self::Untrusted { why, .. } => write!(f, "the key cannot be trusted: {why}"),
            Self::OtherNode { found, .. } => write!(f, "this line is from another node, {found}"),
            Self::NewChain { .. } => {
                f.write_str("a new chain begins: lines after the previous chain may be missing")
            }
            Self::Lost { written, .. } => write!(
                f,
                "the daemon recorded at its start that lines were missing; it had written up to number {written}"
            ),
            Self::Unrecorded { count, .. } => write!(
                f,
                "records that the daemon could not write before this line: {count}; usually the disk was full"
            ),
            Self::FragmentMissing { .. } => {
                f.write_str("the fragment of a truncated line is missing before this one")
            }
            Self::AnchorDiffers { seq, .. } => {
                write!(f, "line number {seq} differs from the anchor")
            }
            Self::AnchorMissing { seq } => write!(f, "line number {seq}, the anchor, is missing"),
            Self::Empty => f.write_str("there are no lines to verify"),
        }
    }
}

/// A harmless irregularity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum AuditNote {
    /// A crash or a full disk truncated a line; the daemon continued the log after it.
    Torn {
        /// What is left of the line.
        at: LineLocation,
        /// Its length in bytes.
        bytes: u64,
        /// How many of these bytes, at the end, are NUL: a power cut left them where unsynced bytes were.
        zeros: u64,
        /// The time of the last line before it.
        after: Option<String>,
        /// When the daemon continued the log.
        before: String,
    },
    /// The last line is truncated, and no daemon has continued the log since.
    TornEnd {
        /// What is left of the line.
        at: LineLocation,
        /// Its length in bytes.
        bytes: u64,
        /// How many of these bytes, at the end, are NUL.
        zeros: u64,
        /// The time of the last line before it.
        after: Option<String>,
    },
    /// The first line is not the first of a chain: earlier files are not included.
    BeginsLate {
        /// Its number.
        seq: u64,
    },
}

impl fmt::Display for AuditNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn { zeros: 0, bytes, .. } => write!(
                f,
                "a crash or a full disk truncated this line after {bytes} bytes; the daemon continued the log"
            ),
            Self::Torn { zeros, after, before, .. } => {
                write!(
                    f,
                    "{zeros} bytes of zeros at the end, from a power cut or a system crash "
                )?;
                match after {
                    Some(after) => write!(f, "between {after} and {before}")?,
                    None => write!(f, "before {before}")?,
                }
                f.write_str("; the daemon continued the log")
            }
            Self::TornEnd { zeros: 0, .. } => {
                f.write_str("the last line is truncated, and no daemon has continued the log since")
            }
            Self::TornEnd { zeros, after, .. } => {
                write!(f, "{zeros} bytes of zeros at the end, from a power cut or a system crash")?;
                after.iter().try_for_each(|after| write!(f, " after {after}"))?;
                f.write_str("; no daemon has continued the log since")
            }
            Self::BeginsLate { seq } => {
                write!(f, "the files begin at line number {seq}; earlier lines are not included")
            }
        }
    }
}

/// The last valid checkpoint; its signature covers all lines before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VerifiedCheckpoint {
    /// The number of the checkpoint.
    pub seq: u64,
    /// Signing time, by the node's clock.
    pub time: String,
}

/// The result of verifying a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChainVerification {
    /// Findings in line order; the first 1000.
    pub findings: Vec<AuditFinding>,
    /// Number of further findings.
    pub unlisted: u64,
    /// Harmless irregularities.
    pub notes: Vec<AuditNote>,
    /// The node in the first header.
    pub node: Option<Identity>,
    /// The keys of all headers, in order.
    pub keys: Vec<PublicKey>,
    /// Number of lines.
    pub lines: u64,
    /// The last valid checkpoint.
    pub signed: Option<VerifiedCheckpoint>,
    /// Number of lines after the last valid checkpoint: they are chained but unsigned, so they can be forged.
    pub unsigned: u64,
    /// The last line, to be stored elsewhere as an anchor.
    pub last: Option<AuditAnchor>,
}

impl ChainVerification {
    /// Whether there are no findings.
    pub fn is_intact(&self) -> bool {
        self.findings.is_empty()
    }
}
