//! The audit log as a chain: what its lines are, how one follows from the other, and how it is verified. No files here.
//!
//! Every line is a JSON object that begins with its number and the hash of the line before it:
//!
//! ```text
//! {"seq":7,"prev":"<base64url of sha256 of line 6, without its line end>",...}
//! ```
//!
//! Most lines are records, as the daemon's audit room makes them. Three kinds are the chain's own, and say so in `audit`: a
//! `header` tells whose log this is, a `checkpoint` carries the node's signature of everything up to it, and a `gap` closes
//! off what a crash or a full disk left behind. Nothing is ever written twice or encoded again: what is hashed and signed
//! is what stands in the file.
//!
//! [`ChainPosition`] makes lines, [`ChainVerifier`] reads them.

mod chain;
mod findings;
mod head;
mod line_kinds;
mod verify;

pub use chain::{ChainLink, ChainPosition, LineHash, LineHashError, NotAnObject};
pub use findings::{
    AuditAnchor, AuditFinding, AuditNote, ChainVerification, LineLocation, VerifiedCheckpoint,
};
pub use head::HeadRecord;
pub use line_kinds::{AuditCheckpoint, AuditGap, AuditHeader, AuditLineKind, GapKind};
pub use verify::{AuditKeyTrust, ChainVerifier};

/// The format's name in a header, and the domain of a checkpoint's signature.
pub const AUDIT_FORMAT: &str = "muster.audit.v1";
