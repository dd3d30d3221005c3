//! Nkeys: ed25519 keys in NATS encoding.
//!
//! Base32 without padding of: a prefix byte for the kind (two bytes for seeds), 32 bytes of key, and a CRC-16
//! (XMODEM) in little endian. A public key therefore begins with `O`, `A` or `U`, a seed with `S` and that letter.
//! Decoding accepts one spelling only: 56 or 58 upper-case characters.

use std::fmt;
use std::hash::{Hash, Hasher};

use data_encoding::BASE32_NOPAD;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use rand::TryRngCore as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

const PUBLIC_KEY_CHARACTERS: usize = 56;
const SEED_CHARACTERS: usize = 58;
const SEED_PREFIX: u8 = 18 << 3;

/// The kind of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyKind {
    /// An organisation; signs accounts.
    Operator,
    /// A fleet, or one of its roles; signs users.
    Account,
    /// A node, caller or service; signs messages.
    User,
}

impl KeyKind {
    /// The prefix byte; its upper five bits are the letter.
    fn prefix_byte(self) -> u8 {
        match self {
            Self::Operator => 14 << 3,
            Self::Account => 0,
            Self::User => 20 << 3,
        }
    }

    fn from_prefix(prefix: u8) -> Option<Self> {
        [Self::Operator, Self::Account, Self::User]
            .into_iter()
            .find(|kind| kind.prefix_byte() == prefix)
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operator => "operator",
            Self::Account => "account",
            Self::User => "user",
        })
    }
}

/// Parse errors of keys. They never contain the text, which could be a seed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not base32 of the right length.
    #[error("not a key: expected {expected} characters A-Z and 2-7, but {found} bytes were given")]
    Spelling {
        /// Expected length in characters.
        expected: usize,
        /// Given length in bytes.
        found: usize,
    },
    /// Checksum mismatch: mistyped or truncated.
    #[error("the key's checksum is wrong; the key was mistyped or truncated")]
    Checksum,
    /// The prefix is not that of an operator, account or user.
    #[error("the key is not an operator, account or user key")]
    Kind,
    /// A valid key of another kind.
    #[error("the key is of kind {found}; expected kind {expected}")]
    WrongKind {
        /// The expected kind.
        expected: KeyKind,
        /// The given kind.
        found: KeyKind,
    },
    /// The 32 bytes are not a curve point, or one of small order, for which signatures can be forged without a private key.
    #[error("the public key {0} is not a valid curve point")]
    Point(PublicKey),
    /// The operating system's random source failed.
    #[error("the operating system's random source failed")]
    Random,
}

/// A public key and its kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey {
    kind: KeyKind,
    bytes: [u8; 32],
}

impl PublicKey {
    /// Parses the NATS encoding.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let spelling = KeyError::Spelling { expected: PUBLIC_KEY_CHARACTERS, found: text.len() };
        if text.len() != PUBLIC_KEY_CHARACTERS {
            return Err(spelling);
        }
        let raw = BASE32_NOPAD.decode(text.as_bytes()).map_err(|_| spelling.clone())?;
        let (prefix, bytes) = verify_checksum(&raw)?.split_first().ok_or(spelling.clone())?;
        let kind = KeyKind::from_prefix(*prefix).ok_or(KeyError::Kind)?;
        let bytes = bytes.try_into().map_err(|_| spelling)?;
        Ok(Self { kind, bytes })
    }

    /// Parses the NATS encoding of a key of this kind.
    pub fn parse_kind(text: &str, kind: KeyKind) -> Result<Self, KeyError> {
        Self::parse(text)?.expect_kind(kind)
    }

    /// Returns the key if it is of this kind.
    pub fn expect_kind(self, kind: KeyKind) -> Result<Self, KeyError> {
        if self.kind == kind {
            return Ok(self);
        }
        Err(KeyError::WrongKind { expected: kind, found: self.kind })
    }

    /// The kind of the key.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The 32 bytes of the curve point.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// The curve point for verification. Refuses points of small order.
    pub fn verifying_key(&self) -> Result<VerifyingKey, KeyError> {
        match VerifyingKey::from_bytes(&self.bytes) {
            Ok(key) if !key.is_weak() => Ok(key),
            _ => Err(KeyError::Point(*self)),
        }
    }

    /// The same point on the X25519 curve, for encryption to the key's holder.
    pub(crate) fn exchange_point(&self) -> Result<[u8; 32], KeyError> {
        Ok(self.verifying_key()?.to_montgomery().to_bytes())
    }
}

impl Hash for PublicKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_nkey(&[self.kind.prefix_byte()], &self.bytes))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl_text_form!(PublicKey, KeyError);

/// A signing key. Wiped from memory when dropped; `Debug` shows the public key only.
#[derive(Clone)]
pub struct KeyPair {
    kind: KeyKind,
    key: SigningKey,
}

impl KeyPair {
    /// Generates a key from the operating system's random source.
    pub fn generate(kind: KeyKind) -> Result<Self, KeyError> {
        let mut raw = Zeroizing::new([0_u8; 32]);
        rand::rngs::OsRng.try_fill_bytes(&mut *raw).map_err(|_| KeyError::Random)?;
        Ok(Self::from_raw(kind, &raw))
    }

    /// The key of 32 secret bytes. Deterministic.
    pub fn from_raw(kind: KeyKind, raw: &[u8; 32]) -> Self {
        Self { kind, key: SigningKey::from_bytes(raw) }
    }

    /// Parses a seed in NATS encoding.
    pub fn from_seed(text: &str) -> Result<Self, KeyError> {
        let spelling = KeyError::Spelling { expected: SEED_CHARACTERS, found: text.len() };
        if text.len() != SEED_CHARACTERS {
            return Err(spelling);
        }
        let raw = BASE32_NOPAD.decode(text.as_bytes()).map_err(|_| spelling.clone())?;
        let raw = Zeroizing::new(raw);
        let [first, second, secret @ ..] = verify_checksum(&raw)? else { return Err(spelling) };
        if first & 0xf8 != SEED_PREFIX || second & 0x07 != 0 {
            return Err(KeyError::Kind);
        }
        let kind = KeyKind::from_prefix((first << 5) | (second >> 3)).ok_or(KeyError::Kind)?;
        let secret = <&[u8; 32]>::try_from(secret).map_err(|_| spelling)?;
        Ok(Self::from_raw(kind, secret))
    }

    /// The seed in NATS encoding, for a `.creds` file or a key store.
    pub fn seed_text(&self) -> Zeroizing<String> {
        let prefix = self.kind.prefix_byte();
        let secret = Zeroizing::new(self.key.to_bytes());
        Zeroizing::new(encode_nkey(&[SEED_PREFIX | (prefix >> 5), prefix << 3], &secret))
    }

    /// The public key.
    pub fn public_key(&self) -> PublicKey {
        PublicKey { kind: self.kind, bytes: self.key.verifying_key().to_bytes() }
    }

    /// The X25519 secret that matches [`PublicKey::exchange_point`].
    pub(crate) fn exchange_secret(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.key.to_scalar_bytes())
    }

    /// Signs with ed25519. Deterministic.
    pub fn sign(&self, message: &[u8]) -> Signature {
        self.key.sign(message)
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyPair").field(&self.public_key()).finish()
    }
}

fn encode_nkey(prefix: &[u8], key: &[u8; 32]) -> String {
    let mut raw = Zeroizing::new(Vec::with_capacity(36));
    raw.extend_from_slice(prefix);
    raw.extend_from_slice(key);
    let checksum = crc16(&raw);
    raw.extend_from_slice(&checksum.to_le_bytes());
    BASE32_NOPAD.encode(&raw)
}

/// The bytes before the checksum, if it matches.
fn verify_checksum(raw: &[u8]) -> Result<&[u8], KeyError> {
    let (content, checksum) = raw.split_last_chunk::<2>().ok_or(KeyError::Checksum)?;
    if crc16(content) == u16::from_le_bytes(*checksum) {
        Ok(content)
    } else {
        Err(KeyError::Checksum)
    }
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value zero. Bytewise without a table: the polynomial has few terms, so shifts suffice.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, byte| {
        let crc = crc.rotate_left(8) ^ u16::from(*byte);
        let crc = crc ^ ((crc & 0xff) >> 4);
        let crc = crc ^ (crc << 12);
        crc ^ ((crc & 0xff) << 5)
    })
}
