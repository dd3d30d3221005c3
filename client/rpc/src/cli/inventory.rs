//! `rpc inventory`: what may be typed.

use clap::Args;
use muster_wire::identity::{Identity, Name};

use super::json::Json;

/// Examples.
pub const AFTER: &str = "Examples:
  rpc inventory dev1.example.net
  rpc inventory dev1.example.net -j | jq .inventory.facts";

/// `rpc inventory`.
#[derive(Debug, Args)]
pub struct Inventory {
    /// The node
    #[arg(value_name = "NODE")]
    pub node: Identity,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: Json,
    /// Ask this collective instead of the configured one
    #[arg(short = 'T', long, value_name = "COLLECTIVE")]
    pub target: Option<Name>,
}
