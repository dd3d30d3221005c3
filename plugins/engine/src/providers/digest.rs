//! Checksums of contents in Puppet's words: `{sha256}ba78...`, and by what else files can be compared.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use md5::Md5;
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::accounts::dates;

/// How many bytes the `lite` kinds look at.
const LITE: usize = 512;
const DAY: u64 = 86_400;

/// A way to compare contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digest {
    /// SHA-256, which is what is meant when nothing is said.
    Sha256,
    /// SHA-256 of the first 512 bytes.
    Sha256Lite,
    /// MD5.
    Md5,
    /// MD5 of the first 512 bytes.
    Md5Lite,
    /// SHA-1.
    Sha1,
    /// SHA-1 of the first 512 bytes.
    Sha1Lite,
    /// SHA-224.
    Sha224,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// All of them by their names.
const ALL: [(&str, Digest); 9] = [
    ("sha256", Digest::Sha256),
    ("sha256lite", Digest::Sha256Lite),
    ("md5", Digest::Md5),
    ("md5lite", Digest::Md5Lite),
    ("sha1", Digest::Sha1),
    ("sha1lite", Digest::Sha1Lite),
    ("sha224", Digest::Sha224),
    ("sha384", Digest::Sha384),
    ("sha512", Digest::Sha512),
];

impl Digest {
    /// The kind of that name.
    pub fn named(name: &str) -> Option<Self> {
        ALL.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, digest)| *digest)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        ALL.iter()
            .find(|(_, digest)| *digest == self)
            .map_or("sha256", |(name, _)| name)
    }

    /// The checksum as hexadecimal digits.
    pub fn of(self, content: &[u8]) -> String {
        let lite = content.get(..LITE).unwrap_or(content);
        match self {
            Self::Sha256 => hex::<Sha256>(content),
            Self::Sha256Lite => hex::<Sha256>(lite),
            Self::Md5 => hex::<Md5>(content),
            Self::Md5Lite => hex::<Md5>(lite),
            Self::Sha1 => hex::<Sha1>(content),
            Self::Sha1Lite => hex::<Sha1>(lite),
            Self::Sha224 => hex::<Sha224>(content),
            Self::Sha384 => hex::<Sha384>(content),
            Self::Sha512 => hex::<Sha512>(content),
        }
    }

    /// The checksum with its kind: `{md5}900150983cd24fb0d6963f7d28e17f72`.
    pub fn sum(self, content: &[u8]) -> String {
        format!("{{{}}}{}", self.name(), self.of(content))
    }

    /// How many hexadecimal digits it has.
    pub fn digits(self) -> usize {
        match self {
            Self::Sha256 | Self::Sha256Lite => 64,
            Self::Md5 | Self::Md5Lite => 32,
            Self::Sha1 | Self::Sha1Lite => 40,
            Self::Sha224 => 56,
            Self::Sha384 => 96,
            Self::Sha512 => 128,
        }
    }

    /// Whether this can be the checksum of something.
    pub fn fits(self, sum: &str) -> bool {
        sum.len() == self.digits()
            && sum
                .bytes()
                .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    }
}

fn hex<D: sha2::Digest>(content: &[u8]) -> String {
    let mut text = String::with_capacity(128);
    for byte in D::digest(content) {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The kind and the digits of `{sha256}ba78...`; `None` for what only begins like a checksum.
pub fn parse(text: &str) -> Option<(Digest, &str)> {
    let (kind, sum) = text.strip_prefix('{')?.split_once('}')?;
    let digest = Digest::named(kind)?;
    digest.fits(sum).then_some((digest, sum))
}

/// A moment as files are compared by: `{mtime}2023-11-14 22:13:20 UTC`. Whole seconds; such texts sort as their moments do.
pub fn moment(kind: &str, moment: SystemTime) -> String {
    let seconds = moment
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let (day, rest) = (dates::day_of(moment), seconds % DAY);
    let day = dates::render(day).unwrap_or_default();
    format!(
        "{{{kind}}}{day} {:02}:{:02}:{:02} UTC",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{ALL, Digest, moment, parse};

    #[test]
    fn every_kind_has_its_known_sum_of_abc() {
        assert_eq!(
            Digest::Md5.sum(b"abc"),
            "{md5}900150983cd24fb0d6963f7d28e17f72"
        );
        assert_eq!(
            Digest::Sha1.sum(b"abc"),
            "{sha1}a9993e364706816aba3e25717850c26c9cd0d89d"
        );
        assert!(
            Digest::Sha224
                .of(b"abc")
                .starts_with("23097d223405d8228642")
        );
        assert!(
            Digest::Sha384
                .of(b"abc")
                .starts_with("cb00753f45a35e8bb5a0")
        );
        assert!(
            Digest::Sha512
                .of(b"abc")
                .starts_with("ddaf35a193617abacc41")
        );
        for (name, digest) in ALL {
            let sum = digest.sum(b"abc");
            assert_eq!(digest.name(), name);
            assert_eq!(parse(&sum).map(|(digest, _)| digest), Some(digest), "{sum}");
        }
        assert_eq!(parse("{sha256}short"), None);
        assert_eq!(parse("{crc}00"), None);
    }

    #[test]
    fn lite_kinds_look_at_the_first_512_bytes() {
        let (one, other) = ([b'x'; 600], {
            let mut other = [b'x'; 600];
            other[599] = b'y';
            other
        });
        assert_eq!(Digest::Sha256Lite.of(&one), Digest::Sha256Lite.of(&other));
        assert_ne!(Digest::Sha256.of(&one), Digest::Sha256.of(&other));
        assert_eq!(Digest::Md5Lite.of(&one), Digest::Md5.of(&one[..512]));
    }

    #[test]
    fn moments_are_told_in_utc() {
        let at = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(moment("mtime", at), "{mtime}2023-11-14 22:13:20 UTC");
    }
}
