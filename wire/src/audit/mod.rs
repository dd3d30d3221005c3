//! The audit log as a hash chain: its line kinds, chaining and verification. No file access.
//!
//! Every line is a JSON object that begins with its number and the hash of the previous line:
//!
//! ```text
//! {"seq":7,"prev":"<base64url of sha256 of line 6, without its line end>",...}
//! ```
//!
//! Most lines are records of the daemon's audit module. Three kinds belong to the chain and have a field `audit`: a
//! `header` identifies the node, a `checkpoint` carries the node's signature of everything before it, and a `gap` closes off
//! the remains of a crash or a full disk. No line is rewritten or re-encoded: the hashed and signed bytes are the bytes
//! in the file.
//!
//! [`ChainPosition`] makes lines, [`ChainVerifier`] reads them.

mod chain;
mod findings;
mod key_trust;
mod line_kinds;
mod verify;

pub use chain::{ChainLink, ChainPosition, LineHash, LineHashError, NotAnObject};
pub use findings::{
    AuditAnchor, AuditAnchorError, AuditFinding, AuditNote, ChainVerification, HeadRecord,
    LineLocation, VerifiedCheckpoint,
};
pub use key_trust::AuditKeyTrust;
pub use line_kinds::{AuditCheckpoint, AuditGap, AuditHeader, AuditLineKind, GapKind};
pub use verify::ChainVerifier;

/// The format name in a header, and the signature domain of a checkpoint.
pub const AUDIT_FORMAT: &str = "muster.audit.v1";
