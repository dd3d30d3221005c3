//! Results of verifying an audit log.

use std::fmt;

use serde::Serialize;

use super::chain::LineHash;
use crate::identity::Identity;
use crate::token::PublicKey;

/// Where a line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineLocation {
    /// Which of the files, in the order of the chain; the first is 0.
    pub file: usize,
    /// The line in that file; the first is 1.
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

impl std::str::FromStr for AuditAnchor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not NUMBER:HASH, as `rpc audit verify` prints it");
        let (seq, hash) = text.split_once(':').ok_or_else(wrong)?;
        Ok(Self {
            seq: seq.parse().map_err(|_| wrong())?,
            hash: hash.parse().map_err(|_| wrong())?,
        })
    }
}

/// Something that an untouched log does not show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum AuditFinding {
    /// The line is not what was written.
    Altered {
        /// The line.
        at: LineLocation,
    },
    /// Lines are gone.
    Missing {
        /// The first line behind the hole.
        before: LineLocation,
        /// The first number that is gone.
        from: u64,
        /// The last number that is gone.
        to: u64,
    },
    /// A line that was never written here.
    Inserted {
        /// The line.
        at: LineLocation,
    },
    /// A line with a number that was there before: lines were moved or repeated, or two daemons write into one file.
    OutOfOrder {
        /// The line.
        at: LineLocation,
        /// Its number.
        seq: u64,
    },
    /// The signature does not fit: something since the last good one was changed, and the hashes were made to fit.
    Forged {
        /// The checkpoint.
        at: LineLocation,
    },
    /// The file does not begin with a header: its beginning was cut off, or it is no audit log of this format.
    NoHeader {
        /// The file's first line.
        at: LineLocation,
    },
    /// The header's key cannot be believed to be the node's.
    Untrusted {
        /// The header.
        at: LineLocation,
        /// Why.
        why: String,
    },
    /// A header or checkpoint in another node's name.
    OtherNode {
        /// The line.
        at: LineLocation,
        /// The name in it.
        found: Identity,
    },
    /// A chain begins anew, though there was one before: what was between them cannot be known.
    NewChain {
        /// The header of the new one.
        at: LineLocation,
    },
    /// The daemon itself found, at a start, that lines were gone which it had written.
    Lost {
        /// Its note of it.
        at: LineLocation,
        /// The number of the last line that it had written.
        written: u64,
    },
    /// The rest of a torn line, which the daemon closed off, is gone.
    FragmentMissing {
        /// The daemon's note of it.
        at: LineLocation,
    },
    /// A line that is known from elsewhere is different here.
    AnchorDiffers {
        /// The line.
        at: LineLocation,
        /// Its number.
        seq: u64,
    },
    /// A line that is known from elsewhere is not here.
    AnchorMissing {
        /// Its number.
        seq: u64,
    },
    /// There is nothing to verify.
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
                write!(
                    f,
                    "line number {seq} stands here for a second time or too late"
                )
            }
            Self::Forged { .. } => f.write_str(
                "the signature does not fit: lines since the last good checkpoint were altered",
            ),
            Self::NoHeader { .. } => {
                f.write_str("the file does not begin with a header: its beginning is gone")
            }
            Self::Untrusted { why, .. } => write!(f, "the key cannot be trusted: {why}"),
            Self::OtherNode { found, .. } => write!(f, "this line is of another node, {found}"),
            Self::NewChain { .. } => {
                f.write_str("a new chain begins: what was between it and the last one is unknown")
            }
            Self::Lost { written, .. } => write!(
                f,
                "the daemon found lines gone that it had written, up to number {written}"
            ),
            Self::FragmentMissing { .. } => {
                f.write_str("the rest of a torn line is missing before this one")
            }
            Self::AnchorDiffers { seq, .. } => {
                write!(f, "line number {seq} is not the one that was anchored")
            }
            Self::AnchorMissing { seq } => {
                write!(f, "line number {seq}, which was anchored, is not there")
            }
            Self::Empty => f.write_str("there are no lines to verify"),
        }
    }
}

/// Something worth knowing that is nobody's fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum AuditNote {
    /// A crash or a full disk cut a line off; the daemon closed it off and went on.
    Torn {
        /// What is left of the line.
        at: LineLocation,
        /// How many bytes that are.
        bytes: u64,
    },
    /// The last line is cut off, and no daemon has gone on since.
    TornEnd {
        /// What is left of the line.
        at: LineLocation,
    },
    /// The first line is not a chain's first: older files are not here.
    BeginsLate {
        /// Its number.
        seq: u64,
    },
}

impl fmt::Display for AuditNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn { bytes, .. } => write!(
                f,
                "a crash or a full disk cut this line off after {bytes} bytes; the daemon went on"
            ),
            Self::TornEnd { .. } => {
                f.write_str("the last line is cut off, and no daemon has gone on since")
            }
            Self::BeginsLate { seq } => {
                write!(
                    f,
                    "the files begin at line number {seq}; older ones are not here"
                )
            }
        }
    }
}

/// How far a signature reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VerifiedCheckpoint {
    /// The number of the checkpoint.
    pub seq: u64,
    /// When the node signed, by its own clock.
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
