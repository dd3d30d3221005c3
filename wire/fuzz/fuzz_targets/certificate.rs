//! SSH certificates as sshd passes them: parsing does not panic, and what is accepted has a key id that is written as it was read. Nothing random is signed.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use libfuzzer_sys::fuzz_target;
use muster_sshcert::{CertificateKeyId, UserCertificate};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = UserCertificate::parse_line(text);
        if let Ok(key_id) = text.parse::<CertificateKeyId>() {
            assert_eq!(key_id.to_string(), text);
        }
    }
    let Ok(certificate) = UserCertificate::parse_base64(&STANDARD.encode(bytes)) else { return };
    assert!(certificate.verify(&[], certificate.expires().saturating_sub(1)).is_err());
});
