//! The section `[plugins.sinks]`.

use std::path::PathBuf;

use serde::Deserialize;

use crate::event::SinkEventKind;
use crate::syslog::SyslogAddress;
use crate::webhook::WebhookOptions;

const DEFAULT_DIRECTORY: &str = "/var/lib/muster/sinks";
const DEFAULT_BATCH: usize = 100;
const MAX_BATCH: usize = 1000;
const DEFAULT_DEAD_LETTERS: usize = 1000;
const MAX_DEAD_LETTERS: usize = 10_000;
const MAX_NAME_LENGTH: usize = 40;

/// The section `[plugins.sinks]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SinksOptions {
    /// Whether this host delivers events.
    pub enabled: bool,
    /// How far each sink was read, what waits, and what was refused.
    pub directory: Option<PathBuf>,
    pub targets: Vec<SinkOptions>,
}

/// Keys that belong neither to the sink nor to its target are rejected by the target.
#[derive(Debug, Clone, Deserialize)]
pub struct SinkOptions {
    /// Unique; the name of its directory, and in metrics.
    pub name: String,
    /// Kinds of events; all when empty.
    #[serde(default)]
    pub kinds: Vec<SinkEventKind>,
    /// Names of nodes, or patterns of them; all when empty.
    #[serde(default)]
    pub identities: Vec<String>,
    /// An expression about nodes, as for `-S`.
    #[serde(default)]
    pub filter: Option<String>,
    /// Agents of the requests; when empty, also events without one.
    #[serde(default)]
    pub agents: Vec<String>,
    /// How many events are delivered together at most.
    #[serde(default)]
    pub batch: Option<usize>,
    /// How many refused events are kept.
    #[serde(default)]
    pub dead_letters: Option<usize>,
    #[serde(flatten)]
    pub target: SinkTargetOptions,
}

/// Where a sink delivers to.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum SinkTargetOptions {
    /// Posts a JSON array of events.
    Url(WebhookOptions),
    /// Exports requests and runs as spans of OpenTelemetry: OTLP over HTTP, in JSON.
    Otlp(WebhookOptions),
    /// Runs a program once per batch, with a line of JSON for each event on its standard input.
    Program {
        /// Program and arguments.
        command: Vec<String>,
        #[serde(default)]
        timeout_seconds: Option<u64>,
    },
    /// Sends messages of RFC 5424.
    Syslog {
        #[serde(default)]
        address: SyslogAddress,
    },
    /// Appends a line of JSON for each event.
    File { path: PathBuf },
}

impl SinksOptions {
    pub fn directory(&self) -> PathBuf {
        self.directory.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIRECTORY))
    }
}

impl SinkOptions {
    /// How a request over HTTP is sent, if the target is one.
    pub(crate) fn webhook(&self) -> Option<&WebhookOptions> {
        match &self.target {
            SinkTargetOptions::Url(webhook) | SinkTargetOptions::Otlp(webhook) => Some(webhook),
            _ => None,
        }
    }

    pub fn batch(&self) -> usize {
        self.batch.unwrap_or(DEFAULT_BATCH).clamp(1, MAX_BATCH)
    }

    pub fn dead_letters(&self) -> usize {
        self.dead_letters.unwrap_or(DEFAULT_DEAD_LETTERS).clamp(1, MAX_DEAD_LETTERS)
    }

    /// Whether the name can be that of a directory.
    pub(crate) fn has_valid_name(&self) -> bool {
        let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        (1..=MAX_NAME_LENGTH).contains(&self.name.len()) && self.name.chars().all(is_allowed)
    }
}
