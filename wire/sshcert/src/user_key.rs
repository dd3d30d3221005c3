//! Keys of users: the public key that a certificate is for, and the key that `rpc` makes for itself.

use ed25519_dalek::VerifyingKey;
use rand::TryRngCore as _;
use ssh_key::private::Ed25519Keypair;
use ssh_key::public::KeyData;
use ssh_key::{LineEnding, PrivateKey, PublicKey};
use zeroize::Zeroizing;

/// Longest text of a public key, in bytes.
pub const MAX_PUBLIC_KEY_BYTES: usize = 2048;

/// Why a text is no public key for a certificate.
#[derive(Debug, thiserror::Error)]
pub enum SubjectKeyError {
    /// Longer than any accepted key.
    #[error("the public key has {0} bytes; the limit is {MAX_PUBLIC_KEY_BYTES}")]
    TooLong(usize),
    /// Not a line of a `.pub` file.
    #[error("not a public key of OpenSSH; expected a line such as `ssh-ed25519 AAAA... comment`")]
    Malformed(#[source] ssh_key::Error),
    /// A key of another type.
    #[error(
        "the key is of type {0}; certificates are signed for keys of type ssh-ed25519 and sk-ssh-ed25519@openssh.com"
    )]
    Algorithm(String),
    /// Not a point of the curve, or one of small order, for which anyone can make signatures.
    #[error("the key is not a key that ssh-keygen makes: its point is weak or not on the curve")]
    Weak,
    /// The random source failed.
    #[error("the operating system's random source failed")]
    Random,
    /// The private key cannot be read or written in OpenSSH's form.
    #[error("not a private key of OpenSSH")]
    Private(#[source] ssh_key::Error),
}

/// The public key that a certificate is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectKey(pub(crate) KeyData);

impl SubjectKey {
    /// Parses the line of a `.pub` file. The comment is ignored.
    pub fn parse(text: &str) -> Result<Self, SubjectKeyError> {
        if text.len() > MAX_PUBLIC_KEY_BYTES {
            return Err(SubjectKeyError::TooLong(text.len()));
        }
        let key = PublicKey::from_openssh(text.trim()).map_err(SubjectKeyError::Malformed)?;
        match key.key_data() {
            data @ KeyData::Ed25519(point) => check_point(&point.0).map(|()| Self(data.clone())),
            data @ KeyData::SkEd25519(key) => {
                check_point(&key.public_key().0).map(|()| Self(data.clone()))
            }
            other => Err(SubjectKeyError::Algorithm(other.algorithm().to_string())),
        }
    }
}

fn check_point(bytes: &[u8; 32]) -> Result<(), SubjectKeyError> {
    match VerifyingKey::from_bytes(bytes) {
        Ok(key) if !key.is_weak() => Ok(()),
        _ => Err(SubjectKeyError::Weak),
    }
}

/// A user's own key. `Debug` shows nothing of it.
pub struct SshUserKey(PrivateKey);

impl SshUserKey {
    /// Generates an ed25519 key from the operating system's random source.
    pub fn generate(comment: &str) -> Result<Self, SubjectKeyError> {
        let mut seed = Zeroizing::new([0_u8; 32]);
        rand::rngs::OsRng.try_fill_bytes(&mut *seed).map_err(|_| SubjectKeyError::Random)?;
        let pair = Ed25519Keypair::from_seed(&seed);
        PrivateKey::new(pair.into(), comment).map(Self).map_err(SubjectKeyError::Private)
    }

    /// Parses the file of a private key.
    pub fn parse(text: &str) -> Result<Self, SubjectKeyError> {
        PrivateKey::from_openssh(text).map(Self).map_err(SubjectKeyError::Private)
    }

    /// The file of the private key.
    pub fn private_text(&self) -> Result<Zeroizing<String>, SubjectKeyError> {
        self.0.to_openssh(LineEnding::LF).map_err(SubjectKeyError::Private)
    }

    /// The line of the public key.
    pub fn public_text(&self) -> Result<String, SubjectKeyError> {
        self.0.public_key().to_openssh().map_err(SubjectKeyError::Private)
    }

    /// The public key, as the subject of a certificate.
    pub fn subject(&self) -> SubjectKey {
        SubjectKey(self.0.public_key().key_data().clone())
    }
}

impl std::fmt::Debug for SshUserKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SshUserKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn own_key_is_read_again_and_not_shown() {
        let key = SshUserKey::generate("rip").unwrap();
        let text = key.private_text().unwrap();
        let again = SshUserKey::parse(&text).unwrap();
        assert_eq!(again.subject(), key.subject());
        assert_eq!(SubjectKey::parse(&key.public_text().unwrap()).unwrap(), key.subject());
        assert_eq!(format!("{key:?}"), "SshUserKey { .. }");
        assert_ne!(SshUserKey::generate("rip").unwrap().subject(), key.subject());
    }

    #[test]
    fn other_keys_are_refused_by_type_and_size() {
        let rsa = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC7";
        assert!(matches!(SubjectKey::parse(rsa), Err(SubjectKeyError::Malformed(_))));
        let long = "a".repeat(MAX_PUBLIC_KEY_BYTES + 1);
        assert!(matches!(SubjectKey::parse(&long), Err(SubjectKeyError::TooLong(2049))));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in "(ssh-ed25519 )?[ -~\\n]{0,200}") {
            let _ = SubjectKey::parse(&text);
            let _ = SshUserKey::parse(&text);
        }
    }
}
