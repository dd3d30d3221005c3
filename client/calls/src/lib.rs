//! Client library for calls: one request, many replies.
//!
//! ```no_run
//! # async fn example(settings: muster_calls::ClientSettings) -> Result<(), Box<dyn std::error::Error>> {
//! use muster_calls::{CallEvent, CallTarget, Client, RpcCall};
//! use muster_filter::NodeFilter;
//!
//! let client = Client::connect(settings).await?;
//! let found = client.discover_nodes(&NodeFilter::default().with_class("apache")?.with_agent("rpcutil")?).await?;
//! let mut events = client.call(RpcCall::new("rpcutil", "ping", CallTarget::Nodes(found.nodes))?);
//! while let Some(event) = events.next().await {
//!     if let CallEvent::Reply(answer) = event {
//!         // One verified reply.
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A call ends when every expected node has replied, when the broker reports that there is no subscriber, or at its deadline; never because some
//! fixed time has passed. Every event is a [`CallEvent`]; this crate prints nothing.

#![warn(missing_docs)]

mod any_instance;
mod batch;
mod call;
mod client;
mod client_inner;
mod ddl;
mod directory;
mod directory_pages;
pub mod discovery;
mod error;
mod event;
mod event_listener;
mod https;
mod https_client;
mod limit;
mod offline_signer;
mod open_replies;
mod outgoing_request;
mod progress;
mod reply_collector;
mod reply_listener;
mod request_delivery;
mod request_repetition;
mod request_sender;
mod request_window;
mod rollout;
pub mod runs;
mod secrets;
mod service_call;
mod sources;
mod stats;

pub use call::{CallTarget, ReplyDelivery, ReplySelector, RpcCall};
pub use client::{Client, ClientSettings};
pub use ddl::{DdlStore, DdlStoreError};
pub use directory::{
    DIRECTORY_AGENT, DIRECTORY_TIMEOUT, DirectoryError, DirectorySession, RegisteredNodes,
};
pub use directory_pages::DirectoryPages;
pub use discovery::{
    DiscoveryMethod, DiscoveryQuery, DiscoveryResult, DiscoverySource, DiscoveryWindow,
};
pub use error::ClientError;
pub use event::{CallEvent, CallEventStream, ReceivedReply};
pub use event_listener::{EventArrival, EventListener};
pub use https::{ClientCertificateFiles, HttpsFileError, HttpsLimits, HttpsServer};
pub use https_client::{HttpsAnswer, HttpsClient, HttpsPassword, HttpsRequestError};
pub use limit::{CountOrPercent, CountOrPercentError, choose_nodes};
pub use muster_bus::{
    BrokerAddress, BrokerFollower, BrokerPlace, Bus, BusError, ConnectionDisturbance,
    TrustLookupError,
};
pub use offline_signer::{OfflineSigner, ProposalDraft, load_signer};
pub use outgoing_request::{OutgoingRequest, RequestPublication, outgoing_requests};
pub use progress::ProgressUpdate;
pub use reply_listener::ReplyListener;
pub use rollout::{RolloutLimits, RolloutSchedule, RolloutStopReason};
pub use service_call::{SERVICE_TIMEOUT, ServiceCallError};
pub use sources::{DataDdlStore, value_kind};
pub use stats::CallStats;
