//! The section `[plugins.provisioner]`: unknown keys are refused, so that a step whose name is misspelt is no step that never runs.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::enrol::EnrolmentOptions;
use crate::plan::StepName;

/// How this host provisions, if it does.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Whether this host provisions at all.
    pub enabled: bool,
    /// Credentials of a service of the fleet.
    pub credentials: PathBuf,
    /// What it takes to enrol newcomers; without it only nodes that have credentials already are provisioned.
    pub newcomers: Option<EnrolmentOptions>,
    /// Facts by which a node's master is chosen: the first that any master shares with the node decides.
    pub criteria: Vec<String>,
    /// Which masters there are, as `-W` takes it; those that offer `puppetca` when empty.
    pub masters: String,
    /// The fact of a master that holds its address.
    pub address_fact: String,
    /// Whether a node that shares no criterion with any master gets one all the same.
    pub any_master: bool,
    /// How many nodes are worked on at once.
    pub workers: usize,
    /// How often a step is tried before the node counts as failed.
    pub tries: u32,
    /// The pause before the second try, in seconds; it doubles with each.
    pub backoff: u64,
    /// The longest pause, in seconds.
    pub backoff_most: u64,
    /// How often nodes are looked for that were made known in no other way, in seconds; 0: never.
    pub discover_seconds: u64,
    /// Whether a certificate that was signed is revoked when a later step fails for good.
    pub compensate: bool,
    /// How long the leader leads without a sign of life, in milliseconds.
    pub lease_millis: u64,
    /// What is other than usual about the steps, and further ones.
    pub steps: Vec<StepOptions>,
    /// Who is told of what.
    pub notify: Vec<NotificationTarget>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            enabled: false,
            credentials: PathBuf::from("/etc/muster/provisioner/service.creds"),
            newcomers: None,
            criteria: vec!["cloud.region".to_owned(), "country".to_owned()],
            masters: String::new(),
            address_fact: "networking.ip".to_owned(),
            any_master: true,
            workers: 20,
            tries: 5,
            backoff: 5,
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
    /// How long the leader leads without a sign of life.
    pub fn leader_lease(&self) -> Duration {
        Duration::from_millis(self.lease_millis.max(300))
    }
}

/// One step, as the operator wants it. A name that is none of ours is a further step, and says what does it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepOptions {
    /// The step.
    pub name: StepName,
    /// Off: it counts as done.
    #[serde(default = "default_enabled")]
    pub enabled: bool,
    /// Which step it follows, instead of the usual one.
    #[serde(default)]
    pub after: Option<StepName>,
    /// An agent's action that does it instead.
    #[serde(default)]
    pub agent: Option<AgentStep>,
    /// A program that does it instead.
    #[serde(default)]
    pub helper: Option<HelperStep>,
    /// How often it is tried, instead of the usual number.
    #[serde(default)]
    pub tries: Option<u32>,
    /// How long a try may take, in seconds, where this service asks for it itself; an hour for runs of Puppet otherwise.
    #[serde(default)]
    pub timeout: Option<u64>,
    /// Inputs of the action that usually does it, beside ours: `environment`, `server` and so on.
    #[serde(default)]
    pub inputs: Map<String, Value>,
}

fn default_enabled() -> bool {
    true
}

/// An action that does a step. What it answers is kept with the node, under the step's name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentStep {
    /// The agent.
    pub agent: String,
    /// The action.
    pub action: String,
    /// Its inputs; a text `{{name}}` is replaced by what is known of the node under that name.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// Who is asked.
    #[serde(default)]
    pub on: StepTarget,
    /// How long it may take, in seconds.
    #[serde(default = "default_agent_timeout")]
    pub timeout: u64,
}

fn default_agent_timeout() -> u64 {
    60
}

/// Who does an agent's step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepTarget {
    /// The node itself.
    #[default]
    Node,
    /// The master that was chosen for it.
    Master,
}

/// A program that does a step: JSON on its standard input, JSON on its standard output.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HelperStep {
    /// Program and arguments.
    pub command: Vec<String>,
    /// How long it may take, in seconds.
    #[serde(default = "default_program_timeout")]
    pub timeout: u64,
}

fn default_program_timeout() -> u64 {
    10
}

/// Who is told, and how. Keys that are neither its own nor its channel's are refused by the channel.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NotificationTarget {
    /// A name of its own, by which it is remembered who was told.
    pub name: String,
    /// Of what it is told; everything when empty.
    #[serde(default)]
    pub events: Vec<NotificationEvent>,
    /// The way to it.
    #[serde(flatten)]
    pub channel: NotificationChannel,
}

/// What a target may be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NotificationEvent {
    /// A node is done.
    Done,
    /// A node failed for good.
    Failed,
    /// A node was retired.
    Retired,
}

impl NotificationEvent {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Retired => "retired",
        }
    }
}

/// Where a webhook is: `https`, or `http` on this machine. What is told names nodes, and a token may go with it: neither travels in clear.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct WebhookUrl(String);

/// A text that is no address of a webhook. It is not repeated: a password may be in it.
#[derive(Debug, thiserror::Error)]
#[error(
    "a webhook's `url` is https://HOST..., or http:// on this machine's loopback, without a user or password in it"
)]
pub struct WebhookUrlError;

impl WebhookUrl {
    /// The address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for WebhookUrl {
    type Error = WebhookUrlError;

    fn try_from(text: String) -> Result<Self, WebhookUrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(WebhookUrlError)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
        let good = match scheme {
            "https" => true,
            "http" => is_loopback(authority),
            _ => false,
        };
        if !good || authority.is_empty() || authority.contains('@') || text.contains(odd) {
            return Err(WebhookUrlError);
        }
        Ok(Self(text))
    }
}

fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// A way to tell somebody.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum NotificationChannel {
    /// A document, posted to a URL.
    Webhook {
        /// Where to.
        url: WebhookUrl,
        /// A file with a secret that goes as a bearer token.
        #[serde(default)]
        token_file: Option<PathBuf>,
        /// PEM file of the authority of its certificate; the machine's when absent.
        #[serde(default)]
        ca: Option<PathBuf>,
    },
    /// A mail, over SMTP.
    Smtp {
        /// `host:port`.
        server: String,
        /// From whom.
        from: String,
        /// To whom.
        to: Vec<String>,
    },
    /// A program that gets the document on its standard input.
    Command {
        /// Program and arguments.
        command: Vec<String>,
        /// How long it may take, in seconds.
        #[serde(default = "default_program_timeout")]
        timeout: u64,
    },
}
