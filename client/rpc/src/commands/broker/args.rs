//! Arguments of `rpc broker ...`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use muster_organisation::machines::host::RemoteHost;
use muster_organisation::{DEFAULT_MAX_CONNECTIONS, DEFAULT_MOVES_PER_SECOND, ServerAddress};
use muster_wire::identity::{Identity, SubjectName};

use crate::flags::org_directory::{OrgDirectoryArgs, OrgDocumentArgs};
use crate::flags::stores::StoreArgs;
use crate::session::remote_shell::SshLoginArgs;

/// Help text that is not Markdown.
const JETSTREAM_DIRECTORY_HELP: &str =
    "Directory for JetStream's data, instead of the organisation's directory";

/// Commands for the broker.
#[derive(Debug, Subcommand)]
pub enum BrokerCommand {
    /// Install the broker on a machine, over ssh or on this one, start it, and push the account token to it
    #[command(after_help = "Examples:
  rpc broker install broker.acme.net        root by ssh
  rpc broker install admin@broker.acme.net  with sudo there
  rpc broker install                        on this machine, as root

Installs nats-server from this machine, the configuration in /etc/muster-broker,
and the unit muster-broker. Run it again after a change of the organisation's
broker: host names, certificate. It restarts the broker, and nodes and users
reconnect within seconds. The file local.conf there is yours and stays.
For a cluster: `rpc broker config`.")]
    Install(BrokerInstallArgs),
    /// Print or write a configuration for nats-server
    #[command(after_help = "Examples:
  rpc broker config --org /srv/acme
  rpc broker config --jetstream-dir /var/lib/nats --write
  rpc broker config --out /etc/nats/nats.conf
  rpc broker config --bundle ./broker      for the package muster-broker
  rpc broker config --name broker1 --cluster acme --route broker1.acme.net \\
    --route broker2.acme.net --route broker3.acme.net --bundle ./broker1
  rpc broker config --name berlin --leaf broker1.acme.net \\
    --leaf broker2.acme.net --bundle ./berlin")]
    Config(Box<BrokerConfigArgs>),
    /// Change the broker's host names, in its certificate and in the addresses for nodes and clients
    #[command(after_help = "Examples:
  rpc broker rename --host broker.acme.net --host 10.0.0.1")]
    Rename(BrokerRenameArgs),
    /// Show the broker's servers, leaf nodes and streams, and what is wrong with them
    #[command(after_help = "Examples:
  rpc broker status
  rpc broker status -j | jq -r '.problems[]'

Exits with 2 if there is a problem.")]
    Status(OrgDocumentArgs),
    /// Spread the connections of nodes and clients evenly over the servers of a cluster
    #[command(after_help = "Examples:
  rpc broker balance
  rpc broker balance --dry-run
  rpc broker balance --rate 50         at most 50 clients move per second

Servers with more than 10 % more connections than the mean ask clients to move
to another server. Nodes and rpc of this version do so without losing a message;
other clients ignore it. Exits with 2 if the connections are not balanced at the
end.")]
    Balance(BrokerBalanceArgs),
    /// Copy the keys of the broker's stores to a file: names and tokens of machines, schedules, records of nodes
    #[command(after_help = "Examples:
  rpc broker backup /srv/backup/muster-$(date +%F).jsonl
  rpc broker restore /srv/backup/muster-2026-11-28.jsonl

The servers keep running. Only the owner can read the file, which is replaced
if it exists. It does not contain the organisation's directory, which needs a
backup of its own.")]
    Backup(BrokerBackupArgs),
    /// Write the keys of a backup into the broker's stores, if the stores never had them
    #[command(after_help = "Examples:
  rpc broker restore /srv/backup/muster-2026-11-28.jsonl && rpc org push

The broker may be another one than that of the backup, with more or fewer
servers. Creates missing stores. Keys that were written or removed since the
backup stay as they are.")]
    Restore(BrokerRestoreArgs),
    /// Execute nats-server with the organisation's configuration
    #[command(after_help = "Examples:
  rpc broker run --org /srv/acme
  rpc broker run -- --debug          arguments after -- go to nats-server")]
    Run(BrokerRunArgs),
}

/// `rpc broker install`.
#[derive(Debug, Args)]
pub struct BrokerInstallArgs {
    /// Machine: HOST or USER@HOST [default: this machine]
    pub host: Option<RemoteHost>,
    /// Login.
    #[command(flatten)]
    pub login: SshLoginArgs,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
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
    #[arg(long, value_name = "FILE", group = "written")]
    pub out: Option<PathBuf>,
    /// Write to the file that `rpc broker run` uses
    #[arg(long, group = "written")]
    pub write: bool,
    /// Write the configuration of the package muster-broker, with the files that it needs, into this directory
    #[arg(long, value_name = "DIR", group = "written", conflicts_with = "jetstream_dir")]
    pub bundle: Option<PathBuf>,
    /// Directory of account tokens and streams on the broker's machine [default: /var/lib/muster-broker]
    #[arg(long, value_name = "DIR", requires = "bundle")]
    pub state_dir: Option<PathBuf>,
    /// Address to listen on for nodes and users [default: all addresses; without TLS 127.0.0.1]
    #[arg(long, value_name = "IP")]
    pub listen: Option<IpAddr>,
    /// Port of the monitoring pages on 127.0.0.1; 0 disables them [default: 8222 with --name or --bundle]
    #[arg(long, value_name = "PORT")]
    pub monitoring_port: Option<u16>,
    /// Connections that the server accepts
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_CONNECTIONS, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: u32,
    /// Name of the server; the name of a leaf node is the one of `rpc org add leaf`
    #[arg(long)]
    pub name: Option<Identity>,
    /// Name of the cluster that the server belongs to
    #[arg(long, value_name = "CLUSTER", requires_all = ["name", "routes", "written"])]
    pub cluster: Option<SubjectName>,
    /// Server of the cluster, with the port for routes [default: 6222]; repeat for each server, the same on all
    #[arg(long = "route", value_name = "HOST[:PORT]", requires = "cluster")]
    pub routes: Vec<ServerAddress>,
    /// Address to listen on for routes [default: the address for nodes and users, with the port of the first route]
    #[arg(long, value_name = "IP[:PORT]", requires = "cluster")]
    pub cluster_listen: Option<ServerAddress>,
    /// Accept leaf nodes on this address [default port: 7422]
    #[arg(long, value_name = "IP[:PORT]")]
    pub leaf_listen: Option<ServerAddress>,
    /// Configure a leaf node, which connects to this server [default port: 7422]; repeatable
    #[arg(long = "leaf", value_name = "HOST[:PORT]", requires_all = ["name", "bundle"], conflicts_with_all = ["cluster", "leaf_listen"])]
    pub leafs: Vec<ServerAddress>,
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

/// `rpc broker backup`.
#[derive(Debug, Args)]
pub struct BrokerBackupArgs {
    /// The file
    pub file: PathBuf,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
}

/// `rpc broker restore`.
#[derive(Debug, Args)]
pub struct BrokerRestoreArgs {
    /// A file of `rpc broker backup`
    pub file: PathBuf,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// The stores.
    #[command(flatten)]
    pub stores: StoreArgs,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// `rpc broker balance`.
#[derive(Debug, Args)]
pub struct BrokerBalanceArgs {
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// Clients that move per second, at most; each costs the servers about 1 ms of processor time
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MOVES_PER_SECOND, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: u32,
    /// Count the connections only
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON document
    #[arg(long, short)]
    pub json: bool,
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
