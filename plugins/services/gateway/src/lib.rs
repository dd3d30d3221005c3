//! The part of Puppet Server's HTTP API that an unmodified `puppet agent` needs to apply a released catalog. Compiles nothing and stores nothing.
//!
//! - [`GatewayService`]: accepts connections with TLS and a client certificate of Puppet, whose name is the node.
//! - `route`: which request is which, pure. `plugins`: the plugins of a release as Puppet's file metadata, pure.
//! - `releases`: the release of a node, read from the broker and verified. `answer`: one request, one response.
//!
//! The broker enforces that the service only reads catalogs and files. What a node may read is decided here: its own node, catalog and report, and the files
//! that its released catalogs and the plugins of its release name.

mod answer;
mod catalog;
mod certificate;
mod error;
mod options;
mod plugins;
mod releases;
mod route;
mod service;

pub use certificate::GatewayCertificateError;
pub use options::{GatewayOptions, GatewayOptionsError};
pub use service::GatewayService;
