//! A certificate as a node verifies it: signed by an authority of the account token, for one caller, and valid now.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_wire::token::{PublicKey, Seconds};
use ssh_key::Certificate;

use crate::issue::key_data;
use crate::key_id::{CertificateKeyId, KeyIdError};

/// Largest certificate that is parsed, in bytes of base64.
pub const MAX_CERTIFICATE_BYTES: usize = 8192;

/// Why a certificate is refused.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// Too large.
    #[error("the certificate has {0} bytes; the limit is {MAX_CERTIFICATE_BYTES}")]
    TooLarge(usize),
    /// Not base64.
    #[error("the certificate is not base64")]
    Encoding(#[source] base64::DecodeError),
    /// Not a certificate.
    #[error("not a certificate of OpenSSH")]
    Malformed(#[source] ssh_key::Error),
    /// Another encoding than the one that is signed.
    #[error("the certificate is not in the encoding that is signed")]
    NotCanonical,
    /// A host certificate.
    #[error("the certificate is not for a user")]
    NotForUser,
    /// Signed by another key.
    #[error("the certificate is not signed by an SSH authority of the account token")]
    UnknownAuthority,
    /// The signature does not match.
    #[error("the signature of the certificate is not valid")]
    Signature(#[source] ssh_key::Error),
    /// Not yet, or no longer, valid.
    #[error("the certificate is valid from {begins} to {expires}; the time is {now}")]
    Time {
        /// Begin, in seconds since the epoch.
        begins: Seconds,
        /// End, in seconds since the epoch.
        expires: Seconds,
        /// The node's time, in seconds since the epoch.
        now: Seconds,
    },
    /// Not a key id of Muster.
    #[error(transparent)]
    KeyId(#[from] KeyIdError),
    /// The principals are not the caller alone.
    #[error("the principals of the certificate are not the caller of its key id alone")]
    Principals,
}

/// A certificate whose form is that of [`crate::issue_certificate`]. Parsing does not verify it.
#[derive(Debug, Clone)]
pub struct UserCertificate {
    certificate: Certificate,
    key_id: CertificateKeyId,
}

impl UserCertificate {
    /// Parses base64, as sshd passes it (`%k`).
    pub fn parse_base64(text: &str) -> Result<Self, CertificateError> {
        if text.len() > MAX_CERTIFICATE_BYTES {
            return Err(CertificateError::TooLarge(text.len()));
        }
        let bytes = STANDARD.decode(text).map_err(CertificateError::Encoding)?;
        let certificate = Certificate::from_bytes(&bytes).map_err(CertificateError::Malformed)?;
        // The parser accepts other lengths of some fields than those that it writes; the signature is verified over what it writes.
        if certificate.to_bytes().map_err(CertificateError::Malformed)? != bytes {
            return Err(CertificateError::NotCanonical);
        }
        Self::from_certificate(certificate)
    }

    /// Parses the line of a `-cert.pub` file.
    pub fn parse_line(text: &str) -> Result<Self, CertificateError> {
        Self::parse_base64(text.split_whitespace().nth(1).unwrap_or_default())
    }

    fn from_certificate(certificate: Certificate) -> Result<Self, CertificateError> {
        if !certificate.cert_type().is_user() {
            return Err(CertificateError::NotForUser);
        }
        let key_id: CertificateKeyId = certificate.key_id().parse()?;
        if certificate.valid_principals() != [key_id.caller.to_string()] {
            return Err(CertificateError::Principals);
        }
        Ok(Self { certificate, key_id })
    }

    /// Verifies that one of these authorities signed the certificate, and that it is valid at this time. Whether its key is revoked is checked elsewhere.
    pub fn verify(&self, authorities: &[PublicKey], now: Seconds) -> Result<(), CertificateError> {
        let signer = self.certificate.signature_key();
        if !authorities.iter().any(|authority| key_data(authority) == *signer) {
            return Err(CertificateError::UnknownAuthority);
        }
        self.certificate.verify_signature().map_err(CertificateError::Signature)?;
        let (begins, expires) = (self.certificate.valid_after(), self.expires());
        if now < begins || now >= expires {
            return Err(CertificateError::Time { begins, expires, now });
        }
        Ok(())
    }

    /// Who it is for.
    pub fn key_id(&self) -> &CertificateKeyId {
        &self.key_id
    }

    /// Its serial number.
    pub fn serial(&self) -> u64 {
        self.certificate.serial()
    }

    /// When it expires.
    pub fn expires(&self) -> Seconds {
        self.certificate.valid_before()
    }

    /// Whether it is for this public key.
    pub fn is_for(&self, subject: &crate::SubjectKey) -> bool {
        *self.certificate.public_key() == subject.0
    }
}

#[cfg(test)]
mod tests {
    use muster_wire::identity::Identity;
    use muster_wire::token::{KeyKind, KeyPair};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::{CertificateSpec, GrantedFeatures, SshUserKey, issue_certificate};

    const NOW: Seconds = 1_764_000_000;

    fn pair(kind: KeyKind, seed: u8) -> KeyPair {
        KeyPair::from_raw(kind, &[seed; 32])
    }

    fn issue(authority: &KeyPair, user: &SshUserKey) -> String {
        let key_id = CertificateKeyId {
            caller: Identity::parse("rip").unwrap(),
            key: pair(KeyKind::User, 1).public_key(),
            token_issued_at: NOW - 100,
            request: Uuid::from_u128(7),
        };
        let features = GrantedFeatures { pty: true, ..GrantedFeatures::default() };
        let (issued_at, expires) = (NOW, NOW + 3600);
        let spec =
            CertificateSpec { subject: user.subject(), key_id, issued_at, expires, features };
        issue_certificate(authority, spec).unwrap().text
    }

    fn blob(line: &str) -> String {
        line.split(' ').nth(1).unwrap().to_owned()
    }

    #[test]
    fn certificate_is_verified_by_authority_time_and_signature() {
        let (authority, user) = (pair(KeyKind::Account, 2), SshUserKey::generate("rip").unwrap());
        let (ours, other) = (authority.public_key(), pair(KeyKind::Account, 3).public_key());
        let line = issue(&authority, &user);
        let certificate = UserCertificate::parse_line(&line).unwrap();
        assert!(certificate.is_for(&user.subject()));
        let again = UserCertificate::parse_base64(&blob(&line)).unwrap();
        assert_eq!(again.serial(), certificate.serial());
        for now in [NOW - 60, NOW, NOW + 3599] {
            certificate.verify(&[other, ours], now).unwrap();
        }
        for now in [NOW - 61, NOW + 3600, u64::MAX] {
            let error = certificate.verify(&[ours], now).unwrap_err();
            assert!(matches!(error, CertificateError::Time { .. }), "{error}");
        }
        for authorities in [&[][..], &[other]] {
            let error = certificate.verify(authorities, NOW).unwrap_err();
            assert!(matches!(error, CertificateError::UnknownAuthority), "{error}");
        }
        assert_ne!(blob(&issue(&authority, &user)), blob(&line), "serial and nonce are random");
    }

    #[test]
    fn changed_byte_is_never_accepted() {
        let authority = pair(KeyKind::Account, 2);
        let line = issue(&authority, &SshUserKey::generate("rip").unwrap());
        let bytes = STANDARD.decode(blob(&line)).unwrap();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let verified = UserCertificate::parse_base64(&STANDARD.encode(&changed))
                .and_then(|certificate| certificate.verify(&[authority.public_key()], NOW));
            assert!(verified.is_err(), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(UserCertificate::parse_base64(&STANDARD.encode(&bytes)).is_err());
            prop_assert!(UserCertificate::parse_line(&String::from_utf8_lossy(&bytes)).is_err());
        }
    }
}
