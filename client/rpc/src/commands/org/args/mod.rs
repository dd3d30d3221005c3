//! Arguments of `rpc org ...`.

mod backup;
mod empty;
mod monitor;
mod program;
mod rotate;
mod ssh_ca;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use muster_organisation::PrincipalKind;
use muster_wire::identity::{Identity, SubjectName};
use muster_wire::token::leaf_scope::LeafNodePattern;
use muster_wire::token::{ServiceRight, scope};

use crate::flags::lifetime;
use crate::flags::lifetime::CredentialExpiry;
use crate::flags::org_directory::{OrgDirectoryArgs, OrgDocumentArgs};
use crate::flags::stores::StoreArgs;
pub use backup::{OrgBackupArgs, OrgRestoreArgs, PassphraseArgs};
pub use empty::OrgEmptyArgs;
pub use monitor::OrgMonitorArgs;
pub use program::{OrgProgramAddArgs, OrgProgramCommand, OrgProgramRemoveArgs};
pub use rotate::{OrgRotateArgs, RotatedKey};
pub use ssh_ca::{OrgSshCaCommand, OrgSshCaSignArgs};

/// Commands for an organisation.
#[derive(Debug, Subcommand)]
pub enum OrgCommand {
    /// Create an organisation: operator, account, roles, TLS authority, broker configuration
    #[command(after_help = "Examples:
  rpc org init --quick --host broker.acme.net
  rpc org init /srv/acme --name acme --host broker.acme.net
  rpc org init ./try --no-tls        for a broker on the loopback interface only")]
    Init(OrgInitArgs),
    /// Create credentials for a user, a node or a service
    #[command(subcommand)]
    Add(OrgAddCommand),
    /// List all issued credentials
    #[command(after_help = "Examples:
  rpc org list
  rpc org list -j | jq -r '.parties[] | select(.state == \"valid\") | .name'")]
    List(OrgDocumentArgs),
    /// Revoke credentials in the organisation, at the broker and on all nodes
    #[command(after_help = "Examples:
  rpc org revoke rip
  rpc org revoke web1.acme.net --kind node --yes
  rpc org revoke UBX...              a single key, for example after a renewal
  rpc org revoke bootstrap-5f0c21aa  a bootstrap token; its nodes stay valid")]
    Revoke(OrgRevokeArgs),
    /// Grant a user additional permissions for a limited time, with credentials that expire
    #[command(after_help = "Examples:
  rpc org grant anna service.restart --for 2h
  rpc org grant anna package puppetral.do --for 30m --out ./anna.creds
  RPC_CREDENTIALS=./anna.creds rpc service restart service=httpd")]
    Grant(OrgGrantArgs),
    /// Replace a key of the organisation, or the TLS authority, while the fleet runs; most in two steps
    #[command(after_help = "Examples:
  rpc org rotate node            connected nodes get new tokens
  rpc org rotate node --finish   tokens that the old key signed end
  rpc org rotate authority       a new TLS authority, beside the present one
  rpc org rotate operator        the operator's key names its successor
  rpc org rotate system          new credentials that push account tokens
  rpc org rotate ssh-ca          a new key for SSH user certificates

Between the two steps, create new credentials for users, services and
enrollers with `rpc org add ... --renew`, and install them. For the TLS
authority, install the new ca.pem on all nodes and clients. For the operator,
copy operator.jwt to each broker and restart them, one at a time.")]
    Rotate(OrgRotateArgs),
    /// Push the account token to the running broker, and publish it to nodes and clients
    #[command(after_help = "Examples:
  rpc org push
  rpc org push --replicas 5")]
    Push(OrgPushArgs),
    /// Remove keys from a store of the broker, after a stolen key of a service has filled it
    #[command(after_help = "Examples:
  rpc org revoke scheduler1 && rpc org empty SCHEDULES --since 2h
  rpc org empty TOKENS --all --yes && rpc org push

TRUST is not among the stores: only commands of `rpc org` write it.")]
    Empty(OrgEmptyArgs),
    /// Save the organisation's directory in one file, encrypted with a passphrase
    #[command(after_help = "Examples:
  rpc org backup /srv/backup/acme-$(date +%F).age
  rpc org backup acme.age --passphrase-file ~/.acme-passphrase

Without a terminal, the passphrase is a line of the standard input. The file has
the format of age: `age -d acme.age | tar -xz` reads it, too. The broker's
streams are not in it: `rpc broker backup`.")]
    Backup(OrgBackupArgs),
    /// Write the files of `rpc org backup` into a new directory, with the broker's account tokens if they are later
    #[command(after_help = "Examples:
  rpc org restore acme-2026-11-28.age /srv/acme
  rpc org restore acme-2026-11-28.age ./check --offline      tests the backup
  rpc org restore acme.age /srv/acme --token web1/account.jwt

Revocations that were made after the backup are in the account token, which
the broker, nodes and users have.")]
    Restore(OrgRestoreArgs),
    /// Write a directory for a monitoring system, with which it may read the state of the broker and do nothing else
    #[command(after_help = "Examples:
  rpc org monitor ./monitoring
  rpc broker status --org ./monitoring -j    on the monitoring host

The directory has no key of the organisation. --replace ends all earlier
credentials of monitoring systems.")]
    Monitor(OrgMonitorArgs),
    /// Add the bootstrap account, for machines that are not enrolled yet, to an organisation created by an earlier version
    #[command(after_help = "Examples:
  rpc org newcomers
  rpc provision token --names 'web-*.acme.net'     also adds it if it is missing")]
    Newcomers(OrgDirectoryArgs),
    /// Show the organisation, or a user, node or service and its permissions
    #[command(after_help = "Examples:
  rpc org show
  rpc org show rip -j")]
    Show(OrgShowArgs),
    /// Add, list and remove programs of the daemon, for `rpc upgrade`
    #[command(subcommand)]
    Program(OrgProgramCommand),
    /// Create the authority of SSH user certificates, show its key, or sign a certificate
    #[command(subcommand, after_help = "`rpc org rotate ssh-ca` replaces its key.")]
    SshCa(OrgSshCaCommand),
}

/// `rpc org init`.
#[derive(Debug, Args)]
pub struct OrgInitArgs {
    /// Directory to create; it may exist if it is empty [default with --quick: ~/.config/muster/organisation]
    #[arg(value_name = "DIR", required_unless_present = "quick")]
    pub directory: Option<PathBuf>,
    /// Also create you as a user in ~/.config/muster, and policies and settings for new nodes in the directory `site`
    #[arg(long, requires = "hosts", conflicts_with = "no_tls")]
    pub quick: bool,
    /// Your name as a user [default: your login name]
    #[arg(long, requires = "quick")]
    pub user: Option<Identity>,
    /// Name of the organisation [default: the directory's name]
    #[arg(long)]
    pub name: Option<String>,
    /// Collective that nodes join, the first part of all subjects; repeatable
    #[arg(long = "collective", value_name = "NAME", default_value = "muster")]
    pub collectives: Vec<SubjectName>,
    /// Host name or IP address of the broker; repeatable
    #[arg(long = "host", value_name = "NAME_OR_IP")]
    pub hosts: Vec<String>,
    /// Port of the broker
    #[arg(long, default_value_t = 4222)]
    pub port: u16,
    /// Disable TLS; only for a broker on the loopback interface
    #[arg(long, conflicts_with = "hosts")]
    pub no_tls: bool,
}

/// `rpc org add ...`.
#[derive(Debug, Subcommand)]
pub enum OrgAddCommand {
    /// Create credentials for a user, who sends requests
    #[command(after_help = "Examples:
  rpc org add user rip
  rpc org add user anna --agent puppetral --agent service.status --expires 30d
  rpc org add user rip --bundle ~/.config/muster")]
    User(AddUserArgs),
    /// Create credentials for a node, which executes requests
    #[command(after_help = "Examples:
  rpc org add node web1.acme.net
  rpc org add node web1.acme.net --bundle ./web1   ready to copy to /etc/muster")]
    Node(AddNodeArgs),
    /// Create credentials for a central service, which sends and executes requests
    #[command(after_help = "Examples:
  rpc org add service directory1 --serve directory
  rpc org add service central1 --serve directory --serve schedule

`rpc provision host` creates the credentials of a provisioner.")]
    Service(AddServiceArgs),
    /// Create credentials for a service that enrols new machines
    #[command(after_help = "Examples:
  rpc org add enroller provisioner

`rpc provision host` creates all files that such a service needs.")]
    Enroller(CredentialArgs),
    /// Create credentials for a leaf node: a nats-server at another site, to which nodes and users connect there
    #[command(after_help = "Examples:
  rpc org add leaf berlin --host broker.berlin.acme.net
  rpc org add leaf berlin --host broker.berlin.acme.net --nodes '*.berlin.acme.net'

`rpc broker config --leaf` writes the configuration of its server.")]
    Leaf(AddLeafArgs),
}

/// Options for all kinds of credentials.
#[derive(Debug, Args)]
pub struct CredentialArgs {
    /// Name of the user, node, service or leaf node
    pub name: Identity,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// How long the credentials are valid, for example 12h, 30d, 2w or never [default: 90d for a node if the organisation enrols machines, because
    /// the enroller renews them; otherwise never]
    #[arg(long, value_name = "TIME", value_parser = CredentialExpiry::parse)]
    pub expires: Option<CredentialExpiry>,
    /// Create new credentials even if some exist; the existing ones stay valid until they are revoked
    #[arg(long)]
    pub renew: bool,
    /// Write the credentials to this file instead of the organisation's directory
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `rpc org add user`.
#[derive(Debug, Args)]
pub struct AddUserArgs {
    /// Options for all kinds of credentials.
    #[command(flatten)]
    pub credentials: CredentialArgs,
    /// Agent, or agent.action, that the user may call; repeatable [default: every agent]
    #[arg(long = "agent", value_name = "AGENT")]
    pub agents: Vec<scope::CallerGrant>,
    /// Allow the user to sign agent bundles (`rpc plugin pack`), which nodes install and run
    #[arg(long)]
    pub sign_plugins: bool,
    /// Directory for the files that the user's machine needs: rpc.toml, credentials, account token, TLS authority
    #[arg(long, value_name = "DIR")]
    pub bundle: Option<PathBuf>,
}

/// `rpc org add service`.
#[derive(Debug, Args)]
pub struct AddServiceArgs {
    /// Options for all kinds of credentials.
    #[command(flatten)]
    pub credentials: CredentialArgs,
    /// What the service may serve: directory, schedule, provision, compiler, history or gateway; repeatable
    #[arg(long = "serve", value_name = "SERVICE", required = true)]
    pub rights: Vec<ServiceRight>,
    /// Environment that a compiler may compile; repeatable [default: any]
    #[arg(long = "environment", value_name = "NAME", value_parser = parse_environment)]
    pub environments: Vec<String>,
}

/// A name as Puppet accepts it.
fn parse_environment(name: &str) -> Result<String, String> {
    let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_valid) {
        return Err("it must have 1 to 64 of the characters a-z, 0-9 and _".to_owned());
    }
    Ok(name.to_owned())
}

/// `rpc org add node`.
#[derive(Debug, Args)]
pub struct AddNodeArgs {
    /// Options for all kinds of credentials.
    #[command(flatten)]
    pub credentials: CredentialArgs,
    /// Directory for the files that the node needs: rpcd.toml, credentials, account token, TLS authority
    #[arg(long, value_name = "DIR")]
    pub bundle: Option<PathBuf>,
}

/// `rpc org add leaf`.
#[derive(Debug, Args)]
pub struct AddLeafArgs {
    /// Options for all kinds of credentials.
    #[command(flatten)]
    pub credentials: CredentialArgs,
    /// Host name or IP address of the leaf node, for nodes and users at its site; repeatable
    #[arg(long = "host", value_name = "NAME_OR_IP", required = true)]
    pub hosts: Vec<String>,
    /// Names of the nodes behind the leaf node, such as '*.berlin.acme.net'; `*` stands for one part; repeatable [default: any]. The leaf node can write
    /// the records and run permits of these nodes only
    #[arg(long, value_name = "PATTERN")]
    pub nodes: Vec<LeafNodePattern>,
    /// Port of the leaf node for nodes and users [default: that of the broker]
    #[arg(long)]
    pub port: Option<u16>,
}

/// `rpc org revoke`.
#[derive(Debug, Args)]
pub struct OrgRevokeArgs {
    /// Names of users, nodes or services, of which all keys are revoked, or single public keys
    #[arg(value_name = "NAME|KEY", required_unless_present = "from")]
    pub names: Vec<String>,
    /// File with more names or keys, one per line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// Kind of the user, node or service, if the name is ambiguous
    #[arg(long, value_parser = principal_kind_parser())]
    pub kind: Option<PrincipalKind>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
}

const PRINCIPAL_KINDS: [(PrincipalKind, &str); 6] = [
    (PrincipalKind::User, "Sends requests"),
    (PrincipalKind::Node, "Executes requests"),
    (PrincipalKind::Service, "Sends and executes requests"),
    (PrincipalKind::Newcomer, "Bootstrap token, with which new machines request enrolment"),
    (PrincipalKind::Enroller, "Enrols new machines and issues their identity"),
    (PrincipalKind::Leaf, "Connects a nats-server at another site as a leaf node"),
];

fn principal_kind_parser() -> impl TypedValueParser<Value = PrincipalKind> {
    let values = PRINCIPAL_KINDS.map(|(kind, help)| PossibleValue::new(kind.name()).help(help));
    PossibleValuesParser::new(values).try_map(|name| {
        let mut kinds = PRINCIPAL_KINDS.into_iter().map(|(kind, _)| kind);
        kinds.find(|kind| kind.name() == name).ok_or("not a kind of principal")
    })
}

/// `rpc org grant`.
#[derive(Debug, Args)]
pub struct OrgGrantArgs {
    /// Name of a user with credentials
    pub name: Identity,
    /// Agents, or agent.action, that the user may call in addition
    #[arg(value_name = "AGENT[.ACTION]", required = true)]
    pub agents: Vec<scope::CallerGrant>,
    /// How long the credentials are valid, for example 30m or 2h
    #[arg(long = "for", value_name = "TIME", value_parser = lifetime::parse_lifetime)]
    pub lifetime: Duration,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// Write the credentials to this file instead of the organisation's directory
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `rpc org push`.
#[derive(Debug, Args)]
pub struct OrgPushArgs {
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// The stores.
    #[command(flatten)]
    pub stores: StoreArgs,
}

/// `rpc org show`.
#[derive(Debug, Args)]
pub struct OrgShowArgs {
    /// Name of a user, node or service [default: the organisation itself]
    pub name: Option<Identity>,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// Kind of the user, node or service, if the name is ambiguous
    #[arg(long, value_parser = principal_kind_parser())]
    pub kind: Option<PrincipalKind>,
    /// Print one JSON document
    #[arg(long, short)]
    pub json: bool,
}
