//! The typed configuration: what each section means, and in which units.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use muster_wire::identity::{Identity, SubjectName};
use muster_wire::policy::RuleVerdict;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// All sections, as merged.
#[derive(Debug, Clone, Deserialize)]
pub struct ConfigValues {
    /// The node's name.
    pub identity: Identity,
    /// The collectives that the node joins; the first is its main one.
    pub collectives: Vec<SubjectName>,
    /// How the broker is reached.
    pub broker: BrokerConfig,
    /// Whom the node trusts.
    pub trust: TrustConfig,
    /// Where things are.
    pub paths: PathsConfig,
    /// How facts are collected.
    pub facts: FactsConfig,
    /// How much may run at once.
    pub limits: LimitsConfig,
    /// Which requests are fresh.
    pub requests: RequestsConfig,
    /// What happens where no policy file speaks.
    pub policy: PolicyConfig,
    /// How strict the audit log is.
    pub audit: AuditConfig,
    /// What the daemon says of itself.
    pub log: LogConfig,
    /// Where the daemon tells how it is.
    pub metrics: MetricsConfig,
    /// How the daemon stops.
    pub drain: DrainConfig,
    /// How a machine without credentials gets some.
    pub provisioning: ProvisioningConfig,
    /// One table per plugin, passed on as it is.
    #[serde(default)]
    pub plugins: BTreeMap<String, Map<String, Value>>,
}

/// Section `broker`.
#[derive(Debug, Clone, Deserialize)]
pub struct BrokerConfig {
    /// The servers, tried in turn.
    pub urls: Vec<String>,
    /// The authority that signed the servers' certificates; the system's own when absent.
    pub ca: Option<PathBuf>,
    /// The node's `.creds` file: token and seed.
    pub credentials: PathBuf,
    /// Whether a server on a loopback address may be spoken to in clear.
    pub plaintext_on_loopback: bool,
}

/// Section `trust`.
#[derive(Debug, Clone, Deserialize)]
pub struct TrustConfig {
    /// The operator's public key (`O...`).
    pub operator: String,
    /// The fleet's account token, signed by the operator.
    pub account: PathBuf,
    /// Requests are refused once it is unknown for so long whether the account token is the newest; zero is never.
    #[serde(rename = "max_age_seconds", deserialize_with = "deserialize_seconds")]
    pub max_age: Duration,
}

/// Section `paths`.
#[derive(Debug, Clone, Deserialize)]
pub struct PathsConfig {
    /// What outlives a restart: seen requests, the engine's ledger.
    pub state: PathBuf,
    /// External facts.
    pub facts_d: PathBuf,
    /// The classes that configuration management gave the node, one a line.
    pub classes: PathBuf,
    /// Action policies.
    pub policies: PathBuf,
    /// DDLs besides the built-in ones.
    pub ddls: PathBuf,
    /// The audit log, a file.
    pub audit: PathBuf,
    /// Where the machine's `/` is that resources are applied to; `/` but for images and trials.
    pub root: PathBuf,
}

/// Section `facts`.
#[derive(Debug, Clone, Deserialize)]
pub struct FactsConfig {
    /// How often facts are collected anew.
    #[serde(rename = "refresh_seconds", deserialize_with = "deserialize_seconds")]
    pub refresh: Duration,
    /// The `facter` command to ask, if any.
    pub facter: Option<PathBuf>,
    /// Which cloud's metadata service is asked: `off`, `auto`, or one's name.
    pub cloud: String,
    /// Where that is, if not where clouds have it.
    pub cloud_url: Option<String>,
    /// Whether a service of Amazon's is asked that gives no session token.
    pub cloud_imds_v1: bool,
}

/// Section `limits`.
#[derive(Debug, Clone, Deserialize)]
pub struct LimitsConfig {
    /// Actions of one agent that run at once.
    pub concurrency: usize,
    /// Requests to one agent that wait.
    pub queue: usize,
    /// Bytes of one reply's data.
    pub output_bytes: usize,
    #[serde(default)]
    agents: BTreeMap<String, LimitOverrides>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct LimitOverrides {
    concurrency: Option<usize>,
    queue: Option<usize>,
    output_bytes: Option<usize>,
}

/// The limits of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentLimits {
    /// Actions that run at once.
    pub concurrency: usize,
    /// Requests that wait.
    pub queue: usize,
    /// Bytes of one reply's data.
    pub output_bytes: usize,
}

impl LimitsConfig {
    /// The limits of this agent: its own where there are any, else those of all.
    pub fn agent_limits(&self, agent: &SubjectName) -> AgentLimits {
        let own = self.agents.get(agent.as_str()).cloned().unwrap_or_default();
        AgentLimits {
            concurrency: own.concurrency.unwrap_or(self.concurrency),
            queue: own.queue.unwrap_or(self.queue),
            output_bytes: own.output_bytes.unwrap_or(self.output_bytes),
        }
    }
}

/// Section `requests`.
#[derive(Debug, Clone, Deserialize)]
pub struct RequestsConfig {
    /// How far a caller's clock may be ahead of the node's.
    #[serde(rename = "skew_seconds", deserialize_with = "deserialize_seconds")]
    pub skew: Duration,
    /// Whether sensitive inputs are taken that came readable for the broker, from clients too old to seal them.
    pub plain_secrets: bool,
}

/// Section `policy`.
#[derive(Debug, Clone, Deserialize)]
pub struct PolicyConfig {
    /// The verdict for an agent without a policy file.
    pub default: RuleVerdict,
    /// Whether callers are told which rule denied them.
    pub tell_rules: bool,
    /// Whether actions that their schema calls dangerous take the approval of a second person.
    pub approve_dangerous: bool,
}

/// Section `audit`.
#[derive(Debug, Clone, Deserialize)]
pub struct AuditConfig {
    /// Whether a request that cannot be recorded is refused.
    pub fail_closed: bool,
    /// The size at which a file is put aside; 0 for never.
    pub max_bytes: u64,
    /// How many files that were put aside are kept.
    pub keep: u32,
    /// The permission bits of a new file.
    #[serde(deserialize_with = "deserialize_octal")]
    pub mode: u32,
    /// The group of a new file; the daemon's own when absent.
    pub group: Option<String>,
    /// Lines after which a checkpoint is signed.
    pub checkpoint_lines: u64,
    /// Time after which lines are signed, however few.
    #[serde(
        rename = "checkpoint_seconds",
        deserialize_with = "deserialize_seconds"
    )]
    pub checkpoint_every: Duration,
}

/// Section `log`.
#[derive(Debug, Clone, Deserialize)]
pub struct LogConfig {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: String,
    /// Lines for people, or JSON.
    pub format: LogFormat,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Section `metrics`.
#[derive(Debug, Clone, Deserialize)]
pub struct MetricsConfig {
    /// Where metrics and health are served over HTTP, in clear and to whoever asks; nowhere when absent.
    pub listen: Option<SocketAddr>,
}

/// Section `drain`.
#[derive(Debug, Clone, Deserialize)]
pub struct DrainConfig {
    /// How long running actions are given to end when the daemon stops.
    #[serde(rename = "seconds", deserialize_with = "deserialize_seconds")]
    pub patience: Duration,
}

/// Section `provisioning`.
#[derive(Debug, Clone, Deserialize)]
pub struct ProvisioningConfig {
    /// The bootstrap `.creds` file, by which the machine asks to be enrolled while it has no credentials.
    pub credentials: Option<PathBuf>,
    /// The token of the newcomers' account, signed by the operator.
    pub account: PathBuf,
}

fn deserialize_octal<'de, D: Deserializer<'de>>(source: D) -> Result<u32, D::Error> {
    let digits = String::deserialize(source)?;
    u32::from_str_radix(&digits, 8).map_err(serde::de::Error::custom)
}

fn deserialize_seconds<'de, D: Deserializer<'de>>(source: D) -> Result<Duration, D::Error> {
    u64::deserialize(source).map(Duration::from_secs)
}
