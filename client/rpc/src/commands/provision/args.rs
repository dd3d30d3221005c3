//! Arguments of `rpc provision ...`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use muster_contract::provisioner::ProvisioningState;
use muster_wire::enrol::{NamePattern, TokenGrantFact};
use muster_wire::identity::Identity;

use crate::flags::json::JsonArgs;
use crate::flags::lifetime;
use crate::flags::org_directory::OrgDirectoryArgs;

/// Commands for provisioning.
#[derive(Debug, Subcommand)]
pub enum ProvisionCommand {
    /// Create a bootstrap token, with which new machines request enrolment
    #[command(after_help = TOKEN_HELP)]
    Token(BootstrapTokenArgs),
    /// Show the provisioning status of nodes
    #[command(after_help = STATUS_HELP)]
    Status(ProvisionStatusArgs),
    /// Show the progress of provisioning until all nodes have finished
    #[command(after_help = WATCH_HELP)]
    Watch(ProvisionWatchArgs),
    /// Retry failed nodes
    #[command(after_help = "Examples:\n  rpc provision retry web1.example.com")]
    Retry(ProvisionNodesArgs),
    /// Pause nodes: start no further step
    #[command(after_help = "Examples:\n  rpc provision pause web1.example.com")]
    Pause(ProvisionNodesArgs),
    /// Resume paused nodes
    #[command(after_help = "Examples:\n  rpc provision resume web1.example.com")]
    Resume(ProvisionNodesArgs),
    /// Remove nodes from the fleet, and revoke their tokens, and their certificates on all masters
    #[command(after_help = RETIRE_HELP)]
    Retire(ProvisionRetireArgs),
    /// Release the name of a revoked node, so that another machine can enrol under it
    #[command(after_help = RELEASE_HELP)]
    Release(ProvisionReleaseArgs),
    /// Create all files that the provisioner's host needs to enrol machines
    #[command(after_help = HOST_HELP)]
    Host(ProvisionHostArgs),
    /// Print cloud-init user data, with which new machines enrol automatically
    #[command(after_help = USER_DATA_HELP)]
    UserData(UserDataArgs),
}

const STATUS_HELP: &str = "\
Queries one host of the service; all hosts have the same data.

Examples:
  rpc provision status
  rpc provision status web1.example.com     includes the node's history
  rpc provision status --state failed -j

Exit codes: 0 no node failed, 1 no host runs the service, 2 a node failed.";

const WATCH_HELP: &str = "\
On a terminal, updates the table in place; otherwise, prints one line per
change. Ends when every node is done, failed, retired or paused.

Examples:
  rpc provision watch
  rpc provision watch --state working

Exit codes: 0 no node failed, 1 no host runs the service, 2 a node failed.";

const RETIRE_HELP: &str = "\
Asks for confirmation. The nodes' tokens are revoked first, as by `rpc org
revoke`: that needs the organisation's keys, which the provisioning service does
not have. Without them, nothing is done, unless --keep-tokens is given; then the
tokens stay valid until they expire or are revoked.

Examples:
  rpc provision retire web1.example.com
  rpc provision retire web1.example.com web2.example.com --yes";

const TOKEN_HELP: &str = "\
A `*` in a name matches any characters within one label, never a dot; a label
`**` matches one or more labels.

The token permits only to request enrolment under a matching name. All machines
that are started with it share it. `rpc org revoke NAME` revokes it; nodes that
are already enrolled are not affected.

Examples:
  rpc provision token --names 'web-*.example.com'
  rpc provision token --names 'ci-*.acme.net' --uses 20 --expires 2h
  rpc provision token --names '**.lab.acme.net' --facts role=lab --name lab";

const HOST_HELP: &str = "\
The directory contains credentials for the fleet's account and the bootstrap
account, the key that signs node tokens, and a configuration fragment that
refers to them. With these files an attacker can create nodes and call any
agent: protect them like the organisation's directory.

Examples:
  rpc provision host provisioner --out ./provisioner";

const USER_DATA_HELP: &str = "\
Without --apt or --package-url, the image must contain the daemon. The URL of a
package ends in .deb or .rpm; any other URL is that of the program itself.

The document contains the bootstrap token: store it only in the cloud's user
data or in the image.

Examples:
  rpc provision user-data --token web.creds --apt muster-node > user-data
  rpc provision user-data --token web.creds --shell --apt muster-node \\
    | ssh root@web1.acme.net sh
  rpc provision user-data --token web.creds --set log.level=debug \\
    --package-url https://pkg.acme.net/muster-node_0.1.0_amd64.deb --sha256 9f86d0...";

const RELEASE_HELP: &str = "\
A name stays bound to its key until it is released, even after the key is
revoked. Run this on the machine with the organisation's keys, after revoking
the node. The revoked key itself is never enrolled again.

Examples:
  rpc org revoke web1.example.com
  rpc provision release web1.example.com";

/// `rpc provision release`.
#[derive(Debug, Args)]
pub struct ProvisionReleaseArgs {
    /// Names of revoked nodes
    #[arg(value_name = "NODE", required = true)]
    pub nodes: Vec<Identity>,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
}

/// `rpc provision host`.
#[derive(Debug, Args)]
pub struct ProvisionHostArgs {
    /// Name of the service, as in the policies of the nodes
    pub name: Identity,
    /// Directory to fill
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// How long the credentials are valid, for example 30d [default: never expire]
    #[arg(long, value_name = "TIME", value_parser = lifetime::parse_lifetime)]
    pub expires: Option<Duration>,
    /// Create new credentials even if some exist
    #[arg(long)]
    pub renew: bool,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
}

/// `rpc provision user-data`.
#[derive(Debug, Args)]
pub struct UserDataArgs {
    /// Bootstrap token, created by `rpc provision token`
    #[arg(long, value_name = "FILE")]
    pub token: PathBuf,
    /// Package to install from the image's package sources
    #[arg(long, value_name = "PACKAGE", value_parser = parse_package_name, conflicts_with = "package_url")]
    pub apt: Option<String>,
    /// URL of a package or of the program
    #[arg(long, value_name = "URL", requires = "sha256")]
    pub package_url: Option<String>,
    /// SHA-256 checksum of that file, as printed by `sha256sum`
    #[arg(long, value_name = "HEX", requires = "package_url")]
    pub sha256: Option<String>,
    /// Setting for the machine's rpcd.toml; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<ConfigSetting>,
    /// Print a shell script instead, for a machine that runs already
    #[arg(long)]
    pub shell: bool,
    /// Name of the provisioning service; the machine gets a policy that allows it
    #[arg(long, value_name = "NAME", default_value = "provisioner")]
    pub provisioner: Identity,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ConfigSetting {
    /// The dotted key.
    pub key: String,
    /// The TOML value; a string if it is not valid TOML.
    pub value: toml::Value,
}

impl FromStr for ConfigSetting {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is not a setting; use KEY=VALUE"))?;
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let is_name = |part: &str| !part.is_empty() && part.chars().all(is_allowed);
        if !key.split('.').all(is_name) {
            return Err(format!(
                "`{key}` is not a key of rpcd.toml; use a dotted key, such as log.level"
            ));
        }
        let parsed = toml::from_str::<toml::Table>(&format!("value = {value}"));
        let parsed = parsed.ok().filter(|table| table.len() == 1);
        let parsed = parsed.and_then(|mut table| table.remove("value"));
        Ok(Self { key: key.to_owned(), value: parsed.unwrap_or_else(|| toml::Value::from(value)) })
    }
}

/// Parses a package name, as defined by Debian's policy.
fn parse_package_name(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "+-.:~=".contains(c);
    let starts_alphanumeric = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if starts_alphanumeric && text.chars().all(is_allowed) {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` is not a package name"))
}

/// `rpc provision token`.
#[derive(Debug, Args)]
pub struct BootstrapTokenArgs {
    /// Pattern of the names that machines may request, with `*` and `**`; repeatable
    #[arg(long = "names", value_name = "PATTERN", required = true)]
    pub names: Vec<NamePattern>,
    /// How long the token is valid, for example 12h, 30d, 1y
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = lifetime::parse_lifetime)]
    pub expires: Duration,
    /// Maximum number of machines that may enrol [default: unlimited]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub uses: Option<u32>,
    /// Fact of nodes that enrol with the token; repeatable
    #[arg(long = "facts", value_name = "NAME=VALUE")]
    pub facts: Vec<TokenGrantFact>,
    /// Name of the token, for lists and revocations [default: generated]
    #[arg(long)]
    pub name: Option<Identity>,
    /// The organisation.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// Write the credentials to this file instead of the organisation's directory
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `rpc provision status`.
#[derive(Debug, Args)]
pub struct ProvisionStatusArgs {
    /// Show only this node, with its history
    pub node: Option<Identity>,
    /// Show only nodes in this state
    #[arg(long, value_enum)]
    pub state: Option<ProvisionStateFilter>,
    /// JSON output.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// Provisioning state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ProvisionStateFilter {
    /// Being provisioned
    Working,
    /// A step failed permanently
    Failed,
    /// Provisioned
    Done,
    /// Its certificate is being revoked
    Retiring,
    /// Removed from the fleet
    Retired,
}

impl From<ProvisionStateFilter> for ProvisioningState {
    fn from(filter: ProvisionStateFilter) -> Self {
        match filter {
            ProvisionStateFilter::Working => Self::Working,
            ProvisionStateFilter::Failed => Self::Failed,
            ProvisionStateFilter::Done => Self::Done,
            ProvisionStateFilter::Retiring => Self::Retiring,
            ProvisionStateFilter::Retired => Self::Retired,
        }
    }
}

/// `rpc provision watch`.
#[derive(Debug, Args)]
pub struct ProvisionWatchArgs {
    /// Show only nodes in this state
    #[arg(long, value_enum)]
    pub state: Option<ProvisionStateFilter>,
    /// Update interval in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub every: u64,
}

/// `rpc provision retry`, `pause` and `resume`.
#[derive(Debug, Args)]
pub struct ProvisionNodesArgs {
    /// Names of the nodes
    #[arg(required = true)]
    pub nodes: Vec<Identity>,
}

/// `rpc provision retire`.
#[derive(Debug, Args)]
pub struct ProvisionRetireArgs {
    /// Names of the nodes
    #[arg(required = true)]
    pub nodes: Vec<Identity>,
    /// Do not revoke the nodes' tokens
    #[arg(long)]
    pub keep_tokens: bool,
    /// The organisation, whose keys revoke the tokens.
    #[command(flatten)]
    pub organisation: OrgDirectoryArgs,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
}

#[cfg(test)]
mod tests {
    use toml::Value;

    use super::{ConfigSetting, parse_package_name};

    #[test]
    fn setting_values_are_toml_or_else_strings() {
        for (text, key, value) in [
            ("log.level=debug", "log.level", Value::from("debug")),
            ("log.level=\"debug\"", "log.level", Value::from("debug")),
            ("limits.queue=5", "limits.queue", Value::from(5)),
            ("policy.tell_rules=false", "policy.tell_rules", Value::from(false)),
            ("identity=web-1.acme.net", "identity", Value::from("web-1.acme.net")),
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
