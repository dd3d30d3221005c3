//! Creates and parses certificates and requests, in the notation of Puppet.

use rcgen::{CertificateParams, DistinguishedName, DnType, PublicKeyData, SignatureAlgorithm};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

/// A public key from a request.
pub(super) struct RequestedKey {
    pub(super) bits: Vec<u8>,
    pub(super) algorithm: &'static SignatureAlgorithm,
}

impl PublicKeyData for RequestedKey {
    fn der_bytes(&self) -> &[u8] {
        &self.bits
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

pub(super) fn certificate_params(name: &str, others: &[&str]) -> CertificateParams {
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    let mut certificate_params = CertificateParams::new(others).unwrap();
    certificate_params.distinguished_name = DistinguishedName::new();
    certificate_params.distinguished_name.push(DnType::CommonName, name);
    certificate_params
}

/// Whether a request is signed with the key that it contains.
pub(super) fn is_self_signed(pem: &str) -> bool {
    let der = decode_pem(pem);
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

pub(super) fn parse_public_key(pem: &str) -> RequestedKey {
    let der = decode_pem(pem);
    let (_, request) = X509CertificationRequest::from_der(&der).unwrap();
    let key = &request.certification_request_info.subject_pki;
    // Depends on the type of key only: the certificate contains the key's own algorithm.
    let name = key.algorithm.algorithm.to_id_string();
    let curve = key.algorithm.parameters.as_ref().and_then(|it| it.as_oid().ok());
    let algorithm = match (name.as_str(), curve.map(|it| it.to_id_string()).as_deref()) {
        ("1.2.840.113549.1.1.1", _) => &rcgen::PKCS_RSA_SHA256,
        ("1.2.840.10045.2.1", Some("1.3.132.0.34")) => &rcgen::PKCS_ECDSA_P384_SHA384,
        ("1.2.840.10045.2.1", _) => &rcgen::PKCS_ECDSA_P256_SHA256,
        _ => &rcgen::PKCS_ED25519,
    };
    RequestedKey { bits: key.subject_public_key.data.to_vec(), algorithm }
}

pub(super) fn decode_pem(pem: &str) -> Vec<u8> {
    let first = x509_parser::pem::Pem::iter_from_buffer(pem.as_bytes()).next();
    first.and_then(Result::ok).map_or_else(Vec::new, |decode_pem| decode_pem.contents)
}

pub(super) fn colon_hex(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

/// The time format of Puppet Server: `2030-11-20T02:00:00UTC`.
pub(super) fn format_date(seconds: u64) -> String {
    let moment = jiff::Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap();
    moment.strftime("%Y-%m-%dT%H:%M:%SUTC").to_string()
}
