//! The lines that are the chain's own: header, checkpoint and gap.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, VerifyingKey};
use serde::{Deserialize, Serialize};

use super::chain::{Hash, Link, NotAnObject, Position};
use super::{FORMAT, Trusting};
use crate::Millis;
use crate::identity::Identity;
use crate::token::{KeyPair, PublicKey};

const SIGNATURE: &[u8] = b",\"signature\":\"";
const SIGNATURE_CHARACTERS: usize = 86;

/// Whose log this is. The first line of every file, and the first one after every start of the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    audit: HeaderTag,
    /// RFC 3339, for people.
    pub time: String,
    /// The same instant, by which the token is judged.
    pub unix_ms: Millis,
    /// [`FORMAT`].
    pub format: String,
    /// The node's name.
    pub node: Identity,
    /// The public key that signs the checkpoints that follow (`U...`).
    pub key: PublicKey,
    /// The node's token, which says so.
    pub token: String,
    /// The account's token, which vouches for the node's and is vouched for by the operator.
    pub account: String,
}

/// What was closed off, or is known to be gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    audit: GapTag,
    /// RFC 3339, for people.
    pub time: String,
    /// What happened.
    #[serde(flatten)]
    pub what: GapKind,
}

/// Why there is a gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum GapKind {
    /// The line before this one was cut off by a crash or a full disk. It has no number of its own.
    Torn {
        /// How many bytes are left of it.
        bytes: u64,
        /// The hash of what is left.
        fragment: String,
    },
    /// The daemon remembers having written more than it found.
    Missing {
        /// The number of the last line that it remembers.
        written: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum HeaderTag {
    #[serde(rename = "header")]
    Header,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum GapTag {
    #[serde(rename = "gap")]
    Gap,
}

impl Header {
    /// A header at this instant.
    pub fn new(
        (unix_ms, time): (Millis, String),
        node: Identity,
        key: PublicKey,
        token: String,
        account: String,
    ) -> Self {
        Self {
            audit: HeaderTag::Header,
            time,
            unix_ms,
            format: FORMAT.to_owned(),
            node,
            key,
            token,
            account,
        }
    }

    /// Whether the key is the node's, as far as the tokens or the verifier's own keys tell; otherwise why not.
    pub(super) fn judge(&self, trusting: &Trusting) -> Result<VerifyingKey, String> {
        if self.format != FORMAT {
            return Err(format!("its format is not {FORMAT}"));
        }
        trusting.believe(self)?;
        self.key.verifying().map_err(|error| error.to_string())
    }
}

impl Gap {
    /// What a crash or a full disk left of a line.
    pub fn torn(time: String, fragment: &[u8]) -> Self {
        Self::new(
            time,
            GapKind::Torn {
                bytes: u64::try_from(fragment.len()).unwrap_or(u64::MAX),
                fragment: Hash::of(fragment).to_string(),
            },
        )
    }

    /// Lines up to this number were written, and are gone.
    pub fn missing(time: String, written: u64) -> Self {
        Self::new(time, GapKind::Missing { written })
    }

    /// Whether what is left of a line stands before it.
    pub fn is_torn(&self) -> bool {
        matches!(self.what, GapKind::Torn { .. })
    }

    fn new(time: String, what: GapKind) -> Self {
        Self {
            audit: GapTag::Gap,
            time,
            what,
        }
    }
}

impl Position {
    /// Appends one of the chain's own lines, or any other value that is written as a JSON object.
    pub fn mark(self, mark: &impl Serialize, out: &mut Vec<u8>) -> Result<Self, NotAnObject> {
        let record = serde_json::to_vec(mark).map_err(|_| NotAnObject)?;
        self.chain(&record, out)
    }

    /// Appends a checkpoint: the node's signature of everything up to here.
    #[must_use]
    pub fn checkpoint(self, time: &str, node: &Identity, key: &KeyPair, out: &mut Vec<u8>) -> Self {
        let start = self.begin(out);
        // None of these texts can hold a character that JSON would escape.
        let fields = format!(
            r#""audit":"checkpoint","time":"{time}","node":"{node}","key":"{}""#,
            key.public()
        );
        out.extend_from_slice(fields.as_bytes());
        let signed = signed(out.get(start..).unwrap_or_default());
        let signature = URL_SAFE_NO_PAD.encode(key.sign(&signed).to_bytes());
        out.extend_from_slice(SIGNATURE);
        out.extend_from_slice(signature.as_bytes());
        out.extend_from_slice(b"\"}");
        self.end(start, out)
    }
}

/// What a checkpoint signs: the format's name, a NUL, and its own line up to the signature.
fn signed(line: &[u8]) -> Vec<u8> {
    [FORMAT.as_bytes(), &[0], line].concat()
}

/// A line, as far as the chain looks into it.
#[derive(Debug)]
pub enum Mark {
    /// Whose log this is.
    Header(Box<Header>),
    /// A signature.
    Checkpoint(Checkpoint),
    /// What was closed off.
    Gap(Gap),
    /// A record: anything that is not the chain's own.
    Record,
    /// It claims to be the chain's own, and is not.
    Broken,
}

/// A signature of everything before it.
#[derive(Debug)]
pub struct Checkpoint {
    /// RFC 3339, for people.
    pub time: String,
    /// The node's name.
    pub node: Identity,
    /// The key that made the signature, it says.
    pub key: PublicKey,
    signed: Vec<u8>,
    signature: Signature,
}

#[derive(Deserialize)]
struct CheckpointFields {
    time: String,
    node: Identity,
    key: PublicKey,
}

impl Mark {
    /// Reads a whole line, whose beginning is that of a chain's.
    pub fn read(line: &[u8]) -> Option<(Link, Self)> {
        let (place, fields) = Link::split(line)?;
        let Some(kind) = fields.strip_prefix(b"\"audit\":\"") else {
            return Some((place, Self::Record));
        };
        let mark = if kind.starts_with(b"header\"") {
            serde_json::from_slice(line)
                .ok()
                .map(|header| Self::Header(Box::new(header)))
        } else if kind.starts_with(b"gap\"") {
            serde_json::from_slice(line).ok().map(Self::Gap)
        } else if kind.starts_with(b"checkpoint\"") {
            Checkpoint::read(line).map(Self::Checkpoint)
        } else {
            None
        };
        Some((place, mark.unwrap_or(Self::Broken)))
    }
}

impl Checkpoint {
    fn read(line: &[u8]) -> Option<Self> {
        let fields: CheckpointFields = serde_json::from_slice(line).ok()?;
        let rest = line.strip_suffix(b"\"}")?;
        let (rest, text) = rest.split_at_checked(rest.len().checked_sub(SIGNATURE_CHARACTERS)?)?;
        let body = rest.strip_suffix(SIGNATURE)?;
        let mut signature = [0; Signature::BYTE_SIZE];
        match URL_SAFE_NO_PAD.decode_slice(text, &mut signature) {
            Ok(Signature::BYTE_SIZE) => {}
            _ => return None,
        }
        Some(Self {
            time: fields.time,
            node: fields.node,
            key: fields.key,
            signed: signed(body),
            signature: Signature::from_bytes(&signature),
        })
    }

    /// Whether this key made the signature.
    pub(super) fn holds(&self, key: &VerifyingKey) -> bool {
        key.verify_strict(&self.signed, &self.signature).is_ok()
    }
}
