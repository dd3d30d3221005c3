//! The key id of a certificate: who it is for, and which request asked for it. sshd logs it at each login.

use std::fmt;
use std::str::FromStr;

use muster_wire::identity::Identity;
use muster_wire::token::{KeyKind, PublicKey, Seconds};
use uuid::Uuid;

/// First part of each key id, with the version of its form.
const KEY_ID_PREFIX: &str = "muster1";

/// `muster1:CALLER:KEY:ISSUED:REQUEST`. No part can contain a colon, white space or a control character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateKeyId {
    /// The caller; also the only principal of the certificate.
    pub caller: Identity,
    /// The caller's user key.
    pub key: PublicKey,
    /// When the caller's token was issued: a revocation covers tokens up to a time.
    pub token_issued_at: Seconds,
    /// The request that asked for the certificate.
    pub request: Uuid,
}

/// The text is no key id of a certificate that Muster signed. The text is not repeated: it can be anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key id of the certificate is not of the form muster1:CALLER:KEY:ISSUED:REQUEST")]
pub struct KeyIdError;

impl fmt::Display for CertificateKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { caller, key, token_issued_at, request } = self;
        write!(f, "{KEY_ID_PREFIX}:{caller}:{key}:{token_issued_at}:{request}")
    }
}

impl FromStr for CertificateKeyId {
    type Err = KeyIdError;

    /// Accepts only the spelling that [`fmt::Display`] writes.
    fn from_str(text: &str) -> Result<Self, KeyIdError> {
        let mut parts = text.split(':');
        let mut next = || parts.next().ok_or(KeyIdError);
        if next()? != KEY_ID_PREFIX {
            return Err(KeyIdError);
        }
        let parsed = Self {
            caller: Identity::parse(next()?).map_err(|_| KeyIdError)?,
            key: PublicKey::parse_kind(next()?, KeyKind::User).map_err(|_| KeyIdError)?,
            token_issued_at: next()?.parse().map_err(|_| KeyIdError)?,
            request: next()?.parse().map_err(|_| KeyIdError)?,
        };
        if parsed.to_string() == text { Ok(parsed) } else { Err(KeyIdError) }
    }
}

#[cfg(test)]
mod tests {
    use muster_wire::token::KeyPair;
    use proptest::prelude::*;

    use super::*;

    fn example() -> CertificateKeyId {
        CertificateKeyId {
            caller: Identity::parse("rip").unwrap(),
            key: KeyPair::from_raw(KeyKind::User, &[1; 32]).public_key(),
            token_issued_at: 1_764_000_000,
            request: Uuid::from_u128(7),
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        let text = example().to_string();
        assert_eq!(text.parse(), Ok(example()));
        for other in [
            text.replace("muster1", "muster2"),
            text.replace(":rip:", ":RIP:"),
            text.replace(":rip:", ":rip\nroot:"),
            text.replace(":rip:", ":rip root:"),
            text.replace(":rip:", "::"),
            text.replace(":17", ":017"),
            text.replace(":17", ":+17"),
            format!("{text}:"),
            format!("{text}\n"),
            format!(" {text}"),
            text.to_uppercase(),
            String::new(),
        ] {
            assert_eq!(other.parse::<CertificateKeyId>(), Err(KeyIdError), "{other:?}");
        }
    }

    proptest! {
        #[test]
        fn key_id_round_trips(
            name in "[a-z][a-z0-9_-]{0,20}[a-z0-9](\\.[a-z][a-z0-9]{0,8}){0,3}",
            raw: [u8; 32],
            issued: u64,
            request: u128,
        ) {
            let id = CertificateKeyId {
                caller: Identity::parse(&name).unwrap(),
                key: KeyPair::from_raw(KeyKind::User, &raw).public_key(),
                token_issued_at: issued,
                request: Uuid::from_u128(request),
            };
            let text = id.to_string();
            prop_assert!(!text.contains(|c: char| c.is_whitespace() || c.is_control()));
            prop_assert_eq!(text.parse(), Ok(id));
        }

        #[test]
        fn any_text_is_refused_or_written_again_unchanged(text in "(muster1:)?[ -~\\n]{0,120}") {
            if let Ok(id) = text.parse::<CertificateKeyId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
