//! `rpc schema`: what may be typed.

use clap::Args;

/// Examples.
pub const AFTER_HELP: &str = "Examples:
  rpc schema                       lists them
  rpc schema muster.request.v1     what `rpc do -j` prints
  rpc schema muster.ping.v1 > ping.json

A document says in `schema` which one it is of. The network is not needed.";

/// `rpc schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// The name; without one all names are listed
    #[arg(value_name = "NAME", value_parser = super::super::schemas::schema_name_parser(), hide_possible_values = true)]
    pub name: Option<String>,
}
