//! X.509 requests and certificates as values, for code that requests certificates and code that signs them. Does no file or network access.
//!
//! - [`document`]: parses requests and certificates from untrusted PEM text.
//! - [`verify_certificate()`]: verifies that certificate, key and authority match.

pub mod document;
pub mod verify;

pub use document::{
    CertificateInfo, CertificateParseError, CertificateRequest, MAX_PEM_BYTES, same_fingerprint,
};
pub use verify::{CertificateVerifyError, public_key_fingerprint, verify_certificate};
