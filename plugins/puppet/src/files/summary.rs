//! Reads `last_run_summary.yaml`, in the forms of Puppet 3 to 8, and of the engine.

use serde_json::{Map, Value};

use super::yaml;

pub(crate) const MAX_SUMMARY_BYTES: u64 = 256 * 1024;

/// In the version of Puppet that a summary of the engine names.
const ENGINE_MARK: &str = "+muster.";

/// A parsed summary. Sections that a failed run does not write are missing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PuppetRunSummary(Map<String, Value>);

impl PuppetRunSummary {
    /// Parses a complete summary; Puppet 3 writes `false` as the first document.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match yaml::parse_mapping(text)? {
            Value::Object(sections) => Some(Self(sections)),
            _ => None,
        }
    }

    fn section_value(&self, section: &str, name: &str) -> Option<&Value> {
        self.0.get(section)?.get(name)
    }

    /// When the run ended, in seconds since 1970.
    pub(crate) fn last_run(&self) -> Option<u64> {
        self.section_value("time", "last_run")?.as_u64()
    }

    /// A value of the section `time`, in seconds.
    pub(crate) fn time_value(&self, name: &str) -> Option<f64> {
        self.section_value("time", name)?.as_f64()
    }

    /// The catalog's version; its format depends on the site.
    pub(crate) fn config_version(&self) -> Option<String> {
        value_text(self.section_value("version", "config")?)
    }

    /// The environment that the run ended with.
    pub(crate) fn environment(&self) -> Option<String> {
        value_text(self.section_value("application", "converged_environment")?)
    }

    /// A counter of the section `resources`.
    pub(crate) fn resource_count(&self, name: &str) -> Option<u64> {
        self.section_value("resources", name)?.as_u64()
    }

    /// Number of events that were not applied because of noop. Puppet writes it only if there are any.
    pub(crate) fn noop_count(&self) -> u64 {
        self.section_value("events", "noop").and_then(Value::as_u64).unwrap_or_default()
    }

    /// `time` contains seconds per resource type besides the phases of the run.
    pub(crate) fn all_sections(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Whether the run failed as a whole. Puppet's run without a catalog counts no failures; it is recognised by missing values. The engine writes a summary
    /// only if it had a catalog, which need not have a version.
    pub(crate) fn is_failed_run(&self) -> bool {
        let version = self.section_value("version", "puppet").and_then(Value::as_str);
        !version.is_some_and(|version| version.contains(ENGINE_MARK))
            && (self.config_version().is_none()
                || self.time_value("config_retrieval").is_none()
                || self.resource_count("total").unwrap_or_default() == 0)
    }

    /// Number of resources that failed, or whose refresh failed.
    pub(crate) fn failure_count(&self) -> u64 {
        let count = |name| self.resource_count(name).unwrap_or_default();
        count("failed").saturating_add(count("failed_to_restart"))
    }

    /// Whether the run or any resource failed.
    pub(crate) fn has_failures(&self) -> bool {
        let failures = self.section_value("events", "failure").and_then(Value::as_u64);
        self.is_failed_run() || self.failure_count() > 0 || failures.unwrap_or_default() > 0
    }
}

/// A value as text; `None` for null and the empty string.
pub(crate) fn value_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::PuppetRunSummary;

    /// Summaries recorded from Puppet 7.23 and older versions.
    #[test]
    fn summaries_without_a_catalog_are_failed_runs() {
        let good = "---\nversion:\n  config: 1795314054\n  puppet: 7.23.0\nresources:\n  failed: 0\n  total: 7\n\
            time:\n  config_retrieval: 0\n  total: 0.1\n  last_run: 1795314059\nevents:\n  failure: 0\n";
        let no_catalog = "---\nversion:\n  config:\n  puppet: 7.23.0\napplication:\n  run_mode: agent\n\
            resources:\n  changed: 0\n  failed: 0\n  total: 0\ntime:\n  total: 2.3\n  last_run: 1\nchanges:\n  total: 0\nevents:\n  failure: 0\n  total: 0\n";
        let puppet_4_failed_compile =
            "---\n  version:\n    config:\n    puppet: \"4.10.1\"\n  time:\n    last_run: 1\n";
        let symbols = "---\n:version:\n  :config: 3\nresources:\n  :total: 2\n  failed: 1\ntime:\n  config_retrieval: 1.5\n  last_run: 5\n";
        for (text, failed_run, failed) in [
            (good, false, false),
            (no_catalog, true, true),
            (puppet_4_failed_compile, true, true),
            (symbols, false, true),
        ] {
            let summary = PuppetRunSummary::parse(text).unwrap();
            assert_eq!(
                (summary.is_failed_run(), summary.has_failures()),
                (failed_run, failed),
                "{text}"
            );
        }
        assert_eq!(PuppetRunSummary::parse("false"), None);
    }
}
