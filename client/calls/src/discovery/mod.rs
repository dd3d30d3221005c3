//! Node discovery: one file per method, and the types they share. Nothing here prints or starts processes.
//!
//! ```text
//! auto        the directory if one answers, otherwise broadcast   (the default)
//! directory   what nodes have published about themselves
//! broadcast   broadcast request, matching nodes reply
//! flat        a list of names: text, JSON, YAML, earlier answers
//! stdin       the same, from the standard input                  (read by the caller)
//! inventory   a document that describes every node; all filters are evaluated here
//! puppetdb    PuppetDB over HTTP
//! external    a program that implements Choria's protocol         (started by the caller)
//! ```
//!
//! A method declares which conditions it supports ([`DiscoveryMethod::supported_conditions`]). Other conditions are rejected
//! ([`UnsupportedCondition`]), never ignored: a filter without evaluation would send a request to more nodes than intended.

mod broadcast;
mod document;
pub mod external;
pub mod flat;
pub mod inventory;
mod method;
mod options;
pub mod puppetdb;
mod query;
pub(crate) mod window;

pub use document::DiscoveryDocumentError;
pub use method::{ConditionKind, DiscoveryMethod, DiscoveryMethodError, UnsupportedCondition};
pub use options::{DiscoveryOptionError, DiscoveryOptions, DiscoverySource};
pub use query::{DiscoveryQuery, DiscoveryResult};
pub use window::DiscoveryWindow;
