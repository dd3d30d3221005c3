//! Reads the summary of a run, `last_run_summary.yaml`. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

pub(crate) const MAX_SUMMARY_BYTES: u64 = 256 * 1024;

/// Counters of a run. Sections that a failed run does not write are empty.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ProvisionRunSummary {
    #[serde(default)]
    version: BTreeMap<String, Value>,
    #[serde(default)]
    application: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) resources: Map<String, Value>,
    #[serde(default)]
    events: BTreeMap<String, Value>,
}

impl ProvisionRunSummary {
    /// Parses a complete summary.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let options = serde_saphyr::options! {
            alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 1_000 },
        };
        serde_saphyr::from_str_with_options(text, options).ok()
    }

    /// The catalog's version; `None` without a catalog.
    pub(crate) fn config_version(&self) -> Option<String> {
        value_text(self.version.get("config")?)
    }

    /// The environment that the run ended with, if the summary contains it.
    pub(crate) fn environment(&self) -> Option<String> {
        let names = ["converged_environment", "initial_environment"];
        names.iter().find_map(|name| value_text(self.application.get(*name)?))
    }

    pub(crate) fn resource_count(&self, name: &str) -> u64 {
        let count = self.resources.get(name).and_then(Value::as_u64);
        count.unwrap_or_default()
    }

    pub(crate) fn failure_count(&self) -> u64 {
        let events = self.events.get("failure").and_then(Value::as_u64);
        let resources = self.resource_count("failed") + self.resource_count("failed_to_restart");
        resources.max(events.unwrap_or_default())
    }

    /// Whether a catalog was applied. A run without one counts no failures; it is recognised by missing values.
    pub(crate) fn was_applied(&self) -> bool {
        self.config_version().is_some() && self.resource_count("total") > 0
    }
}

fn value_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        other => Some(other.to_string()),
    }
}
