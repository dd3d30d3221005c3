//! `rpc provision ...`: what may be typed.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use muster_wire::enrol::{NamePattern, TokenGrantFact};
use muster_wire::identity::Identity;

use super::json::JsonArgs;
use super::org::OrgDirectoryArgs;
use crate::organisation::lifetime;

/// The commands that bring new machines in.
#[derive(Debug, Subcommand)]
pub enum ProvisionCommand {
    /// Make a bootstrap token: with it a new machine may ask to become a node
    #[command(after_help = TOKEN_HELP)]
    Token(BootstrapTokenArgs),
    /// Show where new nodes stand
    #[command(after_help = STATUS_HELP)]
    Status(ProvisionStatusArgs),
    /// Show how new nodes get on, until all have arrived
    #[command(after_help = WATCH_HELP)]
    Watch(ProvisionWatchArgs),
    /// Try failed nodes again
    #[command(after_help = "Examples:\n  rpc provision retry web1.example.com")]
    Retry(ProvisionNodesArgs),
    /// Begin no further step of nodes
    #[command(after_help = "Examples:\n  rpc provision pause web1.example.com")]
    Pause(ProvisionNodesArgs),
    /// Go on with nodes that were paused
    #[command(after_help = "Examples:\n  rpc provision resume web1.example.com")]
    Resume(ProvisionNodesArgs),
    /// Take nodes out of the fleet: their certificates are revoked on all masters
    #[command(after_help = RETIRE_HELP)]
    Retire(ProvisionRetireArgs),
    /// Free the name of a revoked node, so that another machine may be enrolled under it
    #[command(after_help = RELEASE_HELP)]
    Release(ProvisionReleaseArgs),
    /// Make all that the host of the provisioner needs, which lets machines in
    #[command(after_help = HOST_HELP)]
    Host(ProvisionHostArgs),
    /// Print what a cloud starts new machines with, so that they become nodes by themselves
    #[command(after_help = USER_DATA_HELP)]
    UserData(UserDataArgs),
}

const STATUS_HELP: &str = "\
Any host of the service is asked; all know the same.

Examples:
  rpc provision status
  rpc provision status web1.example.com     with everything that happened to it
  rpc provision status --state failed -j

Exit codes: 0 no node has failed, 2 some have, 1 no host runs the service.";

const WATCH_HELP: &str = "\
On a terminal the table is drawn again as it changes; elsewhere each change is
a line. Ends when every node is done, failed, retired or paused.

Examples:
  rpc provision watch
  rpc provision watch --state working

Exit codes: 0 no node has failed, 2 some have, 1 no host runs the service.";

const RETIRE_HELP: &str = "\
Asks before it does it. The node's own token stays valid until it ends or
`rpc org revoke NODE` is run where the organisation's keys are.

Examples:
  rpc provision retire web1.example.com
  rpc provision retire web1.example.com web2.example.com --yes";

const TOKEN_HELP: &str = "\
A `*` in a name stands for any characters of one part, never for a dot; a part
that is `**` for one or more parts.

Whoever has the token can do one thing: ask to be enrolled under such a name.
All machines that are started with it share it. `rpc org revoke NAME` ends it
early; nodes that came in by it stay.

Examples:
  rpc provision token --names 'web-*.example.com'
  rpc provision token --names 'ci-*.acme.net' --uses 20 --expires 2h
  rpc provision token --names '**.lab.acme.net' --facts role=lab --name lab";

const HOST_HELP: &str = "\
The directory has credentials for the fleet's account and the newcomers', the
key that signs nodes, and a part of the configuration that names them. Whoever
has it can make nodes, and ask any agent: keep it as the organisation's own.

Examples:
  rpc provision host provisioner --out ./provisioner";

const USER_DATA_HELP: &str = "\
Without --apt or --package-url the daemon is expected to be in the image. A
package ends in .deb or .rpm; anything else is taken for the program itself.

The document holds the bootstrap token: it belongs into the cloud's user data or
the image, and nowhere else.

Examples:
  rpc provision user-data --token web.creds --apt rpcd > user-data
  rpc provision user-data --token web.creds --set log.level=debug \\
    --package-url https://pkg.acme.net/rpcd_0.1.0_amd64.deb --sha256 9f86d0...";

const RELEASE_HELP: &str = "\
A name stays with its key until it is released, also after the key is revoked.
Run it where the organisation's keys are; the node must be revoked before. The
revoked key itself is never enrolled again.

Examples:
  rpc org revoke web1.example.com
  rpc provision release web1.example.com";

/// `rpc provision release`.
#[derive(Debug, Args)]
pub struct ProvisionReleaseArgs {
    /// Names of revoked nodes
    #[arg(value_name = "NODE", required = true)]
    pub nodes: Vec<Identity>,
    /// Which organisation.
    #[command(flatten)]
    pub place: OrgDirectoryArgs,
}

/// `rpc provision host`.
#[derive(Debug, Args)]
pub struct ProvisionHostArgs {
    /// Name of the service, as its policy on the nodes says it
    pub name: Identity,
    /// Directory to fill
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// How long the credentials are valid, as in 30d; for ever when left out
    #[arg(long, value_name = "TIME", value_parser = lifetime::parse_lifetime)]
    pub expires: Option<Duration>,
    /// New credentials although there are some already
    #[arg(long)]
    pub renew: bool,
    /// Which organisation.
    #[command(flatten)]
    pub place: OrgDirectoryArgs,
}

/// `rpc provision user-data`.
#[derive(Debug, Args)]
pub struct UserDataArgs {
    /// The bootstrap token, as `rpc provision token` made it
    #[arg(long, value_name = "FILE")]
    pub token: PathBuf,
    /// Package that the image's own sources have
    #[arg(long, value_name = "PACKAGE", value_parser = parse_package_name, conflicts_with = "package_url")]
    pub apt: Option<String>,
    /// Address of a package or of the program
    #[arg(long, value_name = "URL", requires = "sha256")]
    pub package_url: Option<String>,
    /// What `sha256sum` says of it
    #[arg(long, value_name = "HEX", requires = "package_url")]
    pub sha256: Option<String>,
    /// Setting for the machine's rpcd.toml; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<ConfigSetting>,
    /// Name of the service that provisions the machine, which it lets in by a policy
    #[arg(long, value_name = "NAME", default_value = "provisioner")]
    pub provisioner: Identity,
    /// Which organisation.
    #[command(flatten)]
    pub place: OrgDirectoryArgs,
}

/// A key of a configuration, and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigSetting {
    /// The key, with dots.
    pub key: String,
    /// As TOML reads it; what TOML does not read is a text.
    pub value: toml::Value,
}

impl FromStr for ConfigSetting {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is no setting; write KEY=VALUE"))?;
        let belongs = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let is_name = |part: &str| !part.is_empty() && part.chars().all(belongs);
        if !key.split('.').all(is_name) {
            return Err(format!("`{key}` is no key of rpcd.toml, such as log.level"));
        }
        let read = toml::from_str::<toml::Table>(&format!("value = {value}"));
        let read = read.ok().filter(|table| table.len() == 1);
        let read = read.and_then(|mut table| table.remove("value"));
        Ok(Self {
            key: key.to_owned(),
            value: read.unwrap_or_else(|| toml::Value::from(value)),
        })
    }
}

/// A package's name, as Debian's policy has it.
fn parse_package_name(text: &str) -> Result<String, String> {
    let belongs = |c: char| c.is_ascii_alphanumeric() || "+-.:~=".contains(c);
    let first = text
        .chars()
        .next()
        .is_some_and(|c| c.is_ascii_alphanumeric());
    if first && text.chars().all(belongs) {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` is no name of a package"))
}

/// `rpc provision token`.
#[derive(Debug, Args)]
pub struct BootstrapTokenArgs {
    /// Name that machines may ask for, with `*` and `**`; repeatable
    #[arg(long = "names", value_name = "PATTERN", required = true)]
    pub names: Vec<NamePattern>,
    /// How long machines may come in by it, as in 12h, 30d, 1y
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = lifetime::parse_lifetime)]
    pub expires: Duration,
    /// How many machines may come in by it; any number when left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub uses: Option<u32>,
    /// Fact that nodes have which came in by it; repeatable
    #[arg(long = "facts", value_name = "NAME=VALUE")]
    pub facts: Vec<TokenGrantFact>,
    /// What to call it, for lists and revocations; made up when left out
    #[arg(long)]
    pub name: Option<Identity>,
    /// Which organisation.
    #[command(flatten)]
    pub place: OrgDirectoryArgs,
    /// Where to write the credentials, instead of below the organisation's directory
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `rpc provision status`.
#[derive(Debug, Args)]
pub struct ProvisionStatusArgs {
    /// Only this node, with what happened to it
    pub node: Option<Identity>,
    /// Only nodes that stand there
    #[arg(long, value_enum)]
    pub state: Option<ProvisionStateFilter>,
    /// Whether a document is wanted.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// Where a node stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ProvisionStateFilter {
    /// On its way
    Working,
    /// A step failed for good
    Failed,
    /// A node like any other
    Done,
    /// Its certificate is being taken back
    Retiring,
    /// No node any more
    Retired,
}

impl ProvisionStateFilter {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Failed => "failed",
            Self::Done => "done",
            Self::Retiring => "retiring",
            Self::Retired => "retired",
        }
    }
}

/// `rpc provision watch`.
#[derive(Debug, Args)]
pub struct ProvisionWatchArgs {
    /// Only nodes that stand there
    #[arg(long, value_enum)]
    pub state: Option<ProvisionStateFilter>,
    /// How often to look, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub every: u64,
}

/// `rpc provision retry`, `pause` and `resume`.
#[derive(Debug, Args)]
pub struct ProvisionNodesArgs {
    /// The nodes
    #[arg(required = true)]
    pub nodes: Vec<Identity>,
}

/// `rpc provision retire`.
#[derive(Debug, Args)]
pub struct ProvisionRetireArgs {
    /// The nodes
    #[arg(required = true)]
    pub nodes: Vec<Identity>,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}
#[cfg(test)]
mod tests {
    use toml::Value;

    use super::{ConfigSetting, parse_package_name};

    #[test]
    fn settings_are_toml_where_they_can_be_and_texts_otherwise() {
        for (text, key, value) in [
            ("log.level=debug", "log.level", Value::from("debug")),
            ("log.level=\"debug\"", "log.level", Value::from("debug")),
            ("limits.queue=5", "limits.queue", Value::from(5)),
            (
                "policy.tell_rules=false",
                "policy.tell_rules",
                Value::from(false),
            ),
            (
                "identity=web-1.acme.net",
                "identity",
                Value::from("web-1.acme.net"),
            ),
            ("a=1\nb=2", "a", Value::from("1\nb=2")),
            ("a=", "a", Value::from("")),
        ] {
            let read: ConfigSetting = text.parse().unwrap();
            assert_eq!((read.key.as_str(), &read.value), (key, &value), "{text}");
        }
        for bad in ["", "a", "=1", "a..b=1", "a b=1", "a\n[x]=1"] {
            assert!(bad.parse::<ConfigSetting>().is_err(), "{bad}");
        }
        assert!(parse_package_name("rpcd").is_ok() && parse_package_name("rpcd=0.1.0-1").is_ok());
        for bad in ["", "-y", "a b", "a\nb", "a;b", "a'b"] {
            assert!(parse_package_name(bad).is_err(), "{bad}");
        }
    }
}
