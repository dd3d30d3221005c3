//! NATS identities: nkeys, JSON web tokens of version 2, and the chain of trust.
//!
//! ```text
//! operator key (pinned) --signs--> account token --names--> signing key of a role --signs--> user token
//! ```
//!
//! If the operator's key was replaced, the account token carries the statement of the pinned operator that names its successor ([`succession`]).
//!
//! An organisation is an operator, a fleet is an account, and every node, caller and service is a user. The account's scoped
//! signing keys are the roles ([`UserRole`]): the key that signed a user's token determines the user's permissions, at the broker
//! and at every receiver. [`encode`] issues tokens, [`decode`] parses them, and [`AccountTrust`] verifies them.
//!
//! Not in this module: storage of tokens and seeds, and opening connections.

pub mod broker_record;
pub mod cache;
pub mod claims;
pub mod creds;
pub mod decode;
pub mod encode;
mod error;
pub mod head;
pub mod leaf_scope;
pub mod lifetime;
pub mod nkey;
pub mod permission;
pub mod program;
pub mod scope;
pub mod service_right;
pub mod storage;
pub mod succession;
pub mod trust;
pub mod verified_cache;

pub use crate::Seconds;
pub use broker_record::{BrokerRecord, BrokerSite};
pub use cache::TokenCache;
pub use creds::{UserCredentials, UserCredentialsError};
pub use error::TokenError;
pub use nkey::{KeyError, KeyKind, KeyPair, PublicKey};
pub use program::{ApprovedProgram, ProgramName, ProgramNameError};
pub use scope::UserRole;
pub use service_right::{ServiceRight, UnknownServiceRight};
pub use trust::{AccountTrust, VerifiedUser};
