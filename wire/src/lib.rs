//! The wire protocol: requests, replies, subjects, identities, tokens and signatures.
//!
//! Everything here is a pure function of its arguments. Nothing opens a file or a socket or reads a clock: instants are passed in as
//! [`Millis`], keys are passed in as bytes, and the crates `bus`, `agent` and `client` do the input and output.
//!
//! The path of one request through this crate: [`sign::sign_envelope`] signs a [`request::Request`], the caller publishes it on a
//! [`subject`], [`sign::open_request`] verifies it against a [`token::AccountTrust`], [`fresh`] rejects expired and repeated
//! requests, and [`muster_filter`] matches it against the node. The [`reply::Reply`] returns the same way.

#![warn(missing_docs)]

pub mod audit;
pub mod enrolment;
#[macro_use]
mod text_form;

pub mod approval;
pub mod catalog;
pub mod compressed;
pub mod content;
pub mod encrypted_inputs;
pub mod enrol;
pub mod event;
pub mod fresh;
pub mod history;
pub mod identity;
pub mod limits;
pub mod node_history;
pub mod node_record;
pub mod progress;
pub mod record_bounds;
pub mod reply;
pub mod request;
pub mod schedule_grant;
pub mod sign;
pub mod status;
pub mod stored_request;
pub mod stores;
pub mod subject;
pub mod token;
pub mod trace;
pub mod unique;

/// Milliseconds since the Unix epoch, UTC: the only form in which an instant is transmitted.
pub type Millis = u64;
/// Seconds since the Unix epoch, UTC: the time unit of tokens.
pub type Seconds = u64;
