//! Identities that NATS already has: nkeys, JSON web tokens of version 2, and the trust between them.
//!
//! ```text
//! operator key (pinned) --signs--> account token --names--> signing key of a role --signs--> user token
//! ```
//!
//! An organisation is an operator, a fleet is an account, every party is a user. The account's scoped signing keys
//! are the roles ([`UserRole`]): which of them signed a user's token says what that user may do, to the broker and to
//! every peer. Tokens are made by [`encode`], read by [`decode`], and believed only by [`AccountTrust`].
//!
//! Not here: where tokens and seeds are stored, and the opening of connections.

pub mod cache;
pub mod claims;
pub mod creds;
pub mod decode;
pub mod encode;
mod error;
pub mod head;
pub mod lifetime;
pub mod nkey;
pub mod permission;
pub mod scope;
pub mod trust;
pub mod verified_cache;

pub use cache::TokenCache;
pub use creds::{UserCredentials, UserCredentialsError};
pub use error::TokenError;
pub use nkey::{KeyError, KeyKind, KeyPair, PublicKey};
pub use scope::UserRole;
pub use trust::{AccountTrust, VerifiedUser};

/// Seconds since the Unix epoch, UTC: how tokens count. Everything else counts in [`crate::Millis`].
pub type Seconds = u64;
