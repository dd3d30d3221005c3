//! Signs certificates with the organisation's SSH authority.

use ed25519_dalek::Signer;
use muster_wire::token::{KeyPair, PublicKey, Seconds};
use rand::TryRngCore as _;
use ssh_key::certificate::{Builder, CertType};
use ssh_key::public::{Ed25519PublicKey, KeyData};
use ssh_key::{Algorithm, Signature};

use crate::key_id::CertificateKeyId;
use crate::user_key::SubjectKey;

/// A certificate is valid from this long before it is signed, because clocks differ.
pub const CLOCK_TOLERANCE_SECONDS: Seconds = 60;

/// Comment of the authority's public key in `TrustedUserCAKeys`.
const AUTHORITY_COMMENT: &str = "muster-ssh-authority";

/// What a certificate permits besides commands without a terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GrantedFeatures {
    /// A terminal.
    pub pty: bool,
    /// Forwarded ports.
    pub port_forwarding: bool,
    /// A forwarded ssh-agent.
    pub agent_forwarding: bool,
}

/// A certificate to be signed.
#[derive(Debug, Clone)]
pub struct CertificateSpec {
    /// The user's public key.
    pub subject: SubjectKey,
    /// Who it is for; the caller is its only principal.
    pub key_id: CertificateKeyId,
    /// When it is signed.
    pub issued_at: Seconds,
    /// When it expires.
    pub expires: Seconds,
    /// What it permits.
    pub features: GrantedFeatures,
}

/// A signed certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// The line of a `-cert.pub` file.
    pub text: String,
    /// Its random serial number.
    pub serial: u64,
    /// When it expires.
    pub expires: Seconds,
}

/// Why a certificate was not signed.
#[derive(Debug, thiserror::Error)]
pub enum CertificateIssueError {
    /// The end is not after the beginning.
    #[error("the certificate would expire before it is valid")]
    Expired,
    /// The random source failed.
    #[error("the operating system's random source failed")]
    Random,
    /// The certificate cannot be built.
    #[error("cannot build the certificate")]
    Build(#[from] ssh_key::Error),
}

/// The authority's key as a signer of certificates.
struct AuthoritySigner<'a>(&'a KeyPair);

impl Signer<Signature> for AuthoritySigner<'_> {
    fn try_sign(&self, message: &[u8]) -> Result<Signature, ed25519_dalek::SignatureError> {
        let bytes = self.0.sign(message).to_bytes().to_vec();
        Signature::new(Algorithm::Ed25519, bytes).map_err(|_| ed25519_dalek::SignatureError::new())
    }
}

impl From<&AuthoritySigner<'_>> for KeyData {
    fn from(signer: &AuthoritySigner<'_>) -> Self {
        key_data(&signer.0.public_key())
    }
}

/// Signs a certificate.
pub fn issue_certificate(
    authority: &KeyPair,
    spec: CertificateSpec,
) -> Result<IssuedCertificate, CertificateIssueError> {
    let CertificateSpec { subject, key_id, issued_at, expires, features } = spec;
    if expires <= issued_at {
        return Err(CertificateIssueError::Expired);
    }
    let mut random = [0_u8; 40];
    rand::rngs::OsRng.try_fill_bytes(&mut random).map_err(|_| CertificateIssueError::Random)?;
    let (serial, nonce) = random.split_at(8);
    let serial = serial.iter().fold(0_u64, |serial, byte| (serial << 8) | u64::from(*byte));
    let begins = issued_at.saturating_sub(CLOCK_TOLERANCE_SECONDS);
    let mut builder = Builder::new(nonce, subject.0, begins, expires)?;
    builder.serial(serial)?.cert_type(CertType::User)?;
    builder.valid_principal(key_id.caller.as_str())?.key_id(key_id.to_string())?;
    builder.comment(key_id.caller.as_str())?;
    for (is_granted, extension) in [
        (features.agent_forwarding, "permit-agent-forwarding"),
        (features.port_forwarding, "permit-port-forwarding"),
        (features.pty, "permit-pty"),
    ] {
        if is_granted {
            builder.extension(extension, "")?;
        }
    }
    let certificate = builder.sign(&AuthoritySigner(authority))?;
    Ok(IssuedCertificate { text: certificate.to_openssh()?, serial, expires })
}

/// A public key cannot be written in OpenSSH's form.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the key {0} in OpenSSH's form")]
pub struct AuthorityLineError(PublicKey, #[source] ssh_key::Error);

/// The line of an authority's public key, as in `TrustedUserCAKeys`.
pub fn authority_line(key: &PublicKey) -> Result<String, AuthorityLineError> {
    let line = ssh_key::PublicKey::new(key_data(key), AUTHORITY_COMMENT).to_openssh();
    line.map_err(|source| AuthorityLineError(*key, source))
}

/// The file of the trusted authorities for `TrustedUserCAKeys`.
pub fn authority_lines(keys: &[PublicKey]) -> Result<String, AuthorityLineError> {
    let mut text = "# Written by rpcd from the account token.\n".to_owned();
    for key in keys {
        text.push_str(&authority_line(key)?);
        text.push('\n');
    }
    Ok(text)
}

/// The key in OpenSSH's form.
pub(crate) fn key_data(key: &PublicKey) -> KeyData {
    KeyData::Ed25519(Ed25519PublicKey(*key.as_bytes()))
}
