//! Reads `last_run_summary.yaml`, in the forms of Puppet 3 to 8.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// Largest summary, in bytes.
pub(super) const BYTES: u64 = 256 * 1024;

/// What a run left. Sections that a failed run does not write are empty.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Summary {
    #[serde(default)]
    version: BTreeMap<String, Value>,
    #[serde(default)]
    resources: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    events: BTreeMap<String, Value>,
    #[serde(default)]
    time: BTreeMap<String, Value>,
}

impl Summary {
    /// A whole summary; Puppet 3 writes the word `false` first.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let options = serde_saphyr::options! {
            alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 1_000 },
        };
        serde_saphyr::from_str_with_options(text, options).ok()
    }

    /// When the run ended, in seconds since 1970.
    pub(super) fn last_run(&self) -> Option<u64> {
        self.time.get("last_run")?.as_u64()
    }

    /// How long it took, in seconds.
    pub(super) fn total_time(&self) -> Option<f64> {
        self.time.get("total")?.as_f64()
    }

    /// The catalog's version, whatever the site writes there.
    pub(super) fn config_version(&self) -> Option<String> {
        match self.version.get("config")? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
            other => Some(other.to_string()),
        }
    }

    /// One of the counters of resources.
    pub(super) fn resources(&self, name: &str) -> Option<u64> {
        self.resources.as_ref()?.get(name)?.as_u64()
    }

    /// Whether the run failed. A run without a catalog counts no failures: it is told by what it lacks.
    pub(super) fn failed(&self) -> bool {
        let none = |name| self.resources(name).unwrap_or_default() == 0;
        let failures = self.events.get("failure").and_then(Value::as_u64);
        self.config_version().is_none()
            || none("total")
            || !none("failed")
            || !none("failed_to_restart")
            || failures.unwrap_or_default() > 0
    }
}
