//! The client library: one call, many answers.
//!
//! ```no_run
//! # async fn example(settings: muster_client::Settings) -> Result<(), Box<dyn std::error::Error>> {
//! use muster_client::{Aim, Call, Client, Event};
//! use muster_wire::filter::Filter;
//!
//! let client = Client::connect(settings).await?;
//! let found = client.discover(&Filter::default().with_class("apache")?.with_agent("rpcutil")?).await?;
//! let mut events = client.call(Call::new("rpcutil", "ping", Aim::Nodes(found.nodes))?);
//! while let Some(event) = events.next().await {
//!     if let Event::Reply(answer) = event {
//!         // One verified reply.
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A call ends when every expected node has answered, when the broker says that nobody listens, or at its deadline; never
//! because some fixed time has passed. Everything that happens is an [`Event`]; nothing here prints.

#![warn(missing_docs)]

mod call;
mod client;
mod ddl;
pub mod discovery;
mod error;
mod event;
mod gather;
mod handful;
mod letter;
mod limit;
mod mail;
mod open;
mod party;
mod person;
mod rollout;
pub mod runs;
mod secrets;
mod sources;
mod stats;
mod telling;

pub use call::{Aim, Answers, Call};
pub use client::{Client, Settings};
pub use ddl::{DdlStore, DdlStoreError};
pub use discovery::{Discovered, Method, Source, Wanted, Window};
pub use error::ClientError;
pub use event::{Answer, Event, Events};
pub use letter::{Destination, Letter, letters};
pub use limit::{Amount, AmountError, choose};
pub use mail::{Awaited, Mail};
pub use muster_bus::{Disturbance, Server};
pub use person::{Draft, Person, signer};
pub use rollout::{Rollout, Stop};
pub use sources::{DataStore, kind};
pub use stats::Stats;
pub use telling::Tale;
