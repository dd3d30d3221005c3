//! `rpc plugin ...`: what may be typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use muster_wire::identity::SubjectName;
use muster_wire::token::{KeyError, KeyKind, PublicKey};

use super::filters::FilterArgs;
use super::json::JsonArgs;
use crate::skeleton::AgentLanguage;

/// The commands on agents' schemas.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// List the agents that are known here
    #[command(after_help = "Examples:
  rpc plugin list
  rpc plugin list -j | jq -r '.agents[].name'")]
    List(PluginListArgs),
    /// Tell what an agent's actions do, take and answer
    #[command(after_help = "Examples:
  rpc plugin doc puppetral
  rpc plugin doc puppetral --markdown > puppetral.md")]
    Doc(PluginDocArgs),
    /// Ask nodes for the DDL of an agent that is not known here, and keep it
    #[command(after_help = "Examples:
  rpc plugin fetch disk
  rpc plugin fetch disk -F os.family=Debian   from some nodes only
  rpc disk usage mount=/srv                   works from now on

All nodes that answer must have the same DDL. One in `paths.ddls` wins.")]
    Fetch(PluginFetchArgs),
    /// Write an agent that works: DDL, program and test
    #[command(after_help = "Examples:
  rpc plugin generate disk --actions usage,top
  rpc plugin generate disk --lang sh --dir /tmp/disk
  ./disk/test_disk                     runs it as the daemon does
  rpc plugin generate disk --lang rust --dir plugins/disk

Put `disk.json` and `disk` into `paths.ddls` of a node, and a policy beside its
others. Nothing that exists is overwritten. A crate of Rust belongs into
`plugins/` of Muster's source; what else it needs there is told.")]
    Generate(PluginGenerateArgs),
    /// Check DDL files: what is wrong with them, and where
    #[command(after_help = "Examples:
  rpc plugin check agents/*.json
  rpc plugin check --strict mine.json -j

Exits with 1 when a DDL is refused, and with --strict when one could be better.")]
    Check(PluginCheckArgs),
    /// Pack an external agent into one signed file
    #[command(after_help = "Examples:
  rpc plugin pack disk
  rpc plugin pack disk -o /tmp/disk.bundle --creds release.creds

The directory has the DDL `disk.json`, the program `disk` (or the directory
`disk/` with several), and whatever else is to be with them: `disk.policy` is
shown as a suggestion. Nodes take what callers with the right to sign have
signed: `rpc org add user NAME --sign-plugins`.")]
    Pack(PluginPackArgs),
    /// Verify a bundle, and put it where a node looks for agents
    #[command(after_help = "Examples:
  rpc plugin install disk-1.0.0.bundle --into /etc/muster/ddl
  rpc plugin install disk-1.0.0.bundle --into /etc/muster/ddl \\
    --operator OBX... --account /etc/muster/account.jwt

The operator and the account are those of rpc.toml unless they are given.
Of the account's tokens that are known here, the newest says who is revoked:
the given one, that of rpc.toml, and that in the daemon's state directory.
Nothing is written before signer, digests and DDL are found to be good; then
all of it is there at once. A running node takes it over within seconds.")]
    Install(PluginInstallArgs),
    /// Remove an agent that was installed from a bundle
    #[command(after_help = "Examples:
  rpc plugin remove disk --from /etc/muster/ddl
  rpc plugin remove disk --from /etc/muster/ddl --yes

Removes the files that were installed, and no others.")]
    Remove(PluginRemoveArgs),
}

/// `rpc plugin pack`.
#[derive(Debug, Args)]
pub struct PluginPackArgs {
    /// The directory with the agent's files
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,
    /// Where to write the bundle; NAME-VERSION.bundle when not given
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Who signs; the configuration's credentials when not given
    #[arg(long, value_name = "FILE")]
    pub creds: Option<PathBuf>,
    /// The account's token; the configuration's when not given
    #[arg(long, value_name = "FILE")]
    pub account: Option<PathBuf>,
}

/// `rpc plugin install`.
#[derive(Debug, Args)]
pub struct PluginInstallArgs {
    /// The bundle
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where the node looks for agents: its `paths.ddls`
    #[arg(long, value_name = "DIRECTORY")]
    pub into: PathBuf,
    /// The operator's public key; the configuration's when not given
    #[arg(long, value_name = "KEY", value_parser = parse_operator_key)]
    pub operator: Option<PublicKey>,
    /// The account's token, which says who is revoked; the newest that is known here counts
    #[arg(long, value_name = "FILE")]
    pub account: Option<PathBuf>,
    /// The node's `paths.state`, where its daemon keeps the newest account token
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/muster")]
    pub state: PathBuf,
    /// Trust this signer's public key, and nothing else
    #[arg(long, value_name = "KEY", value_parser = parse_user_key, conflicts_with_all = ["operator", "account"])]
    pub key: Option<PublicKey>,
    /// Install it although a newer version is there
    #[arg(long)]
    pub downgrade: bool,
}

/// `rpc plugin remove`.
#[derive(Debug, Args)]
pub struct PluginRemoveArgs {
    /// The agent
    #[arg(value_name = "AGENT")]
    pub agent: SubjectName,
    /// Where the node looks for agents: its `paths.ddls`
    #[arg(long, value_name = "DIRECTORY")]
    pub from: PathBuf,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

fn parse_operator_key(text: &str) -> Result<PublicKey, KeyError> {
    PublicKey::parse_kind(text, KeyKind::Operator)
}

fn parse_user_key(text: &str) -> Result<PublicKey, KeyError> {
    PublicKey::parse_kind(text, KeyKind::User)
}

/// `rpc plugin generate`.
#[derive(Debug, Args)]
pub struct PluginGenerateArgs {
    /// The agent's name: lower-case letters, digits and _
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// What the program is written in
    #[arg(long, value_name = "LANGUAGE", default_value = "python", value_enum)]
    pub lang: AgentLanguage,
    /// Its actions, separated by commas
    #[arg(
        long,
        value_name = "ACTIONS",
        default_value = "hello",
        value_delimiter = ','
    )]
    pub actions: Vec<String>,
    /// Where to put it; a new directory of the agent's name when not given
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
}

/// `rpc plugin fetch`.
#[derive(Debug, Args)]
pub struct PluginFetchArgs {
    /// The agent
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// Which nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// `rpc plugin list`.
#[derive(Debug, Args)]
pub struct PluginListArgs {
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc plugin check`.
#[derive(Debug, Args)]
pub struct PluginCheckArgs {
    /// The files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Refuse what could be better, too
    #[arg(long)]
    pub strict: bool,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc plugin doc`.
#[derive(Debug, Args)]
pub struct PluginDocArgs {
    /// The agent
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// Print Markdown
    #[arg(long, conflicts_with_all = ["json", "jq"])]
    pub markdown: bool,
    /// Whether the schema itself is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
}
