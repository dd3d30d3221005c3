//! Whom the node trusts and how it proves who it is: credentials, account token, enrolment, policies.

pub mod credentials;
pub mod enrolment;
pub mod freshness;
pub mod node_trust;
pub mod own_tokens;
pub mod policy;
pub mod trust_sync;
