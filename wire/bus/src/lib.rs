//! The NATS connection. No other crate uses `async_nats`.
//!
//! It connects with user credentials over verified TLS, reconnects with jitter, reports subscriptions as ready only after the broker
//! confirmed them, and detects messages lost through slow consumers and disconnections. It is independent of the message
//! contents.

#![warn(missing_docs)]

pub mod carrier;
mod connect;
mod connection;
pub mod content;
mod error;
mod event;
mod fleet_event;
mod follower;
pub mod leader;
mod names;
mod probe;
mod reconnect;
mod relocation;
mod renewal;
mod store;
pub mod stream;
mod subscription;
mod tls;
mod trust;

pub use bytes::Bytes;
pub use connect::{BrokerAddress, BrokerCredentials, BusOptions};
pub use connection::{Bus, BusTraffic};
pub use error::BusError;
pub use event::{BusEvent, ConnectionDisturbance, ConnectionMark, RefusalWatch};
pub use fleet_event::{EventPublishError, NewEvent};
pub use follower::{BrokerFollower, BrokerPlace, FollowError};
pub use names::NameStore;
pub use probe::{BrokerProbe, BrokerProbeFailure, probe_broker};
pub use reconnect::ReconnectBackoff;
pub use renewal::{TokenRenewal, TokenRenewalError, verify_stored_token};
pub use store::{
    Bucket, BucketDeclaration, BucketEntry, BucketError, BucketReplicas, BucketSettingChange,
    BucketWatch, OwnedKey, json_bytes,
};
pub use subscription::{BusMessage, BusSubscription};
pub use trust::TrustLookupError;
