//! Chaining of lines: sequence numbers, hashes, and their byte encoding.

use std::fmt;
use std::str::FromStr;

use crate::token::decode::decode_base64_array;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

const SEQ_FIELD_PREFIX: &[u8] = b"{\"seq\":";
const PREV_FIELD_PREFIX: &[u8] = b",\"prev\":\"";
const HASH_CHARACTERS: usize = 43;

/// The sha256 of a line without its line end; 43 characters of base64url in text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LineHash([u8; 32]);

/// The text is not a valid hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a hash of {HASH_CHARACTERS} characters of base64url")]
pub struct LineHashError;

/// The record is not a JSON object, or is an empty one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line of the audit log must be a JSON object with at least one field")]
pub struct NotAnObject;

impl LineHash {
    /// The previous hash of the first line of a chain.
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
        decode_base64_array(text).map(Self).ok_or(LineHashError)
    }
}

/// A position in the chain: the number of the next line, and the hash of the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainPosition {
    /// The next line's number.
    pub next: u64,
    /// The last line's hash.
    pub prev: LineHash,
}

impl ChainPosition {
    /// The position before the first line.
    pub const START: Self = Self { next: 0, prev: LineHash::NONE };

    /// The position after this line.
    pub fn after_record(seq: u64, line: &[u8]) -> Self {
        Self { next: seq.saturating_add(1), prev: LineHash::of_bytes(line) }
    }

    /// The position after a line read from a log; `None` if it is not a chain line.
    pub fn after_line(line: &[u8]) -> Option<Self> {
        ChainLink::parse_line(line).map(|link| Self::after_record(link.seq, line))
    }

    /// Appends a record (the bytes of a JSON object) as a chain line. The record's bytes are copied unchanged.
    pub fn append_record(self, record: &[u8], out: &mut Vec<u8>) -> Result<Self, NotAnObject> {
        let fields = match record {
            [b'{', rest @ ..] if rest.len() > 1 => rest,
            _ => return Err(NotAnObject),
        };
        let start = self.begin_line(out);
        out.extend_from_slice(fields);
        Ok(self.end_line(start, out))
    }

    /// Appends the fixed beginning of a line; returns the offset at which the line starts.
    pub(super) fn begin_line(self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        out.extend_from_slice(SEQ_FIELD_PREFIX);
        out.extend_from_slice(self.next.to_string().as_bytes());
        out.extend_from_slice(PREV_FIELD_PREFIX);
        let mut text = [0; HASH_CHARACTERS];
        // The buffer has exactly the encoded size, so this cannot fail.
        let _ = URL_SAFE_NO_PAD.encode_slice(self.prev.0, &mut text);
        out.extend_from_slice(&text);
        out.extend_from_slice(b"\",");
        start
    }

    /// Terminates the line that starts at this offset.
    pub(super) fn end_line(self, start: usize, out: &mut Vec<u8>) -> Self {
        let line = out.get(start..).unwrap_or_default();
        let after = Self::after_record(self.next, line);
        out.push(b'\n');
        after
    }
}

/// The sequence number and previous hash of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainLink {
    /// Its number.
    pub seq: u64,
    /// The hash of the line before it.
    pub prev: LineHash,
}

impl ChainLink {
    /// Parses the beginning of a line, which has exactly one valid spelling.
    pub fn parse_line(line: &[u8]) -> Option<Self> {
        Self::split_line(line).map(|(link, _)| link)
    }

    /// Parses the beginning, and returns the remaining fields too.
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
        fields.ends_with(b"}").then_some((Self { seq, prev }, fields))
    }

    /// Whether this line follows that position.
    pub fn follows_position(&self, position: &ChainPosition) -> bool {
        self.seq == position.next && self.prev == position.prev
    }
}
