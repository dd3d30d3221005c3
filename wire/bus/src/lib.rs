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
pub use connect::{BrokerAddress, BrokerCredentials, BusOptions};
pub use connection::{Bus, BusMessage, BusSubscription, BusTraffic};
pub use error::BusError;
pub use event::{BusEvent, ConnectionDisturbance, ConnectionMark};
pub use names::NameStore;
pub use probe::{BrokerProbe, BrokerProbeFailure, probe_broker};
pub use reconnect::ReconnectBackoff;
pub use renewal::{TokenRenewal, TokenRenewalError};
pub use store::{Bucket, BucketEntry, BucketError, BucketWatch};
pub use trust::TrustLookupError;
