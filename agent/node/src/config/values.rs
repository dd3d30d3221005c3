//! The typed configuration: the meaning and the units of each section.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use muster_host::CallLimits;
use muster_policy::RuleVerdict;
use muster_wire::identity::{Identity, SubjectName};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The sections `[plugins.NAME]` by name.
pub type PluginSections = BTreeMap<String, Map<String, Value>>;

#[derive(Debug, Clone, Deserialize)]
pub struct ConfigValues {
    pub identity: Identity,
    /// The collectives that the node joins; the first is its main one.
    pub collectives: Vec<SubjectName>,
    pub broker: BrokerConfig,
    pub trust: TrustConfig,
    pub paths: PathsConfig,
    pub facts: FactsConfig,
    pub limits: LimitsConfig,
    pub requests: RequestsConfig,
    pub policy: PolicyConfig,
    pub audit: AuditConfig,
    pub log: LogConfig,
    pub metrics: MetricsConfig,
    pub registration: RegistrationConfig,
    pub drain: DrainConfig,
    /// How a machine without credentials is enrolled.
    pub provisioning: ProvisioningConfig,
    /// One table per plugin, passed on unchanged.
    #[serde(default)]
    pub plugins: PluginSections,
}

#[derive(Debug, Clone, Deserialize)]
pub struct BrokerConfig {
    /// The broker URLs, tried in turn.
    pub urls: Vec<String>,
    /// The CA of the servers' certificates; absent: the system's CAs.
    pub ca: Option<PathBuf>,
    /// The node's `.creds` file: token and seed.
    pub credentials: PathBuf,
    /// Whether a server on a loopback address may be used without TLS.
    pub plaintext_on_loopback: bool,
    /// Whether the node follows the addresses and authorities in the account token.
    pub follow: bool,
    /// After a lost connection the node waits a random time up to this before it connects again.
    #[serde(rename = "reconnect_spread_seconds", deserialize_with = "deserialize_seconds")]
    pub reconnect_spread: Duration,
}

#[derive(Debug, Clone, Deserialize)]
pub struct TrustConfig {
    /// The operator's public key (`O...`).
    pub operator: String,
    /// The fleet's account token, signed by the operator.
    pub account: PathBuf,
    /// Requests are refused if the account token was not confirmed as the newest for this time; zero disables the check.
    #[serde(rename = "max_age_seconds", deserialize_with = "deserialize_seconds")]
    pub max_age: Duration,
}

#[derive(Debug, Clone, Deserialize)]
pub struct PathsConfig {
    /// Persistent state: seen requests, the engine's ledger.
    pub state: PathBuf,
    /// The directory of external facts.
    pub facts_d: PathBuf,
    /// The classes that configuration management assigned to the node, one per line.
    pub classes: PathBuf,
    pub policies: PathBuf,
    /// DDLs in addition to the built-in ones.
    pub ddls: PathBuf,
    /// The audit log, a file.
    pub audit: PathBuf,
    /// The root of the machine that resources are applied to; `/` except for images and tests.
    pub root: PathBuf,
}

#[derive(Debug, Clone, Deserialize)]
pub struct FactsConfig {
    /// The interval of fact collection.
    #[serde(rename = "refresh_seconds", deserialize_with = "deserialize_seconds")]
    pub refresh: Duration,
    /// The `facter` command, if enabled.
    pub facter: Option<PathBuf>,
    /// The cloud whose metadata service is used: `off`, `auto`, or a provider name.
    pub cloud: String,
    /// The URL of the service, if it differs from the default.
    pub cloud_url: Option<String>,
    /// Whether to use an EC2 service that issues no session token (IMDS version 1).
    pub cloud_imds_v1: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub struct LimitsConfig {
    /// Maximum number of concurrent actions per agent.
    pub concurrency: usize,
    /// Maximum number of queued requests per agent.
    pub queue: usize,
    /// Maximum size of one reply's data, in bytes.
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

impl LimitsConfig {
    /// The limits of this agent: its own where set, otherwise the common ones.
    pub fn agent_limits(&self, agent: &str) -> CallLimits {
        let own = self.agents.get(agent).cloned().unwrap_or_default();
        CallLimits {
            concurrency: own.concurrency.unwrap_or(self.concurrency),
            queue: own.queue.unwrap_or(self.queue),
            output_bytes: own.output_bytes.unwrap_or(self.output_bytes),
            ..CallLimits::default()
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct RequestsConfig {
    /// How far a caller's clock may be ahead of the node's clock.
    #[serde(rename = "skew_seconds", deserialize_with = "deserialize_seconds")]
    pub skew: Duration,
    /// Whether to accept sensitive inputs that the broker can read, from clients too old to encrypt them.
    pub plain_secrets: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub struct PolicyConfig {
    /// The verdict for an agent without a policy file.
    pub default: RuleVerdict,
    #[serde(flatten)]
    pub options: PolicyOptions,
}

/// Settings that restrict the node in addition to its policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct PolicyOptions {
    /// Whether a denial names its rule to the caller.
    pub tell_rules: bool,
    /// Whether actions that their schema marks as dangerous require a second person's approval, whatever the policy allows.
    pub approve_dangerous: bool,
}

impl Default for PolicyOptions {
    fn default() -> Self {
        Self { tell_rules: true, approve_dangerous: false }
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct AuditConfig {
    /// Whether a request that cannot be recorded is refused.
    pub fail_closed: bool,
    /// Whether an action that amounts to root access starts only when its record is in the file.
    pub fail_closed_root: bool,
    /// The size in bytes at which a file is rotated; 0 for never.
    pub max_bytes: u64,
    /// How many rotated files are kept.
    pub keep: u32,
    #[serde(deserialize_with = "deserialize_octal")]
    pub mode: u32,
    /// The group of a new file; absent: the daemon's group.
    pub group: Option<String>,
    /// Number of lines after which a checkpoint is signed.
    pub checkpoint_lines: u64,
    /// Maximum time until written lines are signed.
    #[serde(rename = "checkpoint_seconds", deserialize_with = "deserialize_seconds")]
    pub checkpoint_every: Duration,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            fail_closed: false,
            fail_closed_root: true,
            max_bytes: 100 * 1024 * 1024,
            keep: 10,
            mode: 0o640,
            group: None,
            checkpoint_lines: 1000,
            checkpoint_every: Duration::from_mins(1),
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct LogConfig {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: String,
    pub format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Text,
    /// One JSON object per line.
    Json,
}

#[derive(Debug, Clone, Deserialize)]
pub struct MetricsConfig {
    /// The listen address of metrics and health over HTTP, without TLS or authentication; absent: disabled.
    pub listen: Option<SocketAddr>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct RegistrationConfig {
    /// Whether the node publishes its record and heartbeats.
    pub enabled: bool,
    #[serde(rename = "heartbeat_seconds", deserialize_with = "deserialize_seconds")]
    pub heartbeat: Duration,
    /// Time after which facts that always change are published again.
    #[serde(rename = "refresh_seconds", deserialize_with = "deserialize_seconds")]
    pub refresh: Duration,
    /// Time between two records of a node that changes all the time. Some changes after a longer time are published at once.
    #[serde(rename = "min_interval_seconds", deserialize_with = "deserialize_seconds")]
    pub min_interval: Duration,
    /// Shortest time between two records if only states differ that change during each run.
    #[serde(rename = "state_interval_seconds", deserialize_with = "deserialize_seconds")]
    pub state_interval: Duration,
    /// Facts that always change: a new value alone is no reason for a new record.
    pub volatile_facts: Vec<String>,
    pub excluded_facts: Vec<String>,
    /// Facts of which only a hash is published.
    pub hashed_facts: Vec<String>,
    /// Whether this daemon ignores requests while another one with the same name and key runs that was started earlier.
    pub yield_to_older: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub struct DrainConfig {
    /// How long running actions may continue when the daemon stops.
    #[serde(rename = "seconds", deserialize_with = "deserialize_seconds")]
    pub timeout: Duration,
}

#[derive(Debug, Clone, Deserialize)]
pub struct ProvisioningConfig {
    /// The bootstrap `.creds` file, with which the machine requests enrolment while it has no credentials.
    pub credentials: Option<PathBuf>,
    /// The token of the enrolment account, signed by the operator.
    pub account: PathBuf,
}

fn deserialize_octal<'de, D: Deserializer<'de>>(source: D) -> Result<u32, D::Error> {
    let digits = String::deserialize(source)?;
    u32::from_str_radix(&digits, 8).map_err(serde::de::Error::custom)
}

fn deserialize_seconds<'de, D: Deserializer<'de>>(source: D) -> Result<Duration, D::Error> {
    u64::deserialize(source).map(Duration::from_secs)
}
