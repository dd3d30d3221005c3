//! `rpc broker ...`: what may be typed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::org::OrgDirectoryArgs;

/// The commands on the broker.
#[derive(Debug, Subcommand)]
pub enum BrokerCommand {
    /// Print a configuration for nats-server, or write it
    #[command(after_help = "Examples:
  rpc broker config --org /srv/acme
  rpc broker config --jetstream-dir /var/lib/nats --write
  rpc broker config --out /etc/nats/nats.conf")]
    Config(BrokerConfigArgs),
    /// Give the broker other names: a new certificate, and new addresses for nodes and clients
    #[command(after_help = "Examples:
  rpc broker rename --host broker.acme.net --host 10.0.0.1")]
    Rename(BrokerRenameArgs),
    /// Become nats-server, with the organisation's configuration
    #[command(after_help = "Examples:
  rpc broker run --org /srv/acme
  rpc broker run -- --debug          what follows -- is for nats-server")]
    Run(BrokerRunArgs),
}

/// `rpc broker config`.
#[derive(Debug, Args)]
pub struct BrokerConfigArgs {
    /// Which organisation.
    #[command(flatten)]
    pub place: OrgDirectoryArgs,
    /// Where streams are kept.
    #[arg(
        long,
        value_name = "DIR",
        help = "Where JetStream keeps its data, instead of the organisation's directory"
    )]
    pub jetstream_dir: Option<PathBuf>,
    /// Port to listen on, instead of the organisation's
    #[arg(long)]
    pub port: Option<u16>,
    /// File to write, instead of printing
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write it to where `rpc broker run` takes it from
    #[arg(long, conflicts_with = "out")]
    pub write: bool,
}

/// `rpc broker rename`.
#[derive(Debug, Args)]
pub struct BrokerRenameArgs {
    /// Which organisation.
    #[command(flatten)]
    pub place: OrgDirectoryArgs,
    /// Name or address under which the broker is reached; repeatable; replaces those before
    #[arg(long = "host", value_name = "NAME_OR_IP", required = true)]
    pub hosts: Vec<String>,
}

/// `rpc broker run`.
#[derive(Debug, Args)]
pub struct BrokerRunArgs {
    /// Which organisation.
    #[command(flatten)]
    pub place: OrgDirectoryArgs,
    /// Arguments for nats-server
    #[arg(last = true, value_name = "ARGS")]
    pub arguments: Vec<OsString>,
}
