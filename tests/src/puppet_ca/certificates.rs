//! Certificates and requests as the authority needs them: made, read, and told in Puppet's spelling.

use rcgen::{CertificateParams, DistinguishedName, DnType, PublicKeyData, SignatureAlgorithm};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

/// A public key that came in a request.
pub(super) struct Key {
    pub(super) bits: Vec<u8>,
    pub(super) algorithm: &'static SignatureAlgorithm,
}

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.bits
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

pub(super) fn params(name: &str, others: &[&str]) -> CertificateParams {
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(others).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// Whether a request is signed with the key that it asks for.
pub(super) fn is_signed_by_its_key(pem: &str) -> bool {
    let der = block(pem);
    let Ok((_, request)) = X509CertificationRequest::from_der(&der) else {
        return false;
    };
    let info = &request.certification_request_info;
    let key = &info.subject_pki.subject_public_key.data;
    let provider = rustls::crypto::ring::default_provider();
    let mut known = provider.signature_verification_algorithms.all.iter();
    known.any(|algorithm| {
        let signature = &request.signature_value.data;
        algorithm.verify_signature(key, info.raw, signature).is_ok()
    })
}

pub(super) fn key_of(pem: &str) -> Key {
    let der = block(pem);
    let (_, request) = X509CertificationRequest::from_der(&der).unwrap();
    let key = &request.certification_request_info.subject_pki;
    // By the kind of key alone: what is written into the certificate is the key's own algorithm.
    let name = key.algorithm.algorithm.to_id_string();
    let curve = key.algorithm.parameters.as_ref().and_then(|it| it.as_oid().ok());
    let algorithm = match (name.as_str(), curve.map(|it| it.to_id_string()).as_deref()) {
        ("1.2.840.113549.1.1.1", _) => &rcgen::PKCS_RSA_SHA256,
        ("1.2.840.10045.2.1", Some("1.3.132.0.34")) => &rcgen::PKCS_ECDSA_P384_SHA384,
        ("1.2.840.10045.2.1", _) => &rcgen::PKCS_ECDSA_P256_SHA256,
        _ => &rcgen::PKCS_ED25519,
    };
    Key { bits: key.subject_public_key.data.to_vec(), algorithm }
}

pub(super) fn block(pem: &str) -> Vec<u8> {
    let first = x509_parser::pem::Pem::iter_from_buffer(pem.as_bytes()).next();
    first.and_then(Result::ok).map_or_else(Vec::new, |block| block.contents)
}

pub(super) fn colons(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

/// As Puppet Server writes instants: `2030-11-20T02:00:00UTC`.
pub(super) fn date(seconds: u64) -> String {
    let moment = jiff::Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap();
    moment.strftime("%Y-%m-%dT%H:%M:%SUTC").to_string()
}
