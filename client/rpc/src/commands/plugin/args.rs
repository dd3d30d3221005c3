//! Arguments of `rpc plugin ...`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use muster_wire::identity::SubjectName;
use muster_wire::token::{KeyError, KeyKind, PublicKey};

use crate::commands::plugin::skeleton::AgentLanguage;
use crate::flags::filters::FilterArgs;
use crate::flags::json::JsonArgs;

/// Commands for agents.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// List the agents whose DDL is available locally
    #[command(after_help = "Examples:
  rpc plugin list
  rpc plugin list -j | jq -r '.agents[].name'")]
    List(JsonArgs),
    /// Show the actions of an agent with their inputs and outputs
    #[command(after_help = "Examples:
  rpc plugin doc puppetral
  rpc plugin doc puppetral --markdown > puppetral.md")]
    Doc(PluginDocArgs),
    /// Fetch the DDL of an unknown agent from the nodes, and cache it
    #[command(after_help = "Examples:
  rpc plugin fetch disk
  rpc plugin fetch disk -F os.family=Debian   from matching nodes only
  rpc disk usage mount=/srv                   works after the fetch

All nodes that reply must have the same DDL. A DDL in `paths.ddls` takes
precedence.")]
    Fetch(PluginFetchArgs),
    /// Generate a working agent: DDL, program and test
    #[command(after_help = "Examples:
  rpc plugin generate disk --actions usage,top
  rpc plugin generate disk --lang sh --dir /tmp/disk
  ./disk/test_disk                     runs the agent as the daemon does
  rpc plugin generate disk --lang rust

Copy `disk.json` and `disk` to `paths.ddls` of a node, and a policy to
`paths.policies`. Existing files are not overwritten. In Rust, the types of the
actions are the source: `disk ddl` prints the DDL that follows from them.")]
    Generate(PluginGenerateArgs),
    /// Check DDL files, and print each problem with its position
    #[command(after_help = "Examples:
  rpc plugin check agents/*.json
  rpc plugin check --strict mine.json -j

Exits with 1 if a DDL has errors or, with --strict, warnings.")]
    Check(PluginCheckArgs),
    /// Convert a DDL that is written in Ruby to JSON
    #[command(after_help = "Examples:
  rpc plugin convert puppet.ddl
  rpc plugin convert puppet.ddl --into ddl
  rpc plugin convert fstat.ddl --into /etc/muster/ddl    a data source

No Ruby is run: the definitions, literals and loops over literal lists of DDLs
are understood, and an error names the line of anything else. Differences are
printed with their lines. The JSON is written to the standard output, or with
--into to NAME.json, or data/NAME.json for a data source. Existing files are not
overwritten.")]
    Convert(PluginConvertArgs),
    /// Pack an external agent into one signed file
    #[command(after_help = "Examples:
  rpc plugin pack disk
  rpc plugin pack disk -o /tmp/disk.bundle --creds release.creds

The directory contains the DDL `disk.json`, the program `disk` (or a directory
`disk/` with several), and any other files. `disk.policy` is shown as a
suggestion at installation. Nodes accept bundles that were signed by users with
permission to sign: `rpc org add user NAME --sign-plugins`.")]
    Pack(PluginPackArgs),
    /// Verify a bundle, and install it into a node's agent directory
    #[command(after_help = "Examples:
  rpc plugin install disk-1.0.0.bundle --into /etc/muster/ddl
  rpc plugin install disk-1.0.0.bundle --into /etc/muster/ddl \\
    --operator OBX... --account /etc/muster/account.jwt

The operator and the account token default to those of rpc.toml. Revocations are
taken from the newest account token: the given one, the one of rpc.toml, or the
one in the daemon's state directory. Nothing is written until signer, digests
and DDL are verified; then all files are installed atomically. A running node
loads the agent within seconds.")]
    Install(PluginInstallArgs),
    /// Remove an agent that was installed from a bundle
    #[command(after_help = "Examples:
  rpc plugin remove disk --from /etc/muster/ddl
  rpc plugin remove disk --from /etc/muster/ddl --yes

Removes only the files that were installed.")]
    Remove(PluginRemoveArgs),
}

/// `rpc plugin pack`.
#[derive(Debug, Args)]
pub struct PluginPackArgs {
    /// Directory with the agent's files
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,
    /// Write the bundle to this file [default: NAME-VERSION.bundle]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Credentials of the signer [default: from the configuration]
    #[arg(long, value_name = "FILE")]
    pub creds: Option<PathBuf>,
    /// Account token [default: from the configuration]
    #[arg(long, value_name = "FILE")]
    pub account: Option<PathBuf>,
}

/// `rpc plugin install`.
#[derive(Debug, Args)]
pub struct PluginInstallArgs {
    /// Bundle file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Agent directory of the node: its `paths.ddls`
    #[arg(long, value_name = "DIRECTORY")]
    pub into: PathBuf,
    /// Public key of the operator [default: from the configuration]
    #[arg(long, value_name = "KEY", value_parser = parse_operator_key)]
    pub operator: Option<PublicKey>,
    /// Account token with the revocations; a newer one on this machine takes precedence
    #[arg(long, value_name = "FILE")]
    pub account: Option<PathBuf>,
    /// State directory of the node: its `paths.state`, where the daemon stores the newest account token
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/muster")]
    pub state: PathBuf,
    /// Trust only the signer with this public key
    #[arg(long, value_name = "KEY", value_parser = parse_user_key, conflicts_with_all = ["operator", "account"])]
    pub key: Option<PublicKey>,
    /// Install even if a newer version is installed
    #[arg(long)]
    pub downgrade: bool,
}

/// `rpc plugin remove`.
#[derive(Debug, Args)]
pub struct PluginRemoveArgs {
    /// Name of the agent
    #[arg(value_name = "AGENT")]
    pub agent: SubjectName,
    /// Agent directory of the node: its `paths.ddls`
    #[arg(long, value_name = "DIRECTORY")]
    pub from: PathBuf,
    /// Do not ask for confirmation
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
    /// Name of the agent: lower-case letters, digits and _
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// Language of the program
    #[arg(long, value_name = "LANGUAGE", default_value = "python", value_enum)]
    pub lang: AgentLanguage,
    /// Actions of the agent, separated by commas
    #[arg(long, value_name = "ACTIONS", default_value = "hello", value_delimiter = ',')]
    pub actions: Vec<String>,
    /// Directory for the files [default: a new directory with the agent's name]
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
}

/// `rpc plugin fetch`.
#[derive(Debug, Args)]
pub struct PluginFetchArgs {
    /// Name of the agent
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// The nodes.
    #[command(flatten)]
    pub filters: FilterArgs,
}

/// `rpc plugin check`.
#[derive(Debug, Args)]
pub struct PluginCheckArgs {
    /// DDL files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Treat warnings as errors
    #[arg(long)]
    pub strict: bool,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// `rpc plugin convert`.
#[derive(Debug, Args)]
pub struct PluginConvertArgs {
    /// Ruby DDL; the file's name without `.ddl` is the name of the plugin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the JSON below this directory instead of the standard output
    #[arg(long, value_name = "DIRECTORY")]
    pub into: Option<PathBuf>,
}

/// `rpc plugin doc`.
#[derive(Debug, Args)]
pub struct PluginDocArgs {
    /// Name of the agent
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// Print Markdown
    #[arg(long, conflicts_with_all = ["json", "jq"])]
    pub markdown: bool,
    /// Output of the schema itself as JSON.
    #[command(flatten)]
    pub json: JsonArgs,
}
