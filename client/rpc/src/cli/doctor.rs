//! Arguments of `rpc doctor`.

use clap::Args;

use super::filters::FilterArgs;
use super::json::JsonArgs;

/// Examples.
pub const AFTER_HELP: &str = "Examples:
  rpc doctor                         the client, the brokers, the whole fleet
  rpc doctor -I db1.acme.net         the same, with one node only
  rpc doctor -j                      print one JSON document

Checks the client's configuration, credentials and trust; names, connections
and TLS of the brokers; clocks, duplicate names, versions and DDLs of the nodes,
and problems that daemons report: policies, facts, disks, audit, credentials.
Changes nothing. Exits with 1 for an error of the client or a broker, with 2 for
an error of a node; warnings do not count.";

/// `rpc doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}
