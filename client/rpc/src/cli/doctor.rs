//! `rpc doctor`: what may be typed.

use clap::Args;

use super::filters::FilterArgs;
use super::json::JsonArgs;

/// Examples.
pub const AFTER_HELP: &str = "Examples:
  rpc doctor                         this side, the brokers, the whole fleet
  rpc doctor -I db1.acme.net         the same, of one node
  rpc doctor -j                      print one JSON document

Looked at are: configuration, credentials, trust; names, connections and TLS
of the brokers; clocks, doubles, versions and DDLs of the nodes, and what each
daemon finds wrong with itself: policies, facts, disks, audit, credentials.
Nothing is changed. Exits with 1 for an error on this side, with 2 for one on
a node; warnings are no errors.";

/// `rpc doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}
