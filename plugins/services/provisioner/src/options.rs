//! Options of the service: the section `[plugins.provisioner]`. Unknown keys are rejected, so that a misspelt step name is an error and not a step
//! that never runs.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use muster_api::wire::limits::MAX_NODE_TOKEN_SECONDS;
use muster_api::wire::token::Seconds;
use muster_sinks::{ProvisionQueue, WebhookOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of a configuration section"
)]
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Whether this host provisions nodes.
    pub enabled: bool,
    /// Credentials of a service of the fleet.
    pub credentials: PathBuf,
    /// Enrolment of bootstrapping nodes; without it only nodes that already have credentials are provisioned.
    pub newcomers: Option<EnrolmentOptions>,
    /// Whether nodes are provisioned for Puppet. Otherwise the steps with masters, certificates and runs are not in the plan, unless `steps` names them.
    pub puppet: bool,
    /// Facts by which a node's master is chosen: the first for which any master has the node's value decides.
    pub criteria: Vec<String>,
    /// Filter for masters, in the syntax of `-W`; when empty, all nodes with the agent `puppetca`.
    pub masters: String,
    /// The fact of a master that contains its address.
    pub address_fact: String,
    /// Whether a node that matches no master by any criterion gets any master.
    pub any_master: bool,
    /// Number of nodes processed concurrently.
    pub workers: usize,
    /// Number of tries of a step before the node is marked as failed.
    pub tries: u32,
    /// Pause before the second try, in seconds; it doubles with each further try.
    pub backoff: u64,
    /// Longest pause, in seconds.
    pub backoff_most: u64,
    /// Interval of the discovery of nodes that are not registered otherwise, in seconds; 0: never.
    pub discover_seconds: u64,
    /// Whether a signed certificate is revoked when a later step fails permanently.
    pub compensate: bool,
    /// Lease of the leader without a renewal, in milliseconds.
    pub lease_millis: u64,
    /// Changes to the default steps, and additional steps.
    pub steps: Vec<StepOptions>,
    pub notify: Vec<NotificationTarget>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            enabled: false,
            credentials: PathBuf::from("/etc/muster/provisioner/service.creds"),
            newcomers: None,
            puppet: true,
            criteria: vec!["cloud.region".to_owned(), "country".to_owned()],
            masters: String::new(),
            address_fact: "networking.ip".to_owned(),
            any_master: true,
            workers: 20,
            tries: 7,
            backoff: 1,
            backoff_most: 300,
            discover_seconds: 60,
            compensate: true,
            lease_millis: 9_000,
            steps: Vec::new(),
            notify: Vec::new(),
        }
    }
}

impl Options {
    /// Notifies these sinks of all events, too.
    #[must_use]
    pub fn with_sinks(mut self, sinks: Vec<(String, ProvisionQueue)>) -> Self {
        self.notify.extend(sinks.into_iter().map(|(name, queue)| NotificationTarget {
            // No name of the configuration: it may contain the same one.
            name: format!("sinks/{name}"),
            events: Vec::new(),
            channel: NotificationChannel::Sink(queue),
        }));
        self
    }

    /// Lease of the leader without a renewal; at least 300 ms.
    pub fn leader_lease(&self) -> Duration {
        Duration::from_millis(self.lease_millis.max(300))
    }
}

/// `[plugins.provisioner.newcomers]`: enrolment of machines that have only a bootstrap token.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrolmentOptions {
    /// Credentials of a service in the bootstrap account.
    pub credentials: PathBuf,
    /// Account token of that account.
    pub account: PathBuf,
    /// The key that signs nodes of the fleet.
    pub node_key: PathBuf,
    /// Lifetime of a node's token, in seconds: 90 days when absent, and at most; 0 means that the token never expires. The service renews a token
    /// after a third of its lifetime.
    #[serde(default)]
    pub lifetime: Option<Seconds>,
}

impl EnrolmentOptions {
    /// Lifetime of a node's token; `None` means that it never expires.
    pub fn token_lifetime(&self) -> Option<Seconds> {
        match self.lifetime {
            None => Some(MAX_NODE_TOKEN_SECONDS),
            Some(0) => None,
            Some(seconds) => Some(seconds.min(MAX_NODE_TOKEN_SECONDS)),
        }
    }
}

/// A name that is not built in defines an additional step, which needs an `agent` or a `helper`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepOptions {
    pub name: StepName,
    /// If false, the step counts as done.
    #[serde(default = "default_enabled")]
    pub enabled: bool,
    /// The step that it follows, instead of the default.
    #[serde(default)]
    pub after: Option<StepName>,
    /// An agent's action that does the step instead.
    #[serde(default)]
    pub agent: Option<AgentStep>,
    /// A program that does the step instead. The program of `configure` returns what is delivered to the node.
    #[serde(default)]
    pub helper: Option<HelperStep>,
    /// Number of tries, instead of the default.
    #[serde(default)]
    pub tries: Option<u32>,
    /// Timeout of one try, in seconds, for built-in steps; the default for runs of Puppet is one hour.
    #[serde(default)]
    pub timeout: Option<u64>,
    /// Additional inputs of the built-in action: `environment`, `server` and so on; what `configure` delivers to every node.
    #[serde(default)]
    pub inputs: Map<String, Value>,
}

fn default_enabled() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StepName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a step name; use 1 to 40 of the characters a-z, 0-9 and _")]
pub struct StepNameError(String);

impl TryFrom<String> for StepName {
    type Error = StepNameError;
    fn try_from(text: String) -> Result<Self, StepNameError> {
        let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if text.is_empty() || text.len() > 40 || !text.chars().all(is_allowed) {
            return Err(StepNameError(text.chars().take(40).collect()));
        }
        Ok(Self(text))
    }
}

impl From<StepName> for String {
    fn from(name: StepName) -> Self {
        name.0
    }
}

impl StepName {
    pub(crate) fn builtin(name: &'static str) -> Self {
        Self(name.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An action that does a step. Its reply is stored with the node, under the step's name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentStep {
    pub agent: String,
    pub action: String,
    /// Its inputs; a value `{{name}}` is replaced by the node's stored value of that name.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    #[serde(default)]
    pub on: StepTarget,
    /// Timeout, in seconds.
    #[serde(default = "default_agent_timeout")]
    pub timeout: u64,
}

fn default_agent_timeout() -> u64 {
    60
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepTarget {
    #[default]
    Node,
    /// The master that was chosen for the node.
    Master,
}

/// A program that does a step: JSON on its standard input, JSON on its standard output.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HelperStep {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Timeout, in seconds.
    #[serde(default = "default_program_timeout")]
    pub timeout: u64,
}

fn default_program_timeout() -> u64 {
    10
}

/// Keys that belong neither to the target nor to its channel are rejected by the channel.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NotificationTarget {
    /// Unique name, under which the delivery state is stored.
    pub name: String,
    /// Events to send; all when empty.
    #[serde(default)]
    pub events: Vec<NotificationEvent>,
    #[serde(flatten)]
    pub channel: NotificationChannel,
}

/// Event that a target can be notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NotificationEvent {
    Done,
    /// A node failed permanently.
    Failed,
    Retired,
}

impl NotificationEvent {
    /// The name as used in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Retired => "retired",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum NotificationChannel {
    /// Posts the document to a URL.
    Webhook(WebhookOptions),
    Smtp {
        /// `host:port`.
        server: String,
        from: String,
        to: Vec<String>,
    },
    /// Runs a program with the document on its standard input.
    Command {
        /// Program and arguments.
        command: Vec<String>,
        /// Timeout, in seconds.
        #[serde(default = "default_program_timeout")]
        timeout: u64,
    },
    /// Leaves the document to a sink of this host. Not of the configuration of the provisioner.
    #[serde(skip)]
    Sink(ProvisionQueue),
}
