//! SSH user certificates of a fleet: their key id, how they are signed, and how a node verifies one. No input or output.
//!
//! A certificate has one principal, the caller's name. Its key id names the caller, the caller's user key and the request that asked for it, so that a node can
//! refuse the certificate when the key is revoked. A certificate alone permits no login: the node's policy decides at each one.

#![warn(missing_docs)]

mod certificate;
mod issue;
mod key_id;
mod login;
mod user_key;

pub use certificate::{CertificateError, MAX_CERTIFICATE_BYTES, UserCertificate};
pub use issue::{
    AuthorityLineError, CLOCK_TOLERANCE_SECONDS, CertificateIssueError, CertificateSpec,
    GrantedFeatures, IssuedCertificate, authority_line, authority_lines, issue_certificate,
};
pub use key_id::{CertificateKeyId, KeyIdError};
pub use login::{LoginAnswer, LoginQuery, MAX_LOGIN_MESSAGE_BYTES, is_user_name};
pub use user_key::{MAX_PUBLIC_KEY_BYTES, SshUserKey, SubjectKey, SubjectKeyError};
