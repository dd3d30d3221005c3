//! Checksums in Puppet's notation, `{sha256}ba78...`, and the other ways of comparing files.

use muster_base::{encode_hex, since_epoch};
use std::time::SystemTime;

use md5::Md5;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::accounts::dates;

/// Number of bytes covered by the `lite` kinds.
const LITE_BYTES: usize = 512;
const SECS_PER_DAY: u64 = 86_400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumKind {
    /// SHA-256, the default.
    Sha256,
    /// SHA-256 of the first 512 bytes.
    Sha256Lite,
    Md5,
    /// MD5 of the first 512 bytes.
    Md5Lite,
    Sha1,
    /// SHA-1 of the first 512 bytes.
    Sha1Lite,
    Sha224,
    Sha384,
    Sha512,
}

const CHECKSUM_KINDS: [(&str, ChecksumKind); 9] = [
    ("sha256", ChecksumKind::Sha256),
    ("sha256lite", ChecksumKind::Sha256Lite),
    ("md5", ChecksumKind::Md5),
    ("md5lite", ChecksumKind::Md5Lite),
    ("sha1", ChecksumKind::Sha1),
    ("sha1lite", ChecksumKind::Sha1Lite),
    ("sha224", ChecksumKind::Sha224),
    ("sha384", ChecksumKind::Sha384),
    ("sha512", ChecksumKind::Sha512),
];

impl ChecksumKind {
    pub fn from_name(name: &str) -> Option<Self> {
        CHECKSUM_KINDS.iter().find(|(known, _)| *known == name).map(|(_, digest)| *digest)
    }

    pub fn name(self) -> &'static str {
        CHECKSUM_KINDS.iter().find(|(_, digest)| *digest == self).map_or("sha256", |(name, _)| name)
    }

    pub fn hex_checksum(self, content: &[u8]) -> String {
        let lite = content.get(..LITE_BYTES).unwrap_or(content);
        match self {
            Self::Sha256 => hex_hash::<Sha256>(content),
            Self::Sha256Lite => hex_hash::<Sha256>(lite),
            Self::Md5 => hex_hash::<Md5>(content),
            Self::Md5Lite => hex_hash::<Md5>(lite),
            Self::Sha1 => hex_hash::<Sha1>(content),
            Self::Sha1Lite => hex_hash::<Sha1>(lite),
            Self::Sha224 => hex_hash::<Sha224>(content),
            Self::Sha384 => hex_hash::<Sha384>(content),
            Self::Sha512 => hex_hash::<Sha512>(content),
        }
    }

    /// The checksum prefixed with its kind: `{md5}900150983cd24fb0d6963f7d28e17f72`.
    pub fn tagged_checksum(self, content: &[u8]) -> String {
        format!("{{{}}}{}", self.name(), self.hex_checksum(content))
    }

    /// Number of hexadecimal digits.
    pub fn digit_count(self) -> usize {
        self.hex_checksum(b"").len()
    }

    /// Whether the text is a syntactically valid checksum of this kind.
    pub fn is_valid_checksum(self, sum: &str) -> bool {
        sum.len() == self.digit_count()
            && sum.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    }
}

fn hex_hash<D: sha2::Digest>(content: &[u8]) -> String {
    encode_hex(D::digest(content))
}

/// Kind and digits of `{sha256}ba78...`; `None` if the text is not a complete checksum.
pub fn parse_checksum(text: &str) -> Option<(ChecksumKind, &str)> {
    let (kind, sum) = text.strip_prefix('{')?.split_once('}')?;
    let digest = ChecksumKind::from_name(kind)?;
    digest.is_valid_checksum(sum).then_some((digest, sum))
}

/// Formats a time for file comparison: `{mtime}2023-11-14 22:13:20 UTC`. Whole seconds; the texts sort in time order.
pub fn timestamp_checksum(kind: &str, time: SystemTime) -> String {
    let seconds = since_epoch(time).as_secs();
    let (day, rest) = (dates::epoch_day(time), seconds % SECS_PER_DAY);
    let day = dates::render_day(day).unwrap_or_default();
    format!("{{{kind}}}{day} {:02}:{:02}:{:02} UTC", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{CHECKSUM_KINDS, ChecksumKind, parse_checksum, timestamp_checksum};

    #[test]
    fn checksums_of_abc_match_the_published_values() {
        assert_eq!(
            ChecksumKind::Md5.tagged_checksum(b"abc"),
            "{md5}900150983cd24fb0d6963f7d28e17f72"
        );
        assert_eq!(
            ChecksumKind::Sha1.tagged_checksum(b"abc"),
            "{sha1}a9993e364706816aba3e25717850c26c9cd0d89d"
        );
        assert!(ChecksumKind::Sha224.hex_checksum(b"abc").starts_with("23097d223405d8228642"));
        assert!(ChecksumKind::Sha384.hex_checksum(b"abc").starts_with("cb00753f45a35e8bb5a0"));
        assert!(ChecksumKind::Sha512.hex_checksum(b"abc").starts_with("ddaf35a193617abacc41"));
        for (name, digest) in CHECKSUM_KINDS {
            let sum = digest.tagged_checksum(b"abc");
            assert_eq!(digest.name(), name);
            assert_eq!(parse_checksum(&sum).map(|(digest, _)| digest), Some(digest), "{sum}");
        }
        assert_eq!(parse_checksum("{sha256}short"), None);
        assert_eq!(parse_checksum("{crc}00"), None);
    }

    #[test]
    fn lite_kinds_use_the_first_512_bytes() {
        let (one, other) = ([b'x'; 600], {
            let mut other = [b'x'; 600];
            other[599] = b'y';
            other
        });
        assert_eq!(
            ChecksumKind::Sha256Lite.hex_checksum(&one),
            ChecksumKind::Sha256Lite.hex_checksum(&other)
        );
        assert_ne!(
            ChecksumKind::Sha256.hex_checksum(&one),
            ChecksumKind::Sha256.hex_checksum(&other)
        );
        assert_eq!(
            ChecksumKind::Md5Lite.hex_checksum(&one),
            ChecksumKind::Md5.hex_checksum(&one[..512])
        );
    }

    #[test]
    fn timestamps_are_rendered_in_utc() {
        let at = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(timestamp_checksum("mtime", at), "{mtime}2023-11-14 22:13:20 UTC");
    }
}
