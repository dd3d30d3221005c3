//! One line follows from the other: numbers, hashes, and the bytes that carry them.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

const SEQ_FIELD_PREFIX: &[u8] = b"{\"seq\":";
const PREV_FIELD_PREFIX: &[u8] = b",\"prev\":\"";
const HASH_CHARACTERS: usize = 43;

/// The sha256 of a line without its line end; 43 characters of base64url in text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LineHash([u8; 32]);

/// Not the text of a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a hash has {HASH_CHARACTERS} characters of base64url")]
pub struct LineHashError;

/// What should be chained is no JSON object, or an empty one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line of the audit log is a JSON object with at least one field")]
pub struct NotAnObject;

impl LineHash {
    /// Stands before the first line of a chain.
    pub const NONE: Self = Self([0; 32]);

    /// The hash of these bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for LineHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for LineHash {
    type Err = LineHashError;

    fn from_str(text: &str) -> Result<Self, LineHashError> {
        let mut hash = [0; 32];
        match URL_SAFE_NO_PAD.decode_slice(text, &mut hash) {
            Ok(32) => Ok(Self(hash)),
            _ => Err(LineHashError),
        }
    }
}

/// Where a chain stands: the number of the line that comes next, and the hash of the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainPosition {
    /// The next line's number.
    pub next: u64,
    /// The last line's hash.
    pub prev: LineHash,
}

impl ChainPosition {
    /// Before the first line.
    pub const START: Self = Self {
        next: 0,
        prev: LineHash::NONE,
    };

    /// Behind this line.
    pub fn after_record(seq: u64, line: &[u8]) -> Self {
        Self {
            next: seq.saturating_add(1),
            prev: LineHash::of_bytes(line),
        }
    }

    /// Behind a line that was read from a log, if it is a line of a chain.
    pub fn after_line(line: &[u8]) -> Option<Self> {
        ChainLink::parse_line(line).map(|link| Self::after_record(link.seq, line))
    }

    /// Appends a record, which is the bytes of a JSON object, as a line with its end. The record's bytes stay as they are.
    pub fn append_record(self, record: &[u8], out: &mut Vec<u8>) -> Result<Self, NotAnObject> {
        let fields = match record {
            [b'{', rest @ ..] if rest.len() > 1 => rest,
            _ => return Err(NotAnObject),
        };
        let start = self.begin_line(out);
        out.extend_from_slice(fields);
        Ok(self.end_line(start, out))
    }

    /// Appends a line's beginning, up to where its own fields follow; answers where the line starts.
    pub(super) fn begin_line(self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(SEQ_FIELD_PREFIX);
        out.extend_from_slice(self.next.to_string().as_bytes());
        out.extend_from_slice(PREV_FIELD_PREFIX);
        let mut text = [0; HASH_CHARACTERS];
        // The exact size: it always fits.
        let _ = URL_SAFE_NO_PAD.encode_slice(self.prev.0, &mut text);
        out.extend_from_slice(&text);
        out.extend_from_slice(b"\",");
        start
    }

    /// Ends the line that starts there.
    pub(super) fn end_line(self, start: usize, out: &mut Vec<u8>) -> Self {
        let line = out.get(start..).unwrap_or_default();
        let after = Self::after_record(self.next, line);
        out.push(b'\n');
        after
    }
}

/// What a line says of its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainLink {
    /// Its number.
    pub seq: u64,
    /// The hash of the line before it.
    pub prev: LineHash,
}

impl ChainLink {
    /// Reads the beginning of a line, which has exactly one spelling.
    pub fn parse_line(line: &[u8]) -> Option<Self> {
        Self::split_line(line).map(|(link, _)| link)
    }

    /// The same, with the line's own fields up to its end.
    pub(super) fn split_line(line: &[u8]) -> Option<(Self, &[u8])> {
        let rest = line.strip_prefix(SEQ_FIELD_PREFIX)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = rest.split_at_checked(digits)?;
        if number.len() > 1 && number.starts_with(b"0") {
            return None;
        }
        let seq = std::str::from_utf8(number).ok()?.parse().ok()?;
        let rest = rest.strip_prefix(PREV_FIELD_PREFIX)?;
        let (hash, rest) = rest.split_at_checked(HASH_CHARACTERS)?;
        let prev = std::str::from_utf8(hash).ok()?.parse().ok()?;
        let fields = rest.strip_prefix(b"\",")?;
        fields
            .ends_with(b"}")
            .then_some((Self { seq, prev }, fields))
    }

    /// Whether a line in this place follows that position.
    pub fn follows_position(&self, position: &ChainPosition) -> bool {
        self.seq == position.next && self.prev == position.prev
    }
}
