//! X.509 requests and certificates as values, for whoever asks for one and whoever signs it. Knows nothing of files or of authorities.
//!
//! - [`document`]: what is in a PEM text that came from elsewhere.
//! - [`verify_certificate()`]: whether certificate, key and authority go together.

#![warn(missing_docs)]

pub mod document;
pub mod verify;

pub use document::{
    CertificateInfo, CertificateParseError, CertificateRequest, MAX_PEM_BYTES, same_fingerprint,
};
pub use verify::{CertificateVerifyError, public_key_fingerprint, verify_certificate};
