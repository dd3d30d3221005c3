//! Verifies a certificate against an authority, a private key, the current time and the locally known revocation lists.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::certificate::document::sha256_fingerprint;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateVerifyError {
    /// The text contains no certificate.
    #[error("cannot parse the certificate: {0}")]
    Certificate(String),
    /// The key text contains no usable private key.
    #[error("cannot parse the private key")]
    Key,
    #[error("it does not match the private key of this node")]
    OtherKey,
    /// The authority text contains no certificate.
    #[error("cannot use the CA certificate: {0}")]
    Authority(String),
    /// The authority did not sign the certificate, it is not valid now, or it is revoked.
    #[error("verification against the CA certificate of this node failed: {0}")]
    Untrusted(String),
}

/// Verifies that the authority signed the certificate, that it belongs to the key, and that it is valid and not revoked at the given time.
/// All texts are PEM. The authority may consist of several certificates. `revoked` holds revocation lists; unreadable lists are skipped.
pub fn verify_certificate(
    certificate: &str,
    key: &str,
    authority: &str,
    revoked: Option<&str>,
    now: SystemTime,
) -> Result<(), CertificateVerifyError> {
    let chain: Vec<CertificateDer<'_>> = CertificateDer::pem_slice_iter(certificate.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| CertificateVerifyError::Certificate(error.to_string()))?;
    let Some((leaf, intermediates)) = chain.split_first() else {
        return Err(CertificateVerifyError::Certificate(
            "the PEM text contains no certificate".to_owned(),
        ));
    };
    let (_, parsed) = X509Certificate::from_der(leaf)
        .map_err(|error| CertificateVerifyError::Certificate(error.to_string()))?;
    if derive_public_key(key).ok_or(CertificateVerifyError::Key)? != parsed.public_key().raw {
        return Err(CertificateVerifyError::OtherKey);
    }
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        let root = root.map_err(|error| CertificateVerifyError::Authority(error.to_string()))?;
        roots.add(root).map_err(|error| CertificateVerifyError::Authority(error.to_string()))?;
    }
    let lists = revoked.map_or_else(Vec::new, parse_revocation_lists);
    let provider = Arc::new(ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    // The local lists may be incomplete, so a certificate without a matching list counts as not revoked.
    let verifier = builder
        .with_crls(lists)
        .only_check_end_entity_revocation()
        .allow_unknown_revocation_status()
        .build()
        .map_err(|error| CertificateVerifyError::Authority(error.to_string()))?;
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    verifier
        .verify_client_cert(leaf, intermediates, UnixTime::since_unix_epoch(now))
        .map_err(|error| CertificateVerifyError::Untrusted(error.to_string()))?;
    Ok(())
}

/// SHA-256 of the public key of a private key in PEM form. `None` if the private key is not usable.
pub fn public_key_fingerprint(key: &str) -> Option<String> {
    derive_public_key(key).map(|key| sha256_fingerprint(&key))
}

/// Returns no error detail, because the parser's message could quote the secret key.
fn derive_public_key(key: &str) -> Option<Vec<u8>> {
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).ok()?;
    let key = ring::sign::any_supported_type(&key).ok()?;
    Some(key.public_key()?.as_ref().to_vec())
}

/// Parses revocation lists; skips those that are not usable.
fn parse_revocation_lists(pem: &str) -> Vec<CertificateRevocationListDer<'static>> {
    let usable = |list: &CertificateRevocationListDer<'_>| {
        x509_parser::revocation_list::CertificateRevocationList::from_der(list).is_ok()
    };
    CertificateRevocationListDer::pem_slice_iter(pem.as_bytes())
        .filter_map(Result::ok)
        .filter(usable)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::{CertificateVerifyError, verify_certificate};

    struct Authority {
        issuer: Issuer<'static, KeyPair>,
        pem: String,
    }

    fn authority() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "CA");
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    fn sign(authority: &Authority, key: &KeyPair) -> String {
        let params = CertificateParams::new(vec!["web1".to_owned()]).unwrap();
        params.signed_by(key, &authority.issuer).unwrap().pem()
    }

    #[test]
    fn certificate_must_match_key_and_authority() {
        let (ours, theirs) = (authority(), authority());
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let certificate = sign(&ours, &key);
        let now = SystemTime::now();
        let check = |certificate: &str, key: &str, ca: &str, now| {
            verify_certificate(certificate, key, ca, None, now)
        };
        let key_pem = key.serialize_pem();
        assert_eq!(check(&certificate, &key_pem, &ours.pem, now), Ok(()));
        let both = format!("{}{}", theirs.pem, ours.pem);
        assert_eq!(check(&certificate, &key_pem, &both, now), Ok(()));
        assert_eq!(
            check(&certificate, &other.serialize_pem(), &ours.pem, now),
            Err(CertificateVerifyError::OtherKey)
        );
        assert!(matches!(
            check(&certificate, &key_pem, &theirs.pem, now),
            Err(CertificateVerifyError::Untrusted(_))
        ));
        // rcgen's certificates are valid until the year 4096 by default.
        let late = now + Duration::from_hours(24 * 366 * 3000);
        assert!(matches!(
            check(&certificate, &key_pem, &ours.pem, late),
            Err(CertificateVerifyError::Untrusted(_))
        ));
        for text in ["", "garbage", &key_pem] {
            assert!(matches!(
                check(text, &key_pem, &ours.pem, now),
                Err(CertificateVerifyError::Certificate(_))
            ));
            assert!(matches!(
                check(&certificate, &key_pem, text, now),
                Err(CertificateVerifyError::Authority(_))
            ));
        }
        assert_eq!(
            check(&certificate, "garbage", &ours.pem, now),
            Err(CertificateVerifyError::Key)
        );
    }

    #[test]
    fn revoked_certificate_is_refused() {
        let ours = authority();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["web1".to_owned()]).unwrap();
        params.serial_number = Some(rcgen::SerialNumber::from(7_u64));
        let certificate = params.signed_by(&key, &ours.issuer).unwrap().pem();
        let day = Duration::from_hours(24);
        let list = |serial: u64| {
            let now = rcgen::date_time_ymd(2020, 1, 1);
            let revoked = rcgen::RevokedCertParams {
                serial_number: rcgen::SerialNumber::from(serial),
                revocation_time: now,
                reason_code: None,
                invalidity_date: None,
            };
            let params = rcgen::CertificateRevocationListParams {
                this_update: now,
                next_update: now + day,
                crl_number: rcgen::SerialNumber::from(1_u64),
                issuing_distribution_point: None,
                revoked_certs: vec![revoked],
                key_identifier_method: rcgen::KeyIdMethod::Sha256,
            };
            params.signed_by(&ours.issuer).unwrap().pem().unwrap()
        };
        let check = |list: &str| {
            let key = key.serialize_pem();
            verify_certificate(&certificate, &key, &ours.pem, Some(list), SystemTime::now())
        };
        assert_eq!(check(&list(8)), Ok(()));
        assert!(matches!(check(&list(7)), Err(CertificateVerifyError::Untrusted(_))));
        assert_eq!(check("no list"), Ok(()));
    }
}
