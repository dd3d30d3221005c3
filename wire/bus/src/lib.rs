//! The one door to NATS. Nothing outside this room says `async_nats`.
//!
//! It connects with a party's own credentials over verified TLS, comes back after an outage without a stampede, says
//! "subscribed" only when the broker knows, and notices what NATS clients usually keep to themselves: messages dropped by a slow
//! consumer, and gaps while the connection was down. It knows nothing of what the messages mean.

#![warn(missing_docs)]

mod connect;
mod connection;
mod error;
mod event;
mod names;
mod probe;
mod reconnect;
mod renewal;
mod store;
mod tls;
mod trust;

pub use bytes::Bytes;
pub use connect::{Options, Secret, Server};
pub use connection::{Bus, Message, Subscription, Traffic};
pub use error::BusError;
pub use event::{Disturbance, Event, Mark};
pub use names::NameStore;
pub use probe::{Probe, ProbeFailure, probe};
pub use reconnect::Backoff;
pub use renewal::{RenewalError, TokenRenewal};
pub use store::{Bucket, Entry, StoreError, Watch};
pub use trust::TrustLookupError;
