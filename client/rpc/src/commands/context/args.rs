//! Arguments of `rpc context ...`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::flags::json::JsonArgs;

/// Commands for contexts.
#[derive(Debug, Subcommand)]
pub enum ContextCommand {
    /// List the contexts; * marks the one that is used
    #[command(after_help = "Examples:
  rpc context list
  rpc context list -j

A context is a client configuration with a name: muster/contexts/NAME.toml or
muster/contexts/NAME/rpc.toml below ~/.config. `default` is muster/rpc.toml or
/etc/muster/rpc.toml. To create one with new credentials:
  rpc org add user rip --bundle ~/.config/muster/contexts/acme")]
    List(JsonArgs),
    /// Show a context: fleet, account, user, collective, brokers, expiry
    #[command(after_help = "Examples:
  rpc context show
  rpc context show acme -j")]
    Show(ContextShowArgs),
    /// Select the context of later commands
    #[command(after_help = "Examples:
  rpc context use acme
  rpc context use default              without a context

`--context NAME` or RPC_CONTEXT selects a context for one command or shell, and
takes precedence; --config and RPC_CONFIG select a file instead.")]
    Use(ContextUseArgs),
    /// Add a context for an existing configuration
    #[command(after_help = "Examples:
  rpc context add acme /srv/acme/rip/rpc.toml")]
    Add(ContextAddArgs),
    /// Remove a context; the configuration itself is kept
    #[command(after_help = "Examples:
  rpc context remove acme")]
    Remove(ContextRemoveArgs),
}

/// `rpc context show`.
#[derive(Debug, Args)]
pub struct ContextShowArgs {
    /// Name of the context [default: the one that is used]
    #[arg(value_name = "CONTEXT")]
    pub name: Option<String>,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc context use`.
#[derive(Debug, Args)]
pub struct ContextUseArgs {
    /// Name of the context; `default` for none
    #[arg(value_name = "CONTEXT")]
    pub name: String,
}

/// `rpc context add`.
#[derive(Debug, Args)]
pub struct ContextAddArgs {
    /// Name of the new context
    pub name: String,
    /// Client configuration file, or a directory with an rpc.toml
    pub configuration: PathBuf,
}

/// `rpc context remove`.
#[derive(Debug, Args)]
pub struct ContextRemoveArgs {
    /// Name of the context
    #[arg(value_name = "CONTEXT")]
    pub name: String,
}
