//! The chain's own line kinds: header, checkpoint and gap.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, VerifyingKey};
use serde::{Deserialize, Serialize};

use super::AUDIT_FORMAT;
use super::chain::{ChainLink, ChainPosition, LineHash, NotAnObject};
use crate::Millis;
use crate::identity::Identity;
use crate::token::decode::decode_base64_array;
use crate::token::{KeyPair, PublicKey};

const SIGNATURE_FIELD_PREFIX: &[u8] = b",\"signature\":\"";
const SIGNATURE_CHARACTERS: usize = 86;

/// Identifies the node. The first line of every file, and the first line after every daemon start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AuditHeader {
    audit: HeaderTag,
    /// RFC 3339, for display.
    pub time: String,
    /// The same instant, at which the token is validated.
    pub unix_ms: Millis,
    /// [`AUDIT_FORMAT`].
    pub format: String,
    /// The node's name.
    pub node: Identity,
    /// The public key that signs the following checkpoints (`U...`).
    pub key: PublicKey,
    /// The node's token, which contains the key.
    pub token: String,
    /// The account token, which authorizes the node's token and is signed by the operator.
    pub account: String,
}

/// A closed-off torn line, or known missing lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditGap {
    audit: GapTag,
    /// RFC 3339, for display.
    pub time: String,
    /// The kind of gap.
    #[serde(flatten)]
    pub kind: GapKind,
}

/// The reason of a gap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum GapKind {
    /// A crash or a full disk cut off the previous line, which has no number of its own.
    Torn {
        /// Length of the remaining fragment, in bytes.
        bytes: u64,
        /// The hash of the fragment.
        fragment: String,
    },
    /// The daemon's head record has a higher number than the log.
    Missing {
        /// The last number in the head record.
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

impl AuditHeader {
    /// Creates a header for this instant.
    pub fn new(
        unix_ms: Millis,
        time: String,
        node: Identity,
        key: PublicKey,
        token: String,
        account: String,
    ) -> Self {
        Self {
            audit: HeaderTag::Header,
            time,
            unix_ms,
            format: AUDIT_FORMAT.to_owned(),
            node,
            key,
            token,
            account,
        }
    }
}

impl AuditGap {
    /// A gap after a line that was cut off.
    pub fn torn_line(time: String, fragment: &[u8]) -> Self {
        Self::new(
            time,
            GapKind::Torn {
                bytes: u64::try_from(fragment.len()).unwrap_or(u64::MAX),
                fragment: LineHash::of_bytes(fragment).to_string(),
            },
        )
    }

    /// A gap for written lines up to this number that are missing.
    pub fn missing_lines(time: String, written: u64) -> Self {
        Self::new(time, GapKind::Missing { written })
    }

    /// Whether the gap follows a torn fragment.
    pub fn is_torn(&self) -> bool {
        matches!(self.kind, GapKind::Torn { .. })
    }

    fn new(time: String, kind: GapKind) -> Self {
        Self { audit: GapTag::Gap, time, kind }
    }
}

impl ChainPosition {
    /// Appends a header or gap, or any other value that serializes as a JSON object.
    pub fn append_mark(
        self,
        mark: &impl Serialize,
        out: &mut Vec<u8>,
    ) -> Result<Self, NotAnObject> {
        let record = serde_json::to_vec(mark).map_err(|_| NotAnObject)?;
        self.append_record(&record, out)
    }

    /// Appends a checkpoint: the node's signature of everything before it.
    #[must_use]
    pub fn append_checkpoint(
        self,
        time: &str,
        node: &Identity,
        key: &KeyPair,
        out: &mut Vec<u8>,
    ) -> Self {
        let start = self.begin_line(out);
        // None of these texts can contain a character that JSON would escape.
        let fields = format!(
            r#""audit":"checkpoint","time":"{time}","node":"{node}","key":"{}""#,
            key.public_key()
        );
        out.extend_from_slice(fields.as_bytes());
        let signed = checkpoint_signed_bytes(out.get(start..).unwrap_or_default());
        let signature = URL_SAFE_NO_PAD.encode(key.sign(&signed).to_bytes());
        out.extend_from_slice(SIGNATURE_FIELD_PREFIX);
        out.extend_from_slice(signature.as_bytes());
        out.extend_from_slice(b"\"}");
        self.end_line(start, out)
    }
}

/// The signed bytes of a checkpoint: the format name, a NUL, and its own line up to the signature.
fn checkpoint_signed_bytes(line: &[u8]) -> Vec<u8> {
    [AUDIT_FORMAT.as_bytes(), &[0], line].concat()
}

/// A parsed line.
#[derive(Debug)]
pub enum AuditLineKind {
    /// Identifies the node.
    Header(Box<AuditHeader>),
    /// A signature.
    Checkpoint(AuditCheckpoint),
    /// A closed-off gap.
    Gap(AuditGap),
    /// Any line that is not the chain's own.
    Record,
    /// A record of the daemon about records that it could not write.
    Unrecorded(u64),
    /// A line with an `audit` field that is not a valid chain line.
    Broken,
}

/// What a gap says about the torn line before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TornLine<'g> {
    /// Its length in bytes.
    pub(super) bytes: u64,
    /// Its hash.
    pub(super) fragment: &'g str,
    /// When the daemon continued the log.
    pub(super) time: &'g str,
}

/// A signature of everything before it.
#[derive(Debug)]
pub struct AuditCheckpoint {
    /// RFC 3339, for display.
    pub time: String,
    /// The node's name.
    pub node: Identity,
    /// The claimed signing key.
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

impl AuditLineKind {
    /// The torn line that a gap closes off.
    pub(super) fn torn_line(&self) -> Option<TornLine<'_>> {
        match self {
            Self::Gap(AuditGap { kind: GapKind::Torn { bytes, fragment }, time, .. }) => {
                Some(TornLine { bytes: *bytes, fragment, time })
            }
            _ => None,
        }
    }

    /// Parses a whole line.
    pub fn parse_line(line: &[u8]) -> Option<(ChainLink, Self)> {
        let (chain_link, fields) = ChainLink::split_line(line)?;
        let Some(kind) = fields.strip_prefix(b"\"audit\":\"") else {
            let lost = unrecorded_count(line, fields);
            return Some((chain_link, lost.map_or(Self::Record, Self::Unrecorded)));
        };
        let line_kind = if kind.starts_with(b"header\"") {
            serde_json::from_slice(line).ok().map(|header| Self::Header(Box::new(header)))
        } else if kind.starts_with(b"gap\"") {
            serde_json::from_slice(line).ok().map(Self::Gap)
        } else if kind.starts_with(b"checkpoint\"") {
            AuditCheckpoint::parse_line(line).map(Self::Checkpoint)
        } else {
            None
        };
        Some((chain_link, line_kind.unwrap_or(Self::Broken)))
    }
}

impl AuditCheckpoint {
    fn parse_line(line: &[u8]) -> Option<Self> {
        let fields: CheckpointFields = serde_json::from_slice(line).ok()?;
        let rest = line.strip_suffix(b"\"}")?;
        let (rest, text) = rest.split_at_checked(rest.len().checked_sub(SIGNATURE_CHARACTERS)?)?;
        let body = rest.strip_suffix(SIGNATURE_FIELD_PREFIX)?;
        let signature = Signature::from_bytes(&decode_base64_array(text)?);
        Some(Self {
            time: fields.time,
            node: fields.node,
            key: fields.key,
            signed: checkpoint_signed_bytes(body),
            signature,
        })
    }

    /// Whether this key made the signature.
    pub(super) fn verify_signature(&self, key: &VerifyingKey) -> bool {
        key.verify_strict(&self.signed, &self.signature).is_ok()
    }
}

/// The number in a record about lost records. A record of a decision has other fields, so a caller cannot write one.
fn unrecorded_count(line: &[u8], fields: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "these fields must be the only ones")]
    struct LostFields {
        seq: u64,
        prev: String,
        time: String,
        verdict: String,
        count: u64,
    }
    const MAX_LINE_BYTES: usize = 256;
    if line.len() > MAX_LINE_BYTES || !fields.starts_with(b"\"time\":") {
        return None;
    }
    let lost: LostFields = serde_json::from_slice(line).ok()?;
    (lost.verdict == "lost").then_some(lost.count)
}

/// The time of a line of any kind, in the first field of that name.
pub(super) fn line_time(line: &[u8]) -> Option<&str> {
    const TIME_FIELD_PREFIX: &[u8] = b"\"time\":\"";
    let start = line.windows(TIME_FIELD_PREFIX.len()).position(|part| part == TIME_FIELD_PREFIX)?;
    let rest = line.get(start + TIME_FIELD_PREFIX.len()..)?;
    let length = rest.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(rest.get(..length)?).ok()
}
