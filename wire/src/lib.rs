//! What the bytes mean: requests, replies, subjects, identities, tokens, signatures and filters.
//!
//! Everything here is a function of values. Nothing opens a file, a socket or a clock: instants come in as
//! [`Millis`], keys come in as bytes, and the rooms around (`bus`, `agent`, `client`) do the input and output.
//!
//! The path of one request through this crate: [`request::Request`] is sealed by [`sign::sign_envelope`], travels on a
//! [`subject`], is opened by [`sign::open_request`] against a [`token::AccountTrust`], judged by [`fresh`], matched by
//! [`filter`]; the [`reply::Reply`] goes back the same way.

#![warn(missing_docs)]

pub mod approval;
pub mod audit;
pub mod bundle;
pub mod content;
pub mod encrypted_inputs;
pub mod enrol;
pub mod filter;
pub mod fresh;
pub mod identity;
pub mod limits;
pub mod policy;
pub mod progress;
pub mod reply;
pub mod request;
pub mod sign;
pub mod state;
pub mod status;
pub mod stores;
pub mod subject;
pub mod token;
pub mod trace;
pub mod unique;

/// Milliseconds since the Unix epoch, UTC: the only form in which an instant travels.
pub type Millis = u64;
