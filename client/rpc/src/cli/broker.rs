//! Arguments of `rpc broker ...`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::org::OrgDirectoryArgs;

/// Help text that is not Markdown.
const JETSTREAM_DIRECTORY_HELP: &str =
    "Directory for JetStream's data, instead of the organisation's directory";

/// Commands for the broker.
#[derive(Debug, Subcommand)]
pub enum BrokerCommand {
    /// Print or write a configuration for nats-server
    #[command(after_help = "Examples:
  rpc broker config --org /srv/acme
  rpc broker config --jetstream-dir /var/lib/nats --write
  rpc broker config --out /etc/nats/nats.conf
  rpc broker config --bundle ./broker      for the package muster-broker")]
    Config(BrokerConfigArgs),
    /// Change the broker's host names, in its certificate and in the addresses for nodes and clients
    #[command(after_help = "Examples:
  rpc broker rename --host broker.acme.net --host 10.0.0.1")]
    Rename(BrokerRenameArgs),
    /// Execute nats-server with the organisation's configuration
    #[command(after_help = "Examples:
  rpc broker run --org /srv/acme
  rpc broker run -- --debug          arguments after -- go to nats-server")]
    Run(BrokerRunArgs),
}

/// `rpc broker config`.
#[derive(Debug, Args)]
pub struct BrokerConfigArgs {
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// Directory of the streams.
    #[arg(long, value_name = "DIR", help = JETSTREAM_DIRECTORY_HELP)]
    pub jetstream_dir: Option<PathBuf>,
    /// Port to listen on [default: the organisation's]
    #[arg(long)]
    pub port: Option<u16>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write to the file that `rpc broker run` uses
    #[arg(long, conflicts_with = "out")]
    pub write: bool,
    /// Write the configuration of the package muster-broker, with the files that it needs, into this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "write", "jetstream_dir"])]
    pub bundle: Option<PathBuf>,
}

/// `rpc broker rename`.
#[derive(Debug, Args)]
pub struct BrokerRenameArgs {
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// Host name or IP address of the broker; repeatable; replaces the current ones
    #[arg(long = "host", value_name = "NAME_OR_IP", required = true)]
    pub hosts: Vec<String>,
}

/// `rpc broker run`.
#[derive(Debug, Args)]
pub struct BrokerRunArgs {
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// Arguments for nats-server
    #[arg(last = true, value_name = "ARGS")]
    pub arguments: Vec<OsString>,
}
