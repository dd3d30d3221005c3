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
//! [`Position`] makes lines, [`Verifier`] reads them.

mod chain;
mod head;
mod marks;
mod verdict;
mod verify;

pub use chain::{Hash, HashError, Link, NotAnObject, Position};
pub use head::HeadRecord;
pub use marks::{Checkpoint, Gap, GapKind, Header, Mark};
pub use verdict::{Anchor, Finding, Note, Place, Signed, Verdict};
pub use verify::{Trusting, Verifier};

/// The format's name in a header, and the domain of a checkpoint's signature.
pub const FORMAT: &str = "muster.audit.v1";
