//! `rpc org ...`: what may be typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::token::scope;

use crate::organisation::PrincipalKind;
use crate::organisation::lifetime::{self, CredentialExpiry};

const ORG_DIRECTORY_HELP: &str =
    "Directory of the organisation [env: MUSTER_ORG; else the current directory, if it is one]";

/// The commands on an organisation.
#[derive(Debug, Subcommand)]
pub enum OrgCommand {
    /// Make an organisation: operator, account, roles, TLS authority, broker configuration
    #[command(after_help = "Examples:
  rpc org init /srv/acme --name acme --host broker.acme.net
  rpc org init ./try --no-tls        for a broker on this machine's loopback only")]
    Init(OrgInitArgs),
    /// Make credentials for a user, a node or a service
    #[command(subcommand)]
    Add(OrgAddCommand),
    /// List everybody who was given credentials
    #[command(after_help = "Examples:
  rpc org list
  rpc org list -j | jq -r '.parties[] | select(.state == \"valid\") | .name'")]
    List(OrgListArgs),
    /// Void somebody's credentials, here, at the broker and on all nodes
    #[command(after_help = "Examples:
  rpc org revoke rip
  rpc org revoke web1.acme.net --kind node --yes
  rpc org revoke UBX...              one key only, as after a renewal
  rpc org revoke bootstrap-5f0c21aa  a bootstrap token: nobody comes in by it any more")]
    Revoke(OrgRevokeArgs),
    /// Let a user ask more for a short time: credentials that end by themselves
    #[command(after_help = "Examples:
  rpc org grant anna service.restart --for 2h
  rpc org grant anna package puppetral.do --for 30m --out ./anna.creds
  RPC_CREDENTIALS=./anna.creds rpc service restart service=httpd")]
    Grant(OrgGrantArgs),
    /// Give the account's token to the running broker, and announce it to nodes and clients
    #[command(after_help = "Examples:
  rpc org push
  rpc org push --replicas 3")]
    Push(OrgPushArgs),
    /// Add the account for machines that are nobody yet, to an organisation from before it had one
    #[command(after_help = "Examples:
  rpc org newcomers
  rpc provision token --names 'web-*.acme.net'     makes it too, where it is missing")]
    Newcomers(OrgNewcomersArgs),
    /// Show the organisation, or a party with its permissions
    #[command(after_help = "Examples:
  rpc org show
  rpc org show rip -j")]
    Show(OrgShowArgs),
}

/// Which organisation.
#[derive(Debug, Clone, Args)]
pub struct OrgDirectoryArgs {
    /// Its directory.
    #[arg(long, value_name = "DIR", help = ORG_DIRECTORY_HELP)]
    pub org: Option<PathBuf>,
}

/// `rpc org init`.
#[derive(Debug, Args)]
pub struct OrgInitArgs {
    /// A directory that is empty or does not exist yet
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Name of the organisation; the directory's when left out
    #[arg(long)]
    pub name: Option<String>,
    /// Collective that nodes join, and the first part of all subjects; repeatable
    #[arg(long = "collective", value_name = "NAME", default_value = "muster")]
    pub collectives: Vec<SubjectName>,
    /// Name or address under which the broker is reached; repeatable
    #[arg(long = "host", value_name = "NAME_OR_IP")]
    pub hosts: Vec<String>,
    /// Port of the broker
    #[arg(long, default_value_t = 4222)]
    pub port: u16,
    /// No encryption; only for a broker on the loopback interface
    #[arg(long, conflicts_with = "hosts")]
    pub no_tls: bool,
}

/// `rpc org add ...`.
#[derive(Debug, Subcommand)]
pub enum OrgAddCommand {
    /// Somebody who asks
    #[command(after_help = "Examples:
  rpc org add user rip
  rpc org add user anna --agent puppetral --agent service.status --expires 30d
  rpc org add user rip --bundle ~/.config/muster")]
    User(AddUserArgs),
    /// A machine that answers
    #[command(after_help = "Examples:
  rpc org add node web1.acme.net
  rpc org add node web1.acme.net --bundle ./web1   ready to copy to /etc/muster")]
    Node(AddNodeArgs),
    /// A central service, which asks and answers
    #[command(after_help = "Examples:
  rpc org add service directory")]
    Service(AddServiceArgs),
    /// A service that lets new machines in
    #[command(after_help = "Examples:
  rpc org add enroller provisioner

`rpc provision host` makes all that such a service needs.")]
    Enroller(AddServiceArgs),
}

/// What all parties have in common.
#[derive(Debug, Args)]
pub struct CredentialArgs {
    /// Name of the party
    pub name: Identity,
    /// Which organisation.
    #[command(flatten)]
    pub place: OrgDirectoryArgs,
    /// How long the credentials are valid, as in 12h, 30d, 2w or never; when left out 90d for a node if machines are enrolled, since the
    /// enroller renews them, and never for all others
    #[arg(long, value_name = "TIME", value_parser = CredentialExpiry::parse)]
    pub expires: Option<CredentialExpiry>,
    /// New credentials although there are some already; those stay valid until they are revoked
    #[arg(long)]
    pub renew: bool,
    /// Where to write the credentials, instead of below the organisation's directory
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `rpc org add user`.
#[derive(Debug, Args)]
pub struct AddUserArgs {
    /// What all parties have in common.
    #[command(flatten)]
    pub party: CredentialArgs,
    /// Agent, or agent.action, that the user may ask; repeatable; every agent when left out
    #[arg(long = "agent", value_name = "AGENT")]
    pub agents: Vec<scope::CallerGrant>,
    /// Let the user sign bundles of agents (`rpc plugin pack`), which nodes then install and run
    #[arg(long)]
    pub sign_plugins: bool,
    /// Directory to fill with all that the user's machine needs: rpc.toml, credentials, account, authority
    #[arg(long, value_name = "DIR")]
    pub bundle: Option<PathBuf>,
}

/// `rpc org add node`.
#[derive(Debug, Args)]
pub struct AddNodeArgs {
    /// What all parties have in common.
    #[command(flatten)]
    pub party: CredentialArgs,
    /// Directory to fill with all that the node needs: rpcd.toml, credentials, account, authority
    #[arg(long, value_name = "DIR")]
    pub bundle: Option<PathBuf>,
}

/// `rpc org add service`.
#[derive(Debug, Args)]
pub struct AddServiceArgs {
    /// What all parties have in common.
    #[command(flatten)]
    pub party: CredentialArgs,
}

/// `rpc org list`.
#[derive(Debug, Args)]
pub struct OrgListArgs {
    /// Which organisation.
    #[command(flatten)]
    pub place: OrgDirectoryArgs,
    /// Print one JSON document
    #[arg(long, short)]
    pub json: bool,
}

/// `rpc org revoke`.
#[derive(Debug, Args)]
pub struct OrgRevokeArgs {
    /// Names of parties, whose keys are all revoked, or public keys
    #[arg(value_name = "NAME|KEY", required_unless_present = "from")]
    pub parties: Vec<String>,
    /// File with more names or keys, one a line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Which organisation.
    #[command(flatten)]
    pub place: OrgDirectoryArgs,
    /// Kind of party, where several have the name
    #[arg(long)]
    pub kind: Option<PrincipalKind>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// `rpc org grant`.
#[derive(Debug, Args)]
pub struct OrgGrantArgs {
    /// Name of a user who has credentials
    pub name: Identity,
    /// Agents, or agent.action, that the user may ask besides
    #[arg(value_name = "AGENT[.ACTION]", required = true)]
    pub agents: Vec<scope::CallerGrant>,
    /// For how long, as in 30m or 2h
    #[arg(long = "for", value_name = "TIME", value_parser = lifetime::parse_lifetime)]
    pub lifetime: Duration,
    /// Which organisation.
    #[command(flatten)]
    pub place: OrgDirectoryArgs,
    /// Where to write the credentials, instead of below the organisation's directory
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `rpc org push`.
#[derive(Debug, Args)]
pub struct OrgPushArgs {
    /// Which organisation.
    #[command(flatten)]
    pub place: OrgDirectoryArgs,
    /// How many servers of a cluster keep each new store
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub replicas: u8,
}

/// `rpc org newcomers`.
#[derive(Debug, Args)]
pub struct OrgNewcomersArgs {
    /// Which organisation.
    #[command(flatten)]
    pub place: OrgDirectoryArgs,
}

/// `rpc org show`.
#[derive(Debug, Args)]
pub struct OrgShowArgs {
    /// Name of a party; the organisation itself when left out
    pub name: Option<Identity>,
    /// Which organisation.
    #[command(flatten)]
    pub place: OrgDirectoryArgs,
    /// Kind of party, where several have the name
    #[arg(long)]
    pub kind: Option<PrincipalKind>,
    /// Print one JSON document
    #[arg(long, short)]
    pub json: bool,
}
